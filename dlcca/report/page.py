"""The report of a result: one HTML file with everything in it."""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dlcca.report import comparison, explorer, overview, panels, sentences
from dlcca.report.figures import Panel, data_block
from dlcca.report.overview import Overview
from dlcca.report.sentences import counted, duration, listed, number
from dlcca.report.sentences import headline as headline
from dlcca.settings.fit import OPTIONS, Settings
from dlcca.storage import places
from dlcca.storage.comparison import Comparison
from dlcca.storage.cost import format_bytes
from dlcca.storage.files import atomic_file
from dlcca.storage.run import Run

#: In every report: a file with it may be replaced.
_MARK = b'<meta name="generator" content="dlcca">'
#: The event in the log of a run that holds its plan.
PLANNED = "planned"


def render(
    found: Run | Overview,
    *,
    title: str = "dlcca report",
    lead: str = "",
    known: Sequence[Panel] = (),
    marks: Mapping[str, float] | None = None,
    compared: Comparison | None = None,
) -> str:
    """The page as text, of a run in memory, or of the overview of one that was read some rows at a time.

    The ``title`` is above the headline, ``lead`` a sentence below it. ``known`` are panels that compare the result with
    a known truth, ``marks`` known frequencies by name. An overview needs the rows that were ``compared`` in the sample.
    """
    if not isinstance(found, Overview):
        found = overview.of_run(found, also=() if compared is None else compared.rows)
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader, script, sample = FileSystemLoader(Path(__file__).parent), explorer.script(), found.rows.sample
    options: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=loader, undefined=StrictUndefined, **options)
    return environment.get_template("template.html").render(
        title=title,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        created=created(found),
        headline=headline(found),
        warnings=found.warnings,
        leads=(sentences.explained(found), sentences.evidence(found), lead),
        notes=[*found.quality.get("notes", []), *sentences.linear_cca(found)],  # no reasons to distrust the result
        facts=_facts(found),
        known=known,
        explorer=explorer.content(found),
        panels=panels.panels(found, marks),
        compared=None if compared is None else comparison.content(compared, sample.time[sample.at(compared.rows)]),
        measures=sentences.measures(found),
        settings=settings(found),
        costs=costs(found) if found.cost else None,
        whole_cost=_whole(found),
        fingerprint=found.fingerprint,
        versions=", ".join(f"{name} {version}" for name, version in found.versions.items()),
        size=None if found.stored_bytes is None else format_bytes(found.stored_bytes),
        moments=data_block(explorer.time_format(found), "moments"),
        script=script,
    )


def write(path: str | Path, page: str) -> None:
    """Write a page atomically; a report that is there already is replaced, another file is refused."""
    refuse_foreign(Path(path))
    with atomic_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def refuse_foreign(path: Path, inputs: Iterable[str | Path] = ()) -> None:
    """An error if a report cannot be written there: it is an input, or another file is there."""
    places.refuse_file(path, lambda file: _MARK in places.starts_with(file, 4000), "a dlcca report", inputs=inputs)


def _facts(found: Overview) -> list[tuple[str, str, str]]:
    """The numbers at the top: name, value and detail."""
    channels = ", ".join(f"{name}: {counted(d, 'channel')}" for name, d in found.views.items())
    spectrum = ", ".join(f"{value:.2f}" for value in found.eigenvalues[:4])
    common = (str(found.n_common), "common to all views") if len(found.views) > 1 else ("not tested", "one view")
    left_out = int(found.rows.stretches.reasons[:, 1:].sum())
    about = [found.time_axis.duration(), f"{number(left_out)} left out" if left_out else ""]
    return [
        ("views", str(len(found.views)), channels),
        ("rows", number(found.n), ", ".join(text for text in about if text)),
        ("common dimensions", *common),
        ("coordinates", str(found.q), f"eigenvalues {spectrum}" if spectrum else ""),
        ("landmarks", number(len(found.landmarks)), ""),
    ]


def settings(found: Overview) -> Iterator[tuple[str, ...]]:
    """Every option with its value, and the reason if the program chose it."""
    usual, chosen = Settings().options(), {}
    for line in found.choices:  # "landmarks = 400: every sample", or "missing_chunks = 'fill': view 'left' lacks 2"
        option, _, rest = line.partition(" = ")
        chosen[option] = rest.partition(": ")
    for option in dict.fromkeys((*OPTIONS, *chosen)):
        if option in OPTIONS:
            section, key = OPTIONS[option]
            value = found.settings.get(section, {}).get(key, "")
            why = "default" if value == usual[option] else "as set"
            why = f"chosen: {chosen[option][2]}" if option in chosen else why
        else:
            value, _, why = chosen[option]
        yield option, str(value), why


def created(found: Overview) -> str:
    return re.sub(r"\.\d+", "", found.created).replace("T", " ").replace("+00:00", " UTC")


def costs(found: Overview) -> tuple[list[str], list[tuple[str, ...]]]:
    """Headings, and the cost of each stage, beside its plan where there is one."""
    cost, planned = found.cost, (_last(found.events, PLANNED) or {}).get("stages", {})
    columns: list[tuple[str, dict[str, float], Callable[[float], str]]] = [  # heading, values by stage, their format
        ("tasks", {stage: each["tasks"] for stage, each in cost.items()}, number),
        ("workers' time", {stage: each["seconds"] for stage, each in cost.items()}, duration),
        ("by the clock", wall_seconds(found.events), duration),
        ("planned", {stage: each["seconds"] for stage, each in planned.items()}, duration),
        ("largest memory", {stage: peak for stage, each in cost.items() if (peak := each["peak_bytes"])}, format_bytes),
        ("planned", {stage: each["memory"] for stage, each in planned.items()}, format_bytes),
    ]
    shown = [column for column in columns if column[1]]
    rows = [(stage, *(text(of[stage]) if stage in of else "–" for _, of, text in shown)) for stage in cost]
    return ["stage", *(heading for heading, _, _ in shown)], rows


def wall_seconds(events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds by the clock from the start of each stage to its end, summed over all runs on the store."""
    began: dict[str, datetime] = {}
    took: dict[str, float] = {}
    for event in events:
        stage = event.get("stage", "")
        if event["event"] == "stage started":
            began[stage] = datetime.fromisoformat(event["time"])
        elif event["event"] == "stage finished" and stage in began:
            now = datetime.fromisoformat(event["time"])
            took[stage] = took.get(stage, 0.0) + (now - began.pop(stage)).total_seconds()
    return took


def _whole(found: Overview) -> str:
    """The cost of the whole run beside its plan, with retries and lost workers."""
    plan, end = _last(found.events, PLANNED), _last(found.events, "finished")
    spent = sum(cost["seconds"] for cost in found.cost.values())
    text = f"Workers spent {duration(spent)} in all."
    if end is not None and "seconds" in end:
        text += f" The last run took {duration(end['seconds'])} by the clock"
        names = [event["event"] for event in found.events]
        begun = len(names) - 1 - names[::-1].index("started") if "started" in names else 0
        earlier = names[begun:].count("stage found finished")
        text += f", and found {counted(earlier, 'stage')} finished by an earlier one" if earlier else ""
        if plan is not None:
            which, rates = " for all" if earlier else "", plan.get("rates", "a guess")
            text += f"; {duration(plan['seconds'])} had been planned{which}, by rates that were {rates}"
        text += "."
    counts = Counter(event["event"] for event in found.events)
    kinds = (("retry", "task", "retried"), ("worker lost", "worker", "lost"))
    problems = [f"{counted(counts[event], noun)} {what}" for event, noun, what in kinds if counts[event]]
    return f"{text} On the way: {listed(problems)}." if problems else text


def _last(events: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((event for event in reversed(events) if event["event"] == name), None)

"""Where a result comes from: settings and why, what every stage took against its plan, versions, what happened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from dlcca.report.measures import measures
from dlcca.report.overview import Overview
from dlcca.report.words import counted, duration, listed, number, size
from dlcca.settings.fit import OPTIONS, Settings

#: The event in the log of a run that holds its plan.
PLANNED = "planned"


def sections(found: Overview) -> str:
    """All of it, as the last part of a page."""
    parts = [
        _section("How far to trust it", ("measure", "value", "meaning"), measures(found)),
        _section("How it was made", ("setting", "value", "why"), settings(found)),
        _cost_section(found),
        _section("Where it comes from", ("what", "value"), provenance(found)),
    ]
    return "\n".join(part for part in parts if part)


def settings(found: Overview) -> Iterator[tuple[str, ...]]:
    """Every option with its value, and the reason if the program chose it."""
    reasons, usual = {}, Settings().options()
    for line in found.choices:  # "landmarks = 400: every sample"
        option, _, rest = line.partition(" = ")
        reasons[option] = rest.partition(": ")[2]
    for option, (section, key) in OPTIONS.items():
        value = found.settings.get(section, {}).get(key, "")
        why = f"chosen: {reasons[option]}" if option in reasons else "as usual" if value == usual[option] else "as set"
        yield f"<code>{escape(option)}</code>", f"<code>{escape(str(value))}</code>", escape(why)
    for line in found.choices:  # of the input: "missing_chunks = 'fill': view 'left' lacks 2 of 20 chunks"
        option, _, rest = line.partition(" = ")
        value, _, why = rest.partition(": ")
        if option not in OPTIONS:
            yield f"<code>{escape(option)}</code>", f"<code>{escape(value)}</code>", escape(why)


def provenance(found: Overview) -> Iterator[tuple[str, ...]]:
    """Facts by name."""
    yield "made", escape(moment(found))
    yield "fingerprint of inputs and settings", f'<code class="long">{escape(found.fingerprint)}</code>'
    yield "versions", escape(", ".join(f"{name} {version}" for name, version in found.versions.items()))
    if found.stored_bytes is not None:
        yield "size of the store", escape(size(found.stored_bytes))


def moment(found: Overview) -> str:
    """When the result was made."""
    return re.sub(r"\.\d+", "", found.created).replace("T", " ").replace("+00:00", " UTC")


def costs(found: Overview) -> tuple[list[str], list[tuple[str, ...]]]:
    """Headings, and for each stage what it took, beside its plan where there was one."""
    plan = _last(found.events, PLANNED) or {}
    planned: Mapping[str, Any] = plan.get("stages", {})
    clock = wall_seconds(found.events)
    heads = ["stage", "tasks", "workers' time"]
    heads += ["by the clock"] if clock else []
    heads += ["planned"] if planned else []
    heads += ["largest memory"] + (["planned"] if planned else [])
    rows = []
    for stage, cost in found.cost.items():
        foreseen = planned.get(stage, {})
        row = [f"<code>{escape(stage)}</code>", number(cost["tasks"]), duration(cost["seconds"])]
        row += [duration(clock[stage]) if stage in clock else "–"] if clock else []
        row += [duration(foreseen["seconds"]) if foreseen else "–"] if planned else []
        row += [size(cost["peak_bytes"]) if cost["peak_bytes"] else "–"]
        row += [size(foreseen["memory"]) if foreseen else "–"] if planned else []
        rows.append(tuple(row))
    return heads, rows


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


def _cost_section(found: Overview) -> str:
    if not found.cost:
        return ""
    heads, rows = costs(found)
    return _section("What it took", heads, rows, after=_whole(found), numbers_from=1)


def _whole(found: Overview) -> str:
    """What the run took in all, against its plan, and what went wrong on the way."""
    plan, end = _last(found.events, PLANNED), _last(found.events, "finished")
    spent = sum(cost["seconds"] for cost in found.cost.values())
    text = f"Workers spent {duration(spent)} in all."
    if end is not None and "seconds" in end:
        text += f" The last run took {duration(end['seconds'])} by the clock"
        earlier = _found_finished(found.events)
        text += f", and found {counted(earlier, 'stage')} finished by an earlier one" if earlier else ""
        if plan is not None:
            text += (
                f"; {duration(plan['seconds'])} had been planned{' for all' if earlier else ''}, by rates that were "
            )
            text += plan.get("rates", "a guess")
        text += "."
    counts = {name: sum(event["event"] == name for event in found.events) for name in ("retry", "worker lost")}
    troubles = [f"{counted(counts['retry'], 'task')} begun again"] * bool(counts["retry"])
    troubles += [f"{counted(counts['worker lost'], 'worker')} lost"] * bool(counts["worker lost"])
    return f"{text} On the way: {listed(troubles)}." if troubles else text


def _found_finished(events: Sequence[Mapping[str, Any]]) -> int:
    """Stages that the last run had no more to do."""
    names = [event["event"] for event in events]
    begun = len(names) - 1 - names[::-1].index("started") if "started" in names else 0
    return names[begun:].count("stage found finished")


def _last(events: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return next((event for event in reversed(events) if event["event"] == name), None)


def _section(
    title: str, heads: Sequence[str], rows: Iterable[tuple[str, ...]], *, after: str = "", numbers_from: int = 99
) -> str:
    """A heading and a table; columns from ``numbers_from`` on hold numbers."""
    head = "".join(f'<th scope="col"{_kind(i >= numbers_from)}>{escape(name)}</th>' for i, name in enumerate(heads))
    body = "\n".join(_row(row, numbers_from) for row in rows)
    name = title.lower().replace(" ", "-")
    end = f'\n<p class="after">{escape(after)}</p>' if after else ""
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>\n'
        '<div class="scroll">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>{end}\n</section>"
    )


def _row(row: tuple[str, ...], numbers_from: int) -> str:
    first, *others = row
    cells = "".join(f"<td{_kind(i >= numbers_from)}>{cell}</td>" for i, cell in enumerate(others, start=1))
    return f'<tr><th scope="row">{first}</th>{cells}</tr>'


def _kind(is_number: bool) -> str:
    return ' class="number"' if is_number else ""

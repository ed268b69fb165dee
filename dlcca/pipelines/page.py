"""The page of a pipeline: one HTML file with runs, failures, drift, models and days, and a report of each model.

This module selects what is shown; `page.html` is a template of Jinja that draws it, and escapes all text.
"""

import json
import math
import os
from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from dlcca.errors import SettingsError
from dlcca.pipelines import versions
from dlcca.pipelines.catalog import Row
from dlcca.pipelines.context import Pipeline, Say, opened
from dlcca.pipelines.publish import places
from dlcca.pipelines.settings import MEASURES, DriftSection
from dlcca.pipelines.summary import status
from dlcca.storage.files import files_at
from dlcca.storage.places import refuse_file

#: Identifies a page of dlcca, which may be replaced.
MARK = '<meta name="generator" content="dlcca">'
#: Maximum number of rows, the latest; all of them are in `dlcca pipeline history`.
MOST = {"runs": 60, "failures": 200, "days": 60, "drift": 400}
#: SQL: runs that did something, or failed. The others may be many, and are only counted.
NEWS = "ended IS NULL OR exit_code != 0 OR verb = 'rollback' OR coalesce(json_extract(summary, '$.news'), 0)"
#: SQL of these rows: runs, with the seconds they took; recordings that were not embedded, and files and folders that
#: cannot be read; published days; measurements of drift, in order of day.
QUERIES = {
    "runs": f"SELECT *, 86400 * (julianday(ended) - julianday(started)) AS seconds FROM runs WHERE {NEWS} "
    "ORDER BY id DESC LIMIT ?",
    "failures": "SELECT path, day, status AS what, reason, finished AS at FROM recordings "
    "WHERE status IN ('refused', 'held', 'failed') UNION ALL "
    "SELECT path, NULL, 'unreadable', reason, first_seen FROM files WHERE state IN ('unreadable', 'closed') "
    "ORDER BY at DESC LIMIT ?",
    "days": "SELECT * FROM partitions ORDER BY day DESC LIMIT ?",
    "drift": "SELECT * FROM (SELECT drift.*, recordings.day, recordings.start, recordings.path FROM drift "
    "JOIN recordings ON recordings.id = drift.recording ORDER BY drift.id DESC LIMIT ?) "
    "ORDER BY coalesce(day, ''), coalesce(start, ''), id",
}
#: Meaning of exit codes.
ENDS = {0: "done", 2: "wrong setting", 3: "recordings refused", 4: "storage or cluster failed", 5: "not to be trusted"}
STATUSES = {"refused": "refused", "held": "held back", "failed": "tried again", "unreadable": "cannot be read"}
MODELS = {"current": "in use", "kept": "kept", "rejected": "not used", "removed": "removed"}


def page_place(pipeline: Pipeline, out: Path | None = None) -> Path:
    """The path of the page: the given one, or that of the settings."""
    page = pipeline.settings.outputs.page
    if not out and not page:
        raise SettingsError('[outputs] page = "": there is no path for a page; give one there, or with --out.')
    return (out or pipeline.settings.place(page)).absolute()


def write(pipeline: Pipeline, out: Path | None = None) -> Path:
    """Write the page atomically; its path. An existing file that is not such a page is refused."""
    place, noun = page_place(pipeline, out), "the page of a pipeline"
    refuse_file(place, lambda path: MARK.encode() in path.read_bytes(), noun, setting="[outputs] page")
    files_at(str(place.parent)).put(place.name, render(pipeline, place).encode())
    return place


def render(pipeline: Pipeline, place: Path) -> str:
    """The page as text; links are relative to its ``place``."""
    from jinja2 import Environment, StrictUndefined

    found = status(pipeline)
    last, headline = found["last_run"], "There has been no run yet"
    if last is not None:
        code = last["exit_code"]
        how = f"ended with exit code {code}: {ENDS.get(code, 'unexpected')}" if code else "was successful"
        headline = f"The run of {moment(last['started'])} {how}"
    rows = {name: pipeline.catalog.all(query, [MOST[name]]) for name, query in QUERIES.items()}
    for run in rows["runs"]:  # without a summary if it was stopped or is in progress
        run["summary"] = {"done": [], "published": [], "text": ""} | json.loads(run["summary"] or "{}")
    for row in rows["days"]:
        row |= {"models": json.loads(row["models"]), "links": _links(places(pipeline, row["day"]), place)}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"moment": moment, "number": number, "basename": os.path.basename}
    environment.globals |= {"ends": ENDS, "statuses": STATUSES, "box": BOX, "most": MOST}
    template = environment.from_string(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    return template.render(
        name=pipeline.settings.pipeline.name,
        now=pipeline.now.isoformat(),
        headline=headline,
        last=last,
        facts=_facts(pipeline, found),
        quiet_runs=pipeline.catalog.value(f"SELECT count(*) FROM runs WHERE NOT ({NEWS})"),
        figures=drift_figures(rows["drift"], pipeline.settings.drift),
        models=_models(pipeline, place),
        file=pipeline.settings.path.name,
        **rows,
    )


def moment(iso: str | None) -> str:
    """A time of the catalog, to the minute."""
    return "–" if not iso else f"{iso[:10]} {iso[11:16]}"


def number(value: int | None) -> str:
    return f"{value or 0:,}".replace(",", "\u202f")


def _facts(pipeline: Pipeline, found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The numbers at the top, by the status of the pipeline: name, value and detail."""
    counts, days, model = found["recordings"], found["published"], found["model"]
    bad = {STATUSES[status]: counts[status] for status in ("refused", "held", "failed") if counts.get(status)}
    if model is not None:
        trusted = "trusted" if model["trusted"] else "not trusted"
        about = f"{trusted}; of {model['created'][:10]}, {number(model['n_rows'])} rows"
    else:
        last = versions.last_untrusted(pipeline)
        about = "" if last is None else f"model {last['version']} is not trusted and not used"
    waiting = f"{found['files'].get('waiting', 0)} files not complete yet"
    return [
        ("recordings embedded", number(counts.get("done")), waiting),
        ("days published", number(days["days"]), f"{days['first']} to {days['last']}" if days["days"] else ""),
        ("rows published", number(days["rows"]), ""),
        ("recordings not embedded", number(sum(bad.values())), ", ".join(f"{n} {what}" for what, n in bad.items())),
        ("model in use", "none" if model is None else str(model["version"]), about),
    ]


def _models(pipeline: Pipeline, place: Path) -> list[Row]:
    """Models, each with its state in words, whether that is good, and a link to its report."""
    rows = []
    for model in pipeline.models("status != 'fitting' ORDER BY version DESC"):
        what, report = MODELS[model["status"]], report_place(place, model["version"])
        warnings, is_rejected = versions.warnings_of(model), model["status"] == "rejected"
        if warnings:
            what = "not trusted, not used" if is_rejected else f"{what}, not trusted"
        row = {"against": model["reason"] or "; ".join(warnings), "what": what}
        row |= {"good": not warnings and not is_rejected, "comparison": model["measures"].get("comparison")}
        row["links"] = _links({"report": report} if report.exists() else {}, place)
        rows.append({**model, **row})
    return rows


def _links(files: dict[str, Path], place: Path) -> list[tuple[str, str]]:
    """Addresses relative to a page at ``place``, and names."""
    return [(quote(os.path.relpath(file, place.parent)), name) for name, file in files.items()]


#: Size of a figure and edges of its axes, about pixels of a phone.
BOX = {"width": 360, "height": 190, "left": 44, "right": 350, "top": 26, "bottom": 162}
#: Width of the name of a model.
LABEL = 48


def drift_figures(rows: Sequence[Row], bounds: DriftSection) -> list[dict[str, Any]]:
    """Texts and positions of the figure of each measure; ``rows`` in order of day."""
    rows = [row for row in rows if row["day"]]
    if not rows:
        return []
    dates = [date.fromisoformat(row["day"]) for row in rows]
    first, last, width, height = dates[0], dates[-1], BOX["right"] - BOX["left"], BOX["bottom"] - BOX["top"]
    shares = [(day - first) / (last - first) if last > first else 0.5 for day in dates]
    across = [BOX["left"] + share * width for share in shares]
    changes = _model_changes([(x, row["model"]) for x, row in zip(across, rows, strict=True)])
    figures = []
    for column, setting, title, form, _ in MEASURES:
        known = [(x, row[column], row) for x, row in zip(across, rows, strict=True) if row[column] is not None]
        if not known:
            continue
        bound, highest = getattr(bounds, setting), max(value for _, value, _ in known)
        top = rounded_up(max(1.25 * bound, 1.1 * highest, 0.02))  # below 0.02, labels with two digits would be equal
        top = min(top, 1.0) if column == "outside" else top
        over = sum(value > bound for _, value, _ in known)
        label = f"{title}, {len(known)} recordings from {first} to {last}: highest {format(highest, form)}, "
        label += f"alarm above {format(bound, form)}, {over} above it."
        marks = [
            (x, BOX["bottom"] - y / top * height, y > bound, f"{row['day']}: {format(y, form)}, model {row['model']}")
            for x, y, row in known
        ]
        grid = [(BOX["bottom"] - share * height, format(share * top, form)) for share in (0.0, 0.5, 1.0)]
        figure = {"title": title, "label": label, "days": sorted({first, last}), "changes": changes, "marks": marks}
        bound_at = BOX["bottom"] - bound / top * height, format(bound, form)
        figures.append({**figure, "grid": grid, "bound": bound_at})
    return figures


def rounded_up(value: float) -> float:
    """The next number of which the half is round too: 0.25 becomes 0.4, and 16 becomes 20."""
    step = 10.0 ** math.floor(math.log10(value))
    return next(times * step for times in (1, 2, 4, 6, 8, 10) if times * step >= value * (1 - 1e-9))


def _model_changes(places: Sequence[tuple[float, int]]) -> list[tuple[float, str]]:
    """Where the model changes, and its name, if there is room for it."""
    # Of several such places the last one counts, because late files still have the earlier days.
    begins = {model: (before + x) / 2 for (before, old), (x, model) in pairwise(places) if model > old}
    found, labelled = [], 0.0
    for model, x in sorted(begins.items(), key=lambda item: item[1]):
        is_free = x - labelled > LABEL
        labelled = x if is_free else labelled
        found.append((x, f"model {model}" if is_free else ""))
    return found


def report_place(page: Path, version: int) -> Path:
    """Where the report of a version of the model is, beside a page."""
    return page.parent / "reports" / f"model-{version:04d}.html"


def write_reports(pipeline: Pipeline, page: Path) -> bool:
    """Write the missing reports; whether there were any."""
    found = pipeline.models("status NOT IN ('fitting', 'removed') ORDER BY version")
    missing = [row for row in found if not report_place(page, row["version"]).exists()]
    for model in missing:
        from dlcca.report import page as report  # slow, and not needed by most runs

        place = report_place(page, model["version"])
        title = f"Model {model['version']} of the pipeline {pipeline.settings.pipeline.name}"
        lead = f"Fitted because {model['because']}." + (f" Not used: {model['reason']}." if model["reason"] else "")
        pipeline.say(f"writing {place}")
        report.write(place, report.render(_as_run(model), title=title, lead=lead))
    return bool(missing)


def update_reports(file: str | Path, say: Say) -> None:
    """Write the missing reports after a run, and the page with links to them."""
    # Not a step of the run: a report takes longer than a run without new recordings.
    with opened(file, say=say) as pipeline:
        if pipeline.settings.outputs.page:
            try:
                if write_reports(pipeline, page_place(pipeline)):
                    write(pipeline)
            except Exception as error:
                pipeline.note("page", f"The report of a model could not be written: {error}")


def _as_run(model: Row) -> Any:
    """A model as a finished run; rows are numbered if their times are not stored."""
    from dlcca.estimator import open_model
    from dlcca.recordings.recorded_views import open_views
    from dlcca.storage import views

    fitted, rows, unit = open_model(model["address"]), model["rows_store"], "s"
    time = np.asarray(open_views(rows).time) if rows and views.is_views(rows) else np.empty(0)
    if len(time) != len(fitted.embedding_):
        time, unit = np.arange(len(fitted.embedding_), dtype=float), "sample"
    return fitted._as_run(time, time_unit=unit, fingerprint=model["settings"], created=model["created"])

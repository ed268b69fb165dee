"""The page of a pipeline: one HTML file with runs, failures, drift, models and days, and a report of each model."""

from __future__ import annotations

import json
import os
from datetime import datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from dlcca.errors import SettingsError
from dlcca.pipelines import versions
from dlcca.pipelines.catalog import Row
from dlcca.pipelines.context import Pipeline, Say, opened
from dlcca.pipelines.markup import colored, dates, drift_figures, foldable, moment, number, paragraphs, table
from dlcca.pipelines.publish import places
from dlcca.pipelines.summary import last_run, published_days
from dlcca.storage.files import files_at
from dlcca.storage.places import refuse_file

#: Identifies a page of dlcca, which may be replaced.
MARK = '<meta name="generator" content="dlcca">'
#: Maximum number of rows, the latest; all of them are in `dlcca pipeline history`.
MOST_RUNS, MOST_FAILURES, MOST_DAYS, MOST_DRIFT = 60, 200, 60, 400
#: SQL: runs that did something, or failed. The others may be many, and are only counted.
NEWS = "ended IS NULL OR exit_code != 0 OR verb = 'rollback' OR coalesce(json_extract(summary, '$.news'), 0)"
#: Meaning of exit codes.
ENDS = {
    0: "done",
    2: "wrong setting",
    3: "recordings refused",
    4: "storage or cluster failed",
    5: "not to be trusted",
}
STATUSES = {"refused": "refused", "held": "held back", "failed": "tried again", "unreadable": "cannot be read"}
MODELS = {"current": "in use", "kept": "kept", "rejected": "not used", "removed": "removed"}


def page_place(pipeline: Pipeline, out: Path | None = None) -> Path:
    """The path of the page: the given one, or that of the settings."""
    page = pipeline.settings.outputs.page
    if out is None and not page:
        raise SettingsError('[outputs] page = "": there is no path for a page; give one there, or with --out.')
    return (out if out is not None else pipeline.settings.place(page)).absolute()


def write(pipeline: Pipeline, out: Path | None = None) -> Path:
    """Write the page atomically; its path. An existing file that is not such a page is refused."""
    place = page_place(pipeline, out)

    def is_page(path: Path) -> bool:
        return MARK.encode() in path.read_bytes()

    refuse_file(place, is_page, "the page of a pipeline", setting="[outputs] page")
    files_at(str(place.parent)).put(place.name, render(pipeline, place).encode())
    return place


def render(pipeline: Pipeline, place: Path) -> str:
    """The page as text; links are relative to its ``place``."""
    name, last = pipeline.settings.pipeline.name, last_run(pipeline.catalog)
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(f"Pipeline {name}"),
        kicker=escape(f"Pipeline {name} · as of {moment(pipeline.now.isoformat())}"),
        headline=escape(_headline(last)),
        state="bad" if last is not None and last["exit_code"] else "good",
        lead=paragraphs("" if last is None else _document(last).get("text", "")),
        facts=_facts(pipeline),
        nights=_runs(pipeline),
        troubles=_failures(pipeline),
        drift=_drift(pipeline),
        models=_models(pipeline, place),
        days=_days(pipeline, place),
        file=escape(str(pipeline.settings.path.name)),
    )


def _document(run: Row) -> dict[str, Any]:
    """The summary of a run; empty if it was stopped or is in progress."""
    return json.loads(run["summary"] or "{}")


def _headline(last: Row | None) -> str:
    if last is None:
        return "There has been no run yet"
    code, day = last["exit_code"], moment(last["started"])
    if code == 0:
        return f"The run of {day} was successful"
    return f"The run of {day} ended with exit code {code}: {ENDS.get(code, 'unexpected')}"


def _facts(pipeline: Pipeline) -> str:
    catalog, days, model = pipeline.catalog, published_days(pipeline.catalog), pipeline.current_model()
    found = catalog.all("SELECT status, count(*) AS n FROM recordings GROUP BY status")
    counts = {row["status"]: row["n"] for row in found}
    waiting = catalog.value("SELECT count(*) FROM files WHERE state = 'waiting'")
    bad = {STATUSES[status]: counts[status] for status in ("refused", "held", "failed") if counts.get(status)}
    if model is not None:
        trusted = "not trusted" if versions.warnings_of(model) else "trusted"
        about = f"{trusted}; of {model['created'][:10]}, {number(model['n_rows'] or 0)} rows"
    else:
        last = versions.last_untrusted(pipeline)
        about = "" if last is None else f"model {last['version']} is not trusted and not used"
    boxes = [
        ("recordings embedded", number(counts.get("done", 0)), f"{waiting} files not complete yet"),
        ("days published", number(days["days"]), f"{days['first']} to {days['last']}" if days["days"] else ""),
        ("rows published", number(days["rows"] or 0), ""),
        ("recordings not embedded", number(sum(bad.values())), ", ".join(f"{n} {what}" for what, n in bad.items())),
        ("model in use", "none" if model is None else str(model["version"]), about),
    ]
    return "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in boxes
    )


def _runs(pipeline: Pipeline) -> str:
    catalog = pipeline.catalog
    quiet = catalog.value(f"SELECT count(*) FROM runs WHERE NOT ({NEWS})")
    rows = []
    for run in catalog.all(f"SELECT * FROM runs WHERE {NEWS} ORDER BY id DESC LIMIT ?", [MOST_RUNS]):
        document, good = _document(run), run["ended"] and run["exit_code"] == 0
        end = ENDS.get(run["exit_code"], "unexpected error") if run["ended"] else "stopped, or in progress"
        code = f" ({run['exit_code']})" if run["exit_code"] else ""
        cells = [colored(end + code, good), str(len(document.get("done", []))), dates(document.get("published", []))]
        cells.append(foldable(document.get("text", ""), good))
        rows.append([moment(run["started"]), escape(run["verb"]), _duration(run), *cells])
    if not rows:
        return "<p>None yet.</p>"
    heads = ("began (UTC)", "verb", "took", "ended", "embedded", "published", "summary")
    others = f"<p>{number(quiet)} more runs found nothing new.</p>" if quiet else ""
    return table(f"Runs that did something, the latest first, at most {MOST_RUNS}", heads, rows) + others


def _duration(run: Row) -> str:
    if not run["ended"]:
        return "–"
    seconds = (datetime.fromisoformat(run["ended"]) - datetime.fromisoformat(run["started"])).total_seconds()
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _failures(pipeline: Pipeline) -> str:
    recordings = pipeline.catalog.all(
        "SELECT path, day, status AS what, reason, finished AS at FROM recordings WHERE status IN "
        "('refused', 'held', 'failed') ORDER BY finished DESC LIMIT ?", [MOST_FAILURES],
    )  # fmt: skip
    files = pipeline.catalog.all(
        "SELECT path, NULL AS day, 'unreadable' AS what, reason, first_seen AS at FROM files WHERE state IN "
        "('unreadable', 'closed') ORDER BY first_seen DESC LIMIT ?", [MOST_FAILURES],
    )  # fmt: skip
    rows = [
        [
            f'<span class="long">{escape(os.path.basename(row["path"]))}</span>',
            dates([row["day"]] if row["day"] else []),
            colored(STATUSES[row["what"]], False),
            paragraphs(row["reason"] or ""),
            moment(row["at"]),
        ]
        for row in sorted(recordings + files, key=lambda row: row["at"] or "", reverse=True)[:MOST_FAILURES]
    ]
    if not rows:
        return "<p>No recording has failed.</p>"
    heads = ("recording", "day", "status", "reason", "since (UTC)")
    return table(f"Recordings that were not embedded, the latest first, at most {MOST_FAILURES}", heads, rows)


def _drift(pipeline: Pipeline) -> str:
    found = pipeline.catalog.all(
        "SELECT drift.*, recordings.day, recordings.start, recordings.path FROM drift JOIN recordings "
        "ON recordings.id = drift.recording ORDER BY drift.id DESC LIMIT ?", [MOST_DRIFT],
    )  # fmt: skip
    if not found:
        return "<p>No measurements yet.</p>"
    found.sort(key=lambda row: (row["day"] or "", row["start"] or "", row["id"]))
    drawn = "\n".join(
        f"<figure>\n<figcaption>{escape(title)}</figcaption>\n{svg}\n</figure>"
        for title, svg in drift_figures(found, pipeline.settings.drift)
    )
    alarms = [row for row in reversed(found) if row["alarm"]]
    rows = [[escape(row["day"] or "–"), str(row["model"]), paragraphs(row["text"])] for row in alarms]
    listed = table("Alarms, the latest first", ("day", "model", "measurement"), rows)
    legend = "A point is a recording, compared with the model that it was embedded with; a triangle is above its bound."
    return f'<p>{legend}</p>\n<div class="panels">\n{drawn}\n</div>\n' + (listed if rows else "<p>No alarm.</p>")


def _models(pipeline: Pipeline, place: Path) -> str:
    found = pipeline.catalog.all("SELECT * FROM models WHERE status != 'fitting' ORDER BY version DESC")
    if not found:
        return "<p>None yet.</p>"
    rows = []
    for model in found:
        report = report_place(place, model["version"])
        link = f'<a href="{_href(report, place)}">report<span class="hidden"> of model {model["version"]}</span></a>'
        warnings, status = versions.warnings_of(model), model["status"]
        against = model["reason"] or "; ".join(warnings)
        label = "Not used" if status in ("rejected", "removed") else "Not trusted"
        why = paragraphs(model["because"] + (f"\n{label}: {against}" if against else ""))
        what: str = MODELS.get(status) or status
        if warnings:
            what = "not trusted, not used" if status == "rejected" else f"{what}, not trusted"
        state = colored(what, not warnings and status != "rejected")
        made = [str(model["version"]), state, moment(model["created"]), number(model["n_rows"] or 0)]
        rows.append([*made, why, _outside(model), link if report.exists() else "–"])
    heads = ("version", "status", "made (UTC)", "rows", "fitted because", "held-out rows outside", "report")
    return table("Versions of the model, the latest first", heads, rows)


def _outside(model: Row) -> str:
    """The share of held-out rows outside, by a model and the one before."""
    found = json.loads(model["measures"] or "{}").get("comparison")
    if not found:
        return "–"
    return f"{found['new']['outside']:.1%} ({found['old']['outside']:.1%} by the model before)"


def _days(pipeline: Pipeline, place: Path) -> str:
    rows = []
    for row in pipeline.catalog.all("SELECT * FROM partitions ORDER BY day DESC LIMIT ?", [MOST_DAYS]):
        links = [
            f'<a href="{_href(path, place)}">{"Zarr" if path.suffix == ".zarr" else "Parquet"}'
            f'<span class="hidden"> of {escape(row["day"])}</span></a>'
            for path in places(pipeline, row["day"])
        ]
        models = ", ".join(map(str, json.loads(row["models"])))
        cells = [escape(row["day"]), str(row["recordings"]), number(row["rows"]), models, moment(row["published"])]
        rows.append([*cells, ", ".join(links)])
    if not rows:
        return "<p>None yet.</p>"
    heads = ("day", "recordings", "rows", "model", "published (UTC)", "files")
    return table(f"Days, the latest first, at most {MOST_DAYS}", heads, rows)


def _href(path: Path, place: Path) -> str:
    return escape(quote(os.path.relpath(path, place.parent)))


# Reports of models.


def report_place(page: Path, version: int) -> Path:
    """Where the report of a version of the model is, beside a page."""
    return page.parent / "reports" / f"model-{version:04d}.html"


def missing_reports(pipeline: Pipeline, page: Path) -> list[Row]:
    """Models without a report."""
    query = "SELECT * FROM models WHERE status NOT IN ('fitting', 'removed') ORDER BY version"
    found = pipeline.catalog.all(query)
    return [pipeline.located(row) for row in found if not report_place(page, row["version"]).exists()]


def write_reports(pipeline: Pipeline, page: Path) -> None:
    """Write the missing reports."""
    from dlcca.report import page as report

    for model in missing_reports(pipeline, page):
        place = report_place(page, model["version"])
        title = f"Model {model['version']} of the pipeline {pipeline.settings.pipeline.name}"
        lead = f"Fitted because {model['because']}." + (f" Not used: {model['reason']}." if model["reason"] else "")
        pipeline.say(f"writing {place}")
        report.write(place, report.render(_as_run(model), title=title, lead=lead))


def update_reports(file: str | Path, say: Say) -> None:
    """Write the missing reports after a run, and the page with links to them.

    Not a step of the run: a report takes longer than a run without new recordings.
    """
    with opened(file, say=say) as pipeline:
        if not pipeline.settings.outputs.page or not missing_reports(pipeline, page_place(pipeline)):
            return
        try:
            write_reports(pipeline, page_place(pipeline))
            write(pipeline)
        except Exception as error:
            pipeline.note("page", f"The report of a model could not be written: {error}")


def _as_run(model: Row) -> Any:
    """A model as a finished run; rows are numbered if their times are not stored."""
    import numpy as np

    from dlcca.estimator import open_model
    from dlcca.recordings.recorded_views import open_views
    from dlcca.storage import views
    from dlcca.storage.run import Run

    fitted = open_model(model["address"])
    embedding = np.asarray(fitted.embedding_)
    rows, time, unit = model["rows_store"], np.arange(len(embedding), dtype=float), "sample"
    if rows and views.is_views(rows):
        kept = np.asarray(open_views(rows).time)
        if len(kept) == len(embedding):
            time, unit = kept, "s"
    return Run(
        embedding=embedding,
        time=time,
        time_unit=unit,
        eigenvalues=fitted.eigenvalues_,
        landmarks=fitted.landmarks_,
        correlations=fitted.correlations_,
        n_common=fitted.n_common_,
        quality=fitted.quality_,
        warnings=fitted.warnings_,
        views={name: points.shape[1] for name, points in zip(fitted.model_.names, fitted.model_.points, strict=True)},
        settings=fitted.settings_.to_dict(),
        choices=fitted.choices_,
        fingerprint=model["settings"],
        created=model["created"],
    )

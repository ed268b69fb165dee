"""The page of a pipeline: one HTML file over the catalog, for the morning after."""

from __future__ import annotations

import json
import os
from datetime import datetime
from html import escape
from pathlib import Path
from string import Template

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines import drift_figures, folders, trust
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.markup import dates, judged, moment, number, paragraphs, table, unfolded
from dlcca.pipelines.overview import MOST_DAYS, MOST_NIGHTS, MOST_TROUBLES, Overview, Row, overview
from dlcca.pipelines.publish import places
from dlcca.storage import places as places_of

#: How a file is known for a page of ours, which may be replaced.
MARK = '<meta name="generator" content="dlcca">'
#: What an exit code means, in a word or two.
ENDS = {
    0: "done",
    2: "wrong setting",
    3: "recordings refused",
    4: "storage or cluster failed",
    5: "not to be trusted",
}
STATUSES = {"refused": "refused", "held": "held back", "failed": "tried again", "unreadable": "cannot be read"}
MODELS = {"current": "in use", "kept": "kept", "rejected": "not used", "removed": "removed"}


def place_of(flow: Pipeline) -> Path | None:
    """Where the page of a pipeline is; None if none is asked for."""
    said = flow.settings.outputs.page
    return flow.settings.place(said) if said else None


def placed(flow: Pipeline, out: Path | None) -> Path:
    """The place that was asked for, or that of the settings."""
    place = out if out is not None else place_of(flow)
    if place is None:
        raise SettingsError('[outputs] page = "": there is no place for a page; name one there, or by --out.')
    return place.absolute()


def write(flow: Pipeline, out: Path | None = None) -> Path:
    """Write the page of this moment, all of it or nothing; where it is. A file that is no page of ours is refused."""
    place = placed(flow, out)
    try:
        places_of.refuse_file(place, _is_page, "the page of a pipeline", setting="[outputs] page")
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            aside.write_text(render(flow, place), encoding="utf-8")
            os.replace(aside, place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror or error}.") from error
    return place


def _is_page(path: Path) -> bool:
    return MARK.encode() in path.read_bytes()


def render(flow: Pipeline, place: Path) -> str:
    """The page as text; links are relative to its ``place``."""
    found = overview(flow)
    name = flow.settings.pipeline.name
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(f"Pipeline {name}"),
        kicker=escape(f"Pipeline {name} · as of {moment(flow.now.isoformat())}"),
        headline=escape(headline(found)),
        state="bad" if found.last is not None and found.last["exit_code"] else "good",
        lead=paragraphs("" if found.last is None else found.last["text"]),
        facts=_facts(found),
        nights=_nights(found),
        troubles=_troubles(found),
        drift=_drift(flow, found),
        models=_models(flow, found, place),
        days=_days(flow, found, place),
        file=escape(str(flow.settings.path.name)),
    )


def headline(found: Overview) -> str:
    """How things stand, in one sentence."""
    if found.last is None:
        return "No night has been worked off yet"
    code, day = found.last["exit_code"], moment(found.last["started"])
    if code == 0:
        return f"The run of {day} did what it should"
    return f"The run of {day} ended with exit code {code}: {ENDS.get(code, 'unexpected')}"


def _facts(found: Overview) -> str:
    days, counts, model = found.days, found.counts, found.current
    span = f"{days['first']} to {days['last']}" if days["n"] else ""
    bad = {STATUSES[status]: counts[status] for status in ("refused", "held", "failed") if counts.get(status)}
    boxes = [
        ("recordings embedded", number(counts.get("done", 0)), f"{found.waiting} files not complete yet"),
        ("days published", number(days["n"]), span),
        ("rows published", number(days["rows"] or 0), ""),
        ("recordings in trouble", number(sum(bad.values())), ", ".join(f"{n} {what}" for what, n in bad.items())),
        ("model in use", "none" if model is None else str(model["version"]), _told_model(found)),
    ]
    return "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in boxes
    )


def _told_model(found: Overview) -> str:
    """Whether the model in use is trusted; if there is none, why."""
    model, last = found.current, found.untrusted
    if model is None:
        return "" if last is None else f"model {last['version']} is not trusted and not used"
    trusted = "not trusted" if trust.reasons_of(model) else "trusted"
    return f"{trusted}; of {model['created'][:10]}, {number(model['n_rows'] or 0)} rows"


def _nights(found: Overview) -> str:
    if not found.nights:
        return "<p>None yet.</p>"
    rows = []
    for run in found.nights:
        good = run["ended"] and run["exit_code"] == 0
        said = ENDS.get(run["exit_code"], "unexpected error") if run["ended"] else "stopped, or still at work"
        code = f" ({run['exit_code']})" if run["exit_code"] else ""
        cells = [judged(said + code, good), str(run["done"]), dates(run["published"]), unfolded(run["text"], good)]
        rows.append([moment(run["started"]), escape(run["verb"]), _lasted(run), *cells])
    heads = ("began (UTC)", "verb", "took", "ended", "embedded", "published", "what it said")
    quiet = f"<p>Besides, {number(found.quiet)} runs found nothing new.</p>" if found.quiet else ""
    return table(f"Runs that did something, the latest first, {MOST_NIGHTS} at most", heads, rows) + quiet


def _troubles(found: Overview) -> str:
    if not found.troubles:
        return "<p>No recording is in trouble.</p>"
    rows = [
        [
            f'<span class="long">{escape(os.path.basename(row["path"]))}</span>',
            dates([row["day"]] if row["day"] else []),
            judged(STATUSES[row["what"]], False),
            paragraphs(row["reason"] or ""),
            moment(row["at"]),
        ]
        for row in found.troubles
    ]
    heads = ("recording", "day", "it is", "because", "since (UTC)")
    return table(f"Recordings that did not come through, the latest first, {MOST_TROUBLES} at most", heads, rows)


def _drift(flow: Pipeline, found: Overview) -> str:
    if not found.drift:
        return "<p>Nothing was measured yet.</p>"
    drawn = "\n".join(
        f"<figure>\n<figcaption>{escape(title)}</figcaption>\n{svg}\n</figure>"
        for title, svg in drift_figures.figures(found.drift, flow.settings.drift)
    )
    alarms = [row for row in reversed(found.drift) if row["alarm"]]
    rows = [[escape(row["day"] or "–"), str(row["model"]), paragraphs(row["text"])] for row in alarms]
    listed = table("Alarms, the latest first", ("day", "model", "what was measured"), rows)
    told = "A point is a recording, held against the model that it was embedded with; a triangle is above its bound."
    return f'<p>{told}</p>\n<div class="panels">\n{drawn}\n</div>\n' + (listed if rows else "<p>No alarm.</p>")


def _models(flow: Pipeline, found: Overview, place: Path) -> str:
    if not found.models:
        return "<p>There is none yet.</p>"
    rows = []
    for model in found.models:
        report = folders.report_place(place, model["version"])
        link = f'<a href="{_href(report, place)}">report<span class="hidden"> of model {model["version"]}</span></a>'
        against = model["reason"] or "; ".join(trust.reasons_of(model))
        said = "Not used" if model["status"] in ("rejected", "removed") else "Not trusted"
        why = paragraphs(model["because"] + (f"\n{said}: {against}" if against else ""))
        standing = _standing(model)
        made = [str(model["version"]), standing, moment(model["created"]), number(model["n_rows"] or 0)]
        rows.append([*made, why, _compared(model), link if report.exists() else "–"])
    heads = ("version", "it is", "made (UTC)", "rows", "fitted because", "held-out rows outside", "report")
    return table("Versions of the model, the latest first", heads, rows)


def _standing(model: Row) -> str:
    """What a version is, and whether it is trusted."""
    is_trusted, what = not trust.reasons_of(model), MODELS.get(model["status"]) or model["status"]
    if not is_trusted:
        what = "not trusted, not used" if model["status"] == "rejected" else f"{what}, not trusted"
    return judged(what, is_trusted and model["status"] != "rejected")


def _compared(model: Row) -> str:
    """How a model stood against the one before, on rows that neither has seen."""
    found = json.loads(model["measures"] or "{}").get("comparison")
    if not found:
        return "–"
    return f"{found['new']['outside']:.1%} ({found['old']['outside']:.1%} by the model before)"


def _days(flow: Pipeline, found: Overview, place: Path) -> str:
    if not found.published:
        return "<p>None yet.</p>"
    rows = []
    for row in found.published:
        links = [
            f'<a href="{_href(path, place)}">{"Zarr" if path.suffix == ".zarr" else "Parquet"}'
            f'<span class="hidden"> of {escape(row["day"])}</span></a>'
            for path in places(flow, row["day"])
        ]
        models = ", ".join(map(str, json.loads(row["models"])))
        cells = [escape(row["day"]), str(row["recordings"]), number(row["rows"]), models, moment(row["published"])]
        rows.append([*cells, ", ".join(links)])
    heads = ("day", "recordings", "rows", "model", "published (UTC)", "files")
    return table(f"Days, the latest first, {MOST_DAYS} at most", heads, rows)


def _href(path: Path, place: Path) -> str:
    """A link from the page to something beside or below it."""
    from urllib.parse import quote

    return escape(quote(os.path.relpath(path, place.parent)))


def _lasted(run: Row) -> str:
    if not run["ended"]:
        return "–"
    seconds = (datetime.fromisoformat(run["ended"]) - datetime.fromisoformat(run["started"])).total_seconds()
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"

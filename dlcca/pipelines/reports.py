"""A report of every version of the model, beside the page of the pipeline; drawn once, after the fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlcca.pipelines import folders
from dlcca.pipelines import page as nightly_page
from dlcca.pipelines.context import Pipeline, Say, opened


def missing(flow: Pipeline, page: Path) -> list[dict[str, Any]]:
    """Models that are there and have no report yet."""
    query = "SELECT * FROM models WHERE status NOT IN ('fitting', 'removed') ORDER BY version"
    absent = [model for model in flow.catalog.all(query) if not folders.report_place(page, model["version"]).exists()]
    return [folders.row_located(flow.settings, model) for model in absent]


def write_missing(flow: Pipeline, page: Path) -> list[Path]:
    """Draw the reports that are missing; where they are."""
    return [_write(flow, page, model) for model in missing(flow, page)]


def draw(file: str | Path, say: Say) -> None:
    """After a night: the reports that are missing, and the page with links to them.

    Not a step of the night: a report takes longer than a night with nothing new, and a night is done without it.
    """
    with opened(file, say=say) as flow:
        place = nightly_page.place_of(flow)
        if place is None or not missing(flow, place):
            return
        try:
            write_missing(flow, place)
            nightly_page.write(flow)
        except Exception as error:
            flow.note("page", f"A report of a model could not be drawn: {error}")


def _write(flow: Pipeline, page: Path, model: dict[str, Any]) -> Path:
    from dlcca.report import page as report

    place = folders.report_place(page, model["version"])
    title = f"Model {model['version']} of the pipeline {flow.settings.pipeline.name}"
    lead = f"Fitted because {model['because']}." + (f" Not used: {model['reason']}." if model["reason"] else "")
    flow.say(f"drawing {place}")
    report.write(place, report.render(_run(model), title=title, lead=lead))
    return place


def _run(model: dict[str, Any]) -> Any:
    """A model as what a run found: the rows it was fitted to, by their order where their times are not kept."""
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

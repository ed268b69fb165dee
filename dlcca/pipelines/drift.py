"""Drift: four measures of how much a recording differs from the data of its model, each with a bound."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dlcca.errors import DataError, SettingsError
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.settings import DriftSection
from dlcca.settings.fit import Settings

if TYPE_CHECKING:
    import numpy as np

#: Rows of a probe, in segments spread over the recording, and its landmarks.
PROBE_ROWS, PROBE_SEGMENTS, PROBE_LANDMARKS = 2048, 8, 256


#: The measures: column of the catalog, its bound in [drift], title and format in figures, and the text of an alarm.
#: The distance is the median over rows to the nearest landmark; 1 is the coverage radius of the fit.
MEASURES = (
    ("outside", "most_outside", "Share of rows outside", ".0%", "{} of its rows are outside"),
    ("distance", "most_distance", "Distance to the nearest landmark", ".2f", "its median distance to a landmark is {}"),
    ("correlation_change", "correlation_change", "Change of local correlation", ".2f", "a correlation differs by {}"),
    ("eigenvalue_change", "eigenvalue_change", "Change of leading eigenvalues", ".2f", "an eigenvalue differs by {}"),
)


def pending(pipeline: Pipeline) -> list[int]:
    """Finished recordings whose drift was not measured with the model that they were embedded with."""
    query = (
        "SELECT id FROM recordings AS r WHERE status = 'done' AND NOT EXISTS "
        "(SELECT 1 FROM drift WHERE recording = r.id AND model = r.model) ORDER BY day, start, path"
    )
    return [row["id"] for row in pipeline.catalog.all(query)]


def measure_pending(pipeline: Pipeline) -> None:
    """Measure the drift of every recording of which it was not measured yet."""
    for number in pending(pipeline):
        _measure(pipeline, number)


def _measure(pipeline: Pipeline, number: int) -> None:
    """Compare a recording with the model that it was embedded with, and store what was found."""
    catalog, recording = pipeline.catalog, pipeline.recording(number)
    model = pipeline.model("version = ?", recording["model"])
    assert model is not None
    here, baseline = _probe(pipeline, recording, model), model["measures"].get("baseline", [])
    found = {**_of_rows(recording), **_changes(here, baseline)}
    over = _alarms(found, pipeline.settings.drift)
    name = f"{os.path.basename(recording['path'])} of {recording['day']}"
    if over:
        text = f"{name} differs from the data of model {model['version']}: {'; '.join(over)}."
    else:
        text = (
            f"{name} is like the data of model {model['version']}: {found['outside']:.1%} of its rows are outside, the "
            f"median distance to the nearest landmark is {found['distance']:.2f}."
        )
    with catalog.change():
        row = {**found, "recording": number, "model": model["version"], "run": pipeline.run}
        row |= {"measured": iso(pipeline.now), "alarm": int(bool(over)), "text": text}
        catalog.insert("drift", {**row, "probe": None if here is None else json.dumps(here)})
        if not baseline and here is not None and not over:  # an adopted model: its first recording is the baseline
            encoded = json.dumps({**model["measures"], "baseline": [here]})
            catalog.update("models", {"measures": encoded}, version=model["version"])
        pipeline.note("drift" if over else "steady", text, recording)


def _alarms(found: Mapping[str, float], bounds: DriftSection) -> list[str]:
    """The bounds that are exceeded, in words."""
    over = []
    for name, setting, _, form, text in MEASURES:
        bound = getattr(bounds, setting)
        if name in found and found[name] > bound:
            over.append(f"{text.format(format(found[name], form))} ({format(bound, form)} allowed)")
    return over


def _probe(pipeline: Pipeline, recording: Row, model: Row) -> dict[str, Any] | None:
    from dlcca.estimator import open_model
    from dlcca.storage import views

    if model["status"] == "removed" or not recording["views"] or not views.is_views(recording["views"]):
        return None
    fitted = open_model(model["address"])
    if set(views.describe(recording["views"])["views"]) != set(fitted.model_.names):
        return None  # a view is missing
    return probe(recording["views"], fitted.settings_, pipeline.settings.seed)


def _of_rows(recording: Row) -> dict[str, float]:
    """Share of rows outside, and the median distance."""
    import numpy as np

    from dlcca.storage import transformed
    from dlcca.storage.formats import open_sealed

    group: Any = open_sealed(recording["result"], transformed.FORM)[0]
    distance = np.asarray(group["distance"][...])
    known = distance[np.isfinite(distance)]
    return {"outside": float((known > 1).mean()), "distance": float(np.median(known))}


def _changes(here: dict[str, Any] | None, baseline: list[dict[str, Any]]) -> dict[str, float]:
    """Differences of correlation and eigenvalues from the most similar recording of the fit in each, if known."""
    if here is None or not baseline:
        return {}
    correlation = min(abs(here["correlation"] - known["correlation"]) for known in baseline)
    spectra = [
        max(abs(a - b) for a, b in zip(here["eigenvalues"], known["eigenvalues"], strict=False)) for known in baseline
    ]
    return {"correlation_change": correlation, "eigenvalue_change": min(spectra)}


def probe(address: str, settings: Settings, seed: int = 0) -> dict[str, Any] | None:
    """Median local correlation and leading eigenvalues of a small fit to a sample of one store of views.

    The fit is the same for every recording, so that recordings can be compared by it. None if the store is too short.
    """
    import numpy as np

    from dlcca.fitting import metric, spectrum
    from dlcca.fitting.job import memory_job, refuse_early
    from dlcca.recordings.recorded_views import open_views
    from dlcca.views import Views

    opened = open_views(address)
    rows = _sample(len(next(iter(opened.values()))))
    views = Views(tuple(np.asarray(X[rows]) for X in opened.values()), tuple(opened))
    broken = (np.diff(rows) != 1) | (np.diff(opened.segments[rows]) != 0)
    segments = np.concatenate([[0], np.cumsum(broken)]).astype(np.int64)
    n_landmarks = min(PROBE_LANDMARKS, len(rows))
    fewer = settings.with_options(landmarks=n_landmarks, landmark_rule="even", neighbor_index="exact")
    try:
        job = memory_job(views.present, views.names, fewer, seed, segments)
        refuse_early(job.options, job.n, job.dims)
        spectrum.SPECTRUM.ensure(job)
    except (DataError, SettingsError):
        return None
    return {
        "correlation": float(np.median(metric.result(job).correlations[:, 0])),
        "eigenvalues": [float(value) for value in spectrum.eigenvalues(job)[1:]],
    }


def _sample(n: int) -> np.ndarray:
    """Row numbers of segments spread evenly over n rows; all rows if they are few."""
    import numpy as np

    if n <= PROBE_ROWS:
        return np.arange(n)
    length = PROBE_ROWS // PROBE_SEGMENTS
    starts = np.linspace(0, n - length, PROBE_SEGMENTS).astype(np.int64)
    return (starts[:, None] + np.arange(length)).ravel()

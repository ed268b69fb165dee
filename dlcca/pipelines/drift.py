"""Drift: four measures of how much a recording differs from the data of its model, each with a bound."""

import json
import os
from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError
from dlcca.estimator import open_model
from dlcca.fitting import metric, spectrum
from dlcca.fitting.job import memory_job, refuse_early
from dlcca.numerics.windows import chosen, unbroken
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.recordings import NOT_MEASURED
from dlcca.pipelines.settings import MEASURES
from dlcca.recordings.recorded_views import open_views
from dlcca.settings.fit import Settings
from dlcca.storage import transformed
from dlcca.storage import views as store
from dlcca.storage.formats import open_sealed

#: Rows of a probe, in segments spread over the recording, and its landmarks.
PROBE_ROWS, PROBE_SEGMENTS, PROBE_LANDMARKS = 2048, 8, 256


def measure_pending(pipeline: Pipeline) -> None:
    """Compare every recording of which this is missing with the model that it was embedded with."""
    for recording in pipeline.recordings(NOT_MEASURED):
        _measure(pipeline, recording)


def _measure(pipeline: Pipeline, recording: Row) -> None:
    catalog, views = pipeline.catalog, recording["views"]
    model = pipeline.model("version = ?", recording["model"])
    assert model is not None
    here, baseline = None, model["measures"].get("baseline", [])
    if model["status"] != "removed" and views and store.is_views(views):
        fitted = open_model(model["address"])
        if set(store.describe(views)["views"]) == set(fitted.model_.names):  # else a view is missing
            here = probe(views, fitted.settings_, pipeline.settings.seed)
    distance = np.asarray(open_sealed(recording["result"], transformed.FORM)[0]["distance"][...])
    known = distance[np.isfinite(distance)]
    found = {"outside": float((known > 1).mean()), "distance": float(np.median(known))}
    if here is not None and baseline:  # differences from the most similar recording of the fit in each
        found["correlation_change"] = min(abs(here["correlation"] - other["correlation"]) for other in baseline)
        pairs = [zip(here["eigenvalues"], other["eigenvalues"], strict=False) for other in baseline]
        found["eigenvalue_change"] = min(max(abs(a - b) for a, b in pair) for pair in pairs)
    over = []
    for name, setting, _, form, text in MEASURES:
        bound = getattr(pipeline.settings.drift, setting)
        if name in found and found[name] > bound:
            over.append(f"{text.format(format(found[name], form))} ({format(bound, form)} allowed)")
    of_model = f"the data of model {model['version']}"
    text = f"{os.path.basename(recording['path'])} of {recording['day']} "
    if over:
        text += f"differs from {of_model}: {'; '.join(over)}."
    else:
        text += f"is like {of_model}: {found['outside']:.1%} of its rows are outside, "
        text += f"the median distance to the nearest landmark is {found['distance']:.2f}."
    with catalog.change():
        row = {**found, "recording": recording["id"], "model": model["version"], "run": pipeline.run}
        row |= {"measured": iso(pipeline.now), "alarm": int(bool(over)), "text": text}
        catalog.insert("drift", {**row, "probe": None if here is None else json.dumps(here)})
        if not baseline and here is not None and not over:  # an adopted model: its first recording is the baseline
            encoded = json.dumps({**model["measures"], "baseline": [here]})
            catalog.update("models", {"measures": encoded}, version=model["version"])
        pipeline.note("drift" if over else "steady", text, recording)


def probe(address: str, settings: Settings, seed: int = 0) -> dict[str, Any] | None:
    """Median local correlation and leading eigenvalues of a small fit to a sample of one store of views.

    The fit is the same for every recording, so that recordings can be compared by it. None if the store is too short.
    """
    opened = open_views(address)
    rows = chosen(len(opened.segments), PROBE_ROWS, PROBE_ROWS // PROBE_SEGMENTS)
    segments = unbroken([rows], opened.segments)
    n_landmarks = min(PROBE_LANDMARKS, len(rows))
    fewer = settings.with_options(landmarks=n_landmarks, landmark_rule="even", neighbor_index="exact")
    try:
        job = memory_job([np.asarray(X[rows]) for X in opened.values()], tuple(opened), fewer, seed, segments)
        refuse_early(job.options, job.n, job.dims)
        spectrum.SPECTRUM.ensure(job)
    except (DataError, SettingsError):
        return None
    return {
        "correlation": float(np.median(metric.result(job).correlations[:, 0])),
        "eigenvalues": [float(value) for value in spectrum.eigenvalues(job)[1:]],
    }

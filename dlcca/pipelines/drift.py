"""Whether a recording is like those of the fit: four measures, each with a bound, and a sentence."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from dlcca.pipelines import folders
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.sections import DriftSection


@dataclass(frozen=True)
class Measured:
    """How far a recording is from what a model has seen; None where it cannot be told."""

    outside: float  # share of its valid rows
    distance: float  # of the typical row to the nearest landmark; 1 is the reach of the fit
    correlation_change: float | None
    eigenvalue_change: float | None

    def excesses(self, bounds: DriftSection) -> list[str]:
        """Which bounds are exceeded, in words; none if it is like the fit's."""
        said = [
            (self.outside, bounds.most_outside, "{:.0%} of its rows are outside what the fit saw ({:.0%} allowed)"),
            (
                self.distance,
                bounds.most_distance,
                "its typical row is {:.2f} from the nearest landmark ({:.2f} allowed)",
            ),
            (
                self.correlation_change,
                bounds.correlation_change,
                "its views correlate by {:.2f} differently ({:.2f} allowed)",
            ),
            (
                self.eigenvalue_change,
                bounds.eigenvalue_change,
                "a leading eigenvalue differs by {:.2f} ({:.2f} allowed)",
            ),
        ]
        return [text.format(value, bound) for value, bound, text in said if value is not None and value > bound]


def pending(flow: Pipeline) -> list[int]:
    """Finished recordings that have not been held against the model they were embedded with."""
    query = (
        "SELECT id FROM recordings AS r WHERE status = 'done' AND NOT EXISTS "
        "(SELECT 1 FROM drift WHERE recording = r.id AND model = r.model) ORDER BY day, start, path"
    )
    return [row["id"] for row in flow.catalog.all(query)]


def measure(flow: Pipeline, number: int) -> bool:
    """Hold a recording against the model that it was embedded with; whether it is an alarm."""
    recording = flow.recording(number)
    model = flow.catalog.one("SELECT * FROM models WHERE version = ?", [recording["model"]])
    assert model is not None
    model = folders.row_located(flow.settings, model)
    measures = json.loads(model["measures"] or "{}")
    here = _probe(flow, recording, model)
    baseline = measures.get("baseline", [])
    found = Measured(*_of_rows(recording), *_changes(here, baseline))
    over = found.excesses(flow.settings.drift)
    name = os.path.basename(recording["path"])
    if over:
        text = f"{name} of {recording['day']} is unlike what model {model['version']} has seen: {'; '.join(over)}."
    else:
        text = (
            f"{name} of {recording['day']} is like what model {model['version']} has seen: {found.outside:.1%} of its "
            f"rows are outside, the typical one is {found.distance:.2f} from the nearest landmark."
        )
    with flow.catalog.change():
        row = {**vars(found), "recording": number, "model": model["version"], "run": flow.run}
        row |= {"measured": iso(flow.now), "alarm": int(bool(over)), "text": text}
        flow.catalog.insert("drift", {**row, "probe": None if here is None else json.dumps(here)})
        if not baseline and here is not None and not over:  # a model from elsewhere: the first recording stands for it
            flow.catalog.update(
                "models", {"measures": json.dumps({**measures, "baseline": [here]})}, version=model["version"]
            )
        flow.note("drift" if over else "steady", text, recording=number, path=recording["path"], day=recording["day"])
    return bool(over)


def _probe(flow: Pipeline, recording: dict[str, Any], model: dict[str, Any]) -> dict[str, Any] | None:
    from dlcca.estimator import open_model
    from dlcca.pipelines.probe import probe
    from dlcca.storage import views

    if model["status"] == "removed" or not recording["views"] or not views.is_views(recording["views"]):
        return None
    fitted = open_model(model["address"])
    if set(views.describe(recording["views"])["views"]) != set(fitted.model_.names):
        return None  # a view is missing: there is nothing to correlate with
    return probe(recording["views"], fitted.settings_, flow.settings.seed)


def _of_rows(recording: dict[str, Any]) -> tuple[float, float]:
    """Share of rows outside, and the median distance."""
    import numpy as np

    from dlcca.storage import transformed
    from dlcca.storage.arrays import open_sealed

    group: Any = open_sealed(recording["result"], transformed.FORM)[0]
    distance = np.asarray(group["distance"][...])
    known = distance[np.isfinite(distance)]
    return float((known > 1).mean()), float(np.median(known))


def _changes(here: dict[str, Any] | None, baseline: list[dict[str, Any]]) -> tuple[float | None, float | None]:
    """How much correlation and eigenvalues differ from those of the recording of the fit that is nearest in each."""
    if here is None or not baseline:
        return None, None
    correlation = min(abs(here["correlation"] - known["correlation"]) for known in baseline)
    spectra = [
        max(abs(a - b) for a, b in zip(here["eigenvalues"], known["eigenvalues"], strict=False)) for known in baseline
    ]
    return correlation, min(spectra)

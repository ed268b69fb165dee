"""The local metric of every landmark: a map over blocks of landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.fitting import find_neighbors, fit_metric, refuse_degenerate
from dlcca.numerics.cca import LocalMetric
from dlcca.stages import landmarks, near
from dlcca.stages.job import Job
from dlcca.stages.work import Tell, do_missing
from dlcca.stores.blocks import Stage

#: Landmarks of a block.
LANDMARKS = 256


def depends(job: Job) -> list[Any]:
    said = [job.options[name] for name in ("neighborhoods", "window", "n_neighbors", "metric", "ridge", "rank")]
    return [*landmarks.depends(job), *said]


def stage_of(job: Job) -> Stage:
    return job.stage("metric", depends(job), -(-landmarks.count(job) // LANDMARKS))


def rank(job: Job) -> int:
    """Directions of a metric: what `fit_metric` gives for these shapes."""
    k = width(job)
    sizes = [min(k, d) for d in job.dims]
    if job.options["metric"] == "tcca":
        return 1
    most = sizes[0] if job.K == 1 else sum(sizes) - max(sizes)
    return min(most, int(job.options["rank"]))


def width(job: Job) -> int:
    """Samples in a neighborhood."""
    kind = job.options["neighborhoods"]
    if not isinstance(kind, str):
        return np.asarray(kind).shape[1]
    return int(job.options["window"] if kind == "time" else job.options["n_neighbors"])


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Fit the metric at every landmark that has none yet."""
    m, r, k = landmarks.count(job), rank(job), width(job)
    arrays: dict[str, Any] = {f"factors_{v}": ((m, d, r), job.dtype, LANDMARKS) for v, d in enumerate(job.dims)}
    arrays |= {
        "neighbors": ((m, k), "int64", LANDMARKS),
        "correlations": ((m, r), "float64", LANDMARKS),
        "ranks": ((m, job.K), "int64", LANDMARKS),
        "effective": ((m, job.K), "float64", LANDMARKS),
    }
    says = f"{job.options['metric']} of {k} neighbours, ridge {job.options['ridge']}, rank {r}"
    do_missing(compute, job, stage_of(job).prepare(arrays, says=says), client, tell)


def compute(job: Job, stage: Stage, block: int) -> None:
    first = block * LANDMARKS
    last = min(landmarks.count(job), first + LANDMARKS)
    rows = _neighbors(job, first, last)
    unique, where = np.unique(rows, return_inverse=True)
    arrays = [job.read(v, unique) for v in range(job.K)]
    found = fit_metric(arrays, where.reshape(rows.shape), job.settings)
    if job.options["ridge"] == 0:
        refuse_degenerate(found, rows.shape[1], job.dims, job.settings)
    parts = {f"factors_{v}": (first, F) for v, F in enumerate(found.factors)}
    parts |= {
        "neighbors": (first, rows),
        "correlations": (first, found.correlations.astype(np.float64)),
        "ranks": (first, found.ranks.astype(np.int64)),
        "effective": (first, found.effective.astype(np.float64)),
    }
    stage.write(block, parts, {})


def _neighbors(job: Job, first: int, last: int) -> NDArray[np.int64]:
    if job.options["neighborhoods"] == "knn":
        return near.neighbors(job, first, last)
    return find_neighbors(job.n, landmarks.rows(job), job.settings)[first:last]


def factors(job: Job) -> list[NDArray]:
    """The factors (m, d_v, r) of every view."""
    stage = stage_of(job)
    return [stage.read_all(f"factors_{v}") for v in range(job.K)]


def result(job: Job) -> LocalMetric:
    """The whole stage but for the factors, for judging it."""
    stage = stage_of(job)
    return LocalMetric([], *(stage.read_all(name) for name in ("correlations", "ranks", "effective")))

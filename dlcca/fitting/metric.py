"""The local metric of every landmark: a map over blocks of landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import landmarks, neighborhood_rows, neighbors, sharing
from dlcca.fitting.in_memory import fit_metric, refuse_degenerate
from dlcca.fitting.job import Job
from dlcca.fitting.neighborhood_rows import LANDMARKS as LANDMARKS  # of a task, at least
from dlcca.numerics.cca import LocalMetric
from dlcca.storage.blocks import Stage


def depends(job: Job) -> list[Any]:
    return [*neighborhood_rows.depends(job), *(job.options[name] for name in ("metric", "ridge", "rank")), "tested"]


def stage_of(job: Job) -> Stage:
    size = neighborhood_rows.per_task(job)
    return job.stage("metric", [*depends(job), size], -(-landmarks.count(job) // size))


def rank(job: Job) -> int:
    """Directions of a metric: what `fit_metric` gives for these shapes."""
    k = neighborhood_rows.width(job)
    sizes = [min(k, d) for d in job.dims]
    if job.options["metric"] == "tcca":
        return 1
    most = sizes[0] if job.K == 1 else sum(sizes) - max(sizes)
    return min(most, int(job.options["rank"]))


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Fit the metric at every landmark that has none yet."""
    m, r, k, size = landmarks.count(job), rank(job), neighborhood_rows.width(job), neighborhood_rows.per_task(job)
    arrays: dict[str, Any] = {f"factors_{v}": ((m, d, r), job.dtype, size) for v, d in enumerate(job.dims)}
    arrays |= {
        "correlations": ((m, r), "float64", size),
        "ranks": ((m, job.K), "int64", size),
        "effective": ((m, job.K), "float64", size),
        **{name: (shape, "float64", size) for name, shape in sharing.shapes(job).items()},
    }
    says = f"{job.options['metric']} of {k} neighbours, ridge {job.options['ridge']}, rank {r}"
    do_missing(compute, job, stage_of(job).prepare(arrays, says=says), client, tell)


def compute(job: Job, stage: Stage, block: int) -> None:
    size = neighborhood_rows.per_task(job)
    first = block * size
    g, place = divmod(first, landmarks.GROUP)
    rows = neighbors.neighbors(job, g)[place : place + size]
    unique, where = np.unique(rows, return_inverse=True)
    views, where = neighborhood_rows.values(job, unique), where.reshape(rows.shape)
    found = fit_metric(views, where, job.settings)
    if job.options["ridge"] == 0:
        refuse_degenerate(found, rows.shape[1], job.dims, job.settings, first)
    parts = {f"factors_{v}": (first, F) for v, F in enumerate(found.factors)}
    parts |= {
        "correlations": (first, found.correlations.astype(np.float64)),
        "ranks": (first, found.ranks.astype(np.int64)),
        "effective": (first, found.effective.astype(np.float64)),
        **{name: (first, part) for name, part in sharing.tested(job, views, where, found.ranks).items()},
    }
    stage.write(block, parts, {})


def factors(job: Job) -> list[NDArray]:
    """The factors (m, d_v, r) of every view."""
    stage = stage_of(job)
    return [stage.read_all(f"factors_{v}") for v in range(job.K)]


def result(job: Job) -> LocalMetric:
    """The whole stage but for the factors, for judging it."""
    stage = stage_of(job)
    return LocalMetric([], *(stage.read_all(name) for name in ("correlations", "ranks", "effective")))

"""The local metric of every landmark: a map over blocks of landmarks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.errors import NeighborhoodTooSmall
from dlcca.fitting import landmarks, neighborhood_rows, neighbors, sharing
from dlcca.fitting.job import Job
from dlcca.fitting.neighborhood_rows import LANDMARKS as LANDMARKS  # of a task, at least
from dlcca.numerics.metrics import METRICS
from dlcca.numerics.metrics.cca import LocalMetric
from dlcca.settings.fit import Settings

#: Entries of the neighborhoods gathered at once for a batch of local decompositions.
BATCH_ENTRIES = 1 << 22


def rank(job: Job) -> int:
    """Directions of a metric: what `fit_metric` gives for these shapes."""
    k = neighborhood_rows.width(job)
    most = METRICS[job.options["metric"]].directions([min(k, d) for d in job.dims])
    return min(most, int(job.options["rank"]))


def compute(job: Job, stage: Blocks, block: int) -> None:
    first = block * neighborhood_rows.per_task(job)
    g, place = divmod(first, landmarks.GROUP)
    rows = neighbors.neighbors(job, g)[place : place + neighborhood_rows.per_task(job)]
    views, where = neighborhood_rows.gathered(job, rows)
    found = fit_metric(views, where, job.settings)
    if job.options["ridge"] == 0 and not job.allow_degenerate:
        refuse_degenerate(found, rows.shape[1], job.dims, job.settings, first)
    parts = {f"factors_{v}": F for v, F in enumerate(found.factors)}
    parts |= {"correlations": found.correlations.astype(np.float64), "ranks": found.ranks.astype(np.int64)}
    parts |= {"effective": found.effective.astype(np.float64), **sharing.tested(job, views, where, found.ranks)}
    stage.write(block, {name: (first, X) for name, X in parts.items()}, {})


def fit_metric(arrays: Sequence[NDArray], neighbors: NDArray[np.int64], settings: Settings) -> LocalMetric:
    """The local metric of every view at every landmark, in batches that bound the memory."""
    ridge, kind, r = float(settings.metric.ridge), settings.metric.kind, int(settings.metric.rank)
    batch = max(1, BATCH_ENTRIES // (neighbors.shape[1] * sum(X.shape[1] for X in arrays)))
    batches = (neighbors[first : first + batch] for first in range(0, len(neighbors), batch))
    parts = [METRICS[kind].compute([X[rows] for X in arrays], ridge, r) for rows in batches]
    return LocalMetric(
        factors=[np.concatenate([p.factors[v][:, :, :r] for p in parts]) for v in range(len(parts[0].factors))],
        correlations=np.concatenate([p.correlations[:, :r] for p in parts]),
        ranks=np.concatenate([p.ranks for p in parts]),
        effective=np.concatenate([p.effective for p in parts]),
    )


def refuse_degenerate(metric: LocalMetric, k: int, dims: Sequence[int], settings: Settings, first: int = 0) -> None:
    """Without a ridge, too few neighbours make correlations of exactly 1 out of nothing.

    ``first`` is the number of the first landmark in ``metric``, which may be a block of many.
    """
    needed = metric.ranks.sum(axis=1) + 1
    if metric.ranks.shape[1] == 1:
        needed = np.where(metric.ranks[:, 0] < dims[0], needed + 1, needed)
    if (needed > k).any():
        worst = int(np.argmax(needed))
        channels, ranks = (" and ".join(map(str, sizes)) for sizes in (dims, metric.ranks[worst]))
        option = "window" if settings.neighborhoods.kind == "time" else "n_neighbors"
        raise NeighborhoodTooSmall(
            f"landmark {first + worst} has {k} neighbors; local {settings.metric.kind} of views with {channels} "
            f"channels (rank {ranks} there) needs at least {needed[worst]} when ridge is 0. "
            f"Raise {option} (now {k}), or set ridge (0.03 is usual)."
        )


def fill(job: Job, given: Sequence[NDArray]) -> None:
    """Leave given factors (m, d_v, r) in the store of a job in memory."""
    METRIC.fill(job, {f"factors_{v}": F for v, F in enumerate(given)})


def factors(job: Job) -> list[NDArray]:
    """The factors (m, d_v, r) of every view."""
    stage = METRIC.of(job)
    return [stage.read_all(f"factors_{v}") for v in range(job.K)]


def result(job: Job) -> LocalMetric:
    """The whole stage but for the factors, for judging it."""
    stage = METRIC.of(job)
    return LocalMetric([], *(stage.read_all(name) for name in ("correlations", "ranks", "effective")))


def _arrays(job: Job) -> Arrays:
    m, r, size = landmarks.count(job), rank(job), neighborhood_rows.per_task(job)
    return {
        **{f"factors_{v}": ((m, d, r), job.dtype, size) for v, d in enumerate(job.dims)},
        "correlations": ((m, r), "float64", size),
        "ranks": ((m, job.K), "int64", size),
        "effective": ((m, job.K), "float64", size),
        **{name: (shape, "float64", size) for name, shape in sharing.shapes(job).items()},
    }


def _cost(job: Job) -> dict[str, float]:
    m, k, dims = landmarks.count(job), neighborhood_rows.width(job), job.dims
    local = float(min(neighborhood_rows.per_task(job), m)) * k
    rows, copied = neighborhood_rows.rows_read(job)
    return {
        "decompositions": m * sum(20.0 * min(k, d) ** 2 * max(k, d) for d in (*dims, min(dims))),
        "reads": rows * job.width * job.itemsize,
        "memory": local * job.width * job.itemsize * 4.0
        + landmarks.rows_of_group(job) * k * 24.0
        + (0 if copied else job.reading_bytes),
    }


METRIC = Stage(
    "metric",
    compute,
    after=[neighborhood_rows.MEMBERS],
    options=["metric", "ridge", "rank"],
    constants=[LANDMARKS, neighborhood_rows.MANY_TASKS, neighborhood_rows.TASK_BYTES],
    n_blocks=neighborhood_rows.tasks,
    arrays=_arrays,
    cost=_cost,
    reads="the neighborhoods of some landmarks",
    leaves="their local metrics, and tests of what is common there",
)

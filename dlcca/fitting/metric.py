"""The local metric of every landmark: a map over blocks of landmarks."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.errors import NeighborhoodTooSmall
from dlcca.fitting import landmarks, neighborhood_rows, neighbors
from dlcca.fitting.job import Job
from dlcca.numerics.metrics import METRICS
from dlcca.numerics.metrics.cca import LocalMetric
from dlcca.numerics.principal import Leading
from dlcca.settings.fit import Settings
from dlcca.trust.components import Tested, n_directions
from dlcca.trust.sharing import at_landmarks

#: Entries of the neighborhoods gathered at once for a batch of local decompositions.
BATCH_ENTRIES = 1 << 22


def rank(job: Job) -> int:
    """Directions of a metric: what `fit_metric` gives for these shapes."""
    k = neighbors.width(job)
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
    parts |= {"effective": found.effective.astype(np.float64), **_tested(job, views, where, found)}
    stage.write(block, {name: (first, X) for name, X in parts.items()}, {})


def fit_metric(arrays: Sequence[NDArray], neighbors: NDArray[np.int64], settings: Settings) -> LocalMetric:
    """The local metric of every view at every landmark, in batches that bound the memory."""
    ridge, kind, r = float(settings.metric.ridge), settings.metric.kind, int(settings.metric.rank)
    batch = max(1, BATCH_ENTRIES // (neighbors.shape[1] * sum(X.shape[1] for X in arrays)))
    batches = (neighbors[first : first + batch] for first in range(0, len(neighbors), batch))
    parts = [METRICS[kind].compute([X[rows] for X in arrays], ridge, r) for rows in batches]
    most = n_directions(neighbors.shape[1])
    return LocalMetric(
        factors=[np.concatenate([p.factors[v][:, :, :r] for p in parts]) for v in range(len(parts[0].factors))],
        correlations=np.concatenate([p.correlations[:, :r] for p in parts]),
        ranks=np.concatenate([p.ranks for p in parts]),
        effective=np.concatenate([p.effective for p in parts]),
        principal=_joined([[view.first(most) for view in p.principal or ()] for p in parts]),
    )


def _joined(parts: Sequence[Sequence[Leading]]) -> list[Leading] | None:
    """The principal directions of all batches, view by view; None if the metric has not left them."""
    scores, variances = ([[getattr(view, name) for view in p] for p in parts] for name in ("scores", "variances"))
    joined = zip(zip(*scores, strict=True), zip(*variances, strict=True), strict=True)
    views = [Leading(np.concatenate(S), np.concatenate(variance)) for S, variance in joined]
    return views or None


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
        kind = settings.neighborhoods.kind  # may be an array of rows
        advice = f"Raise {'window' if kind == 'time' else 'n_neighbors'}" if isinstance(kind, str) else "Give more rows"
        raise NeighborhoodTooSmall(
            f"landmark {first + worst} has {k} neighbors; local {settings.metric.kind} of views with {channels} "
            f"channels (rank {ranks} there) needs at least {needed[worst]} when ridge is 0. "
            f"{advice} (now {k}), or set ridge (0.03 is usual)."
        )


def _tested(job: Job, views: Sequence[NDArray], rows: NDArray[np.int64], found: LocalMetric) -> dict[str, NDArray]:
    """Tests of what the views share at some landmarks, from rows (m, k) of views; none for one view."""
    if job.K < 2:
        return {}
    test, radius, condition = at_landmarks(views, rows, found.ranks, found.principal)
    steps = [np.moveaxis(x, 0, 1) for x in (test.statistic, test.freedom, test.penalty)]
    whole = [x.T[:, :, None] for x in (test.top, test.shared)]
    return {"tests": np.concatenate([*steps, *whole], axis=2), "radius": radius, "condition": condition}


def tested(job: Job) -> tuple[Tested, NDArray, NDArray]:
    """The tests at all landmarks, with the radius and the condition (m, K) of their neighborhoods."""
    X, radius, condition = (METRIC.of(job).read_all(name) for name in ("tests", "radius", "condition"))
    X, s = np.moveaxis(X, 1, 0), _steps(job)
    return Tested(X[:, :, :s], X[:, :, s : 2 * s], X[:, :, 2 * s : 3 * s], X[:, :, -2], X[:, :, -1]), radius, condition


def _steps(job: Job) -> int:
    """Steps of the test: directions of the narrower view, of the pair in which they are most."""
    k = neighbors.width(job)
    directions = [min(n_directions(k), k, d) for d in job.dims]
    return max(min(pair) for pair in combinations(directions, 2))


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
    correlations, ranks, effective = map(stage.read_all, ("correlations", "ranks", "effective"))
    return LocalMetric([], correlations, ranks, effective)


def _arrays(job: Job) -> Arrays:
    m, r, size, K = landmarks.count(job), rank(job), neighborhood_rows.per_task(job), job.K
    pairs = K * (K - 1) // 2
    tests = {"tests": (m, pairs, 3 * _steps(job) + 2), "radius": (m, K), "condition": (m, K)} if pairs else {}
    return {
        **{f"factors_{v}": ((m, d, r), job.dtype, size) for v, d in enumerate(job.dims)},
        "correlations": ((m, r), "float64", size),
        "ranks": ((m, K), "int64", size),
        "effective": ((m, K), "float64", size),
        **{name: (shape, "float64", size) for name, shape in tests.items()},
    }


def _cost(job: Job) -> dict[str, float]:
    m, k, dims = landmarks.count(job), neighbors.width(job), job.dims
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
    constants=[neighborhood_rows.LANDMARKS, neighborhood_rows.MANY_TASKS, neighborhood_rows.TASK_BYTES],
    n_blocks=neighborhood_rows.tasks,
    arrays=_arrays,
    cost=_cost,
    reads="the neighborhoods of some landmarks",
    leaves="their local metrics, and tests of what is common there",
)

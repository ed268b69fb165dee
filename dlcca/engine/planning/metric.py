"""What the local metrics cost, gathering the rows that they are fitted to, and telling them from chance."""

from __future__ import annotations

import math

from dlcca.engine.planning.sizes import Sizes
from dlcca.engine.planning.stage import StagePlan


def members(sizes: Sizes) -> StagePlan:
    gathered = _members_rows(sizes) * sizes.width * sizes.itemsize
    return StagePlan(
        "members",
        sizes.n_blocks if _metric_rows(sizes)[1] else 0,
        reads=sizes.pass_bytes,
        writes=gathered,
        memory=sizes.reading_bytes + 2 * gathered / sizes.n_blocks,
    )


def metric(sizes: Sizes) -> StagePlan:
    k, dims = sizes.k, sizes.dims
    local = float(min(sizes.metric_landmarks, sizes.m)) * k
    return StagePlan(
        "metric",
        _metric_tasks(sizes),
        decompositions=sizes.m * sum(20.0 * min(k, d) ** 2 * max(k, d) for d in (*dims, min(dims))),
        reads=_metric_rows(sizes)[0] * sizes.width * sizes.itemsize,
        writes=float(sizes.m) * sizes.width * sizes.r * sizes.itemsize,
        memory=local * sizes.width * sizes.itemsize * 4.0
        + -(-sizes.m // sizes.landmark_groups) * k * 24.0
        + (0 if _metric_rows(sizes)[1] else sizes.reading_bytes),
    )


def chance(sizes: Sizes) -> StagePlan:
    """Shifted views: nearest neighbours of a few samples among some stretches, anew for each shift; or windows."""
    shifts, looked_at, stretches = 39.0, 64, min(sizes.n, 20_000)
    width = sum(min(d, 24) for d in sizes.dims)
    rows = stretches if sizes.sought else 512 * sizes.k
    return StagePlan(
        "chance",
        1 if len(sizes.dims) > 1 else 0,
        products=shifts * 2.0 * looked_at * stretches * width if sizes.sought else 0.0,
        selections=shifts * looked_at * stretches * 4.0 if sizes.sought else 0.0,
        decompositions=(shifts if sizes.sought else 1.0) * 64 * sum(20.0 * min(sizes.k, d) ** 3 for d in sizes.dims),
        reads=min(float(rows), float(sizes.n)) * sizes.width * sizes.itemsize,
        memory=rows * sizes.width * 3.0 * 8 + looked_at * stretches * 4.0 * (len(sizes.dims) + 1),
    )


def _metric_tasks(sizes: Sizes) -> int:
    return -(-sizes.m // sizes.metric_landmarks)


def _members_rows(sizes: Sizes) -> float:
    """Samples in some neighborhood, about: drawn at random where they are neighbours, apart where they are windows."""
    drawn = sizes.m * sizes.k / sizes.n
    return sizes.n * (-math.expm1(-drawn) if sizes.sought else min(1.0, drawn))


def _metric_rows(sizes: Sizes) -> tuple[float, bool]:
    """Rows that all tasks of the stage "metric" read, about, and whether they read them from a copy."""
    tasks, members = _metric_tasks(sizes), _members_rows(sizes)
    direct = float(tasks if sizes.sought else 1) * sizes.n  # windows of neighbouring landmarks lie side by side
    copied = sizes.n + members + tasks * members < direct
    return (tasks * members if copied else direct), copied

"""The neighborhood of every landmark, in groups of landmarks, and how much of the truth an approximate search found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.engine.work import Tell, collect
from dlcca.fitting import landmarks, links, merge_neighbors, scan
from dlcca.fitting.in_memory import find_neighbors, given_neighbors
from dlcca.fitting.job import Job
from dlcca.numerics.approximate import recall
from dlcca.numerics.searches import checked_landmarks
from dlcca.numerics.topk import Nearest, near_both_ways
from dlcca.numerics.topk_merge import add


def is_approximate(job: Job) -> bool:
    return links.n_neighbors(job) > 0 and links.neighbors_by(job) == "pynndescent"


def width(job: Job) -> int:
    """Samples in a neighborhood."""
    kind = job.options["neighborhoods"]
    if not isinstance(kind, str):
        return np.asarray(kind).shape[1]
    return int(job.options["window"] if kind == "time" else job.options["n_neighbors"])


def says(job: Job) -> str:
    kind = job.options["neighborhoods"]
    return f"{kind if isinstance(kind, str) else 'given'}, {width(job)} samples, {job.options['neighbor_index']}"


def settle(job: Job, stage: Blocks, g: int) -> None:
    first, last = landmarks.group(job, g)
    kind = job.options["neighborhoods"]
    parts = {}
    if links.n_neighbors(job):
        found = merge_neighbors.nearest(job, g)
        rows = found.rows
        if is_approximate(job):
            parts = {"distances": (first, found.distances)}
    elif isinstance(kind, str):
        rows = find_neighbors(job.n, landmarks.rows(job)[first:last], job.settings, segments=job.segments)
    else:
        rows = given_neighbors(kind, landmarks.count(job), job.n)[first:last]
    stage.write(g, {"rows": (first, rows), **parts}, {})


def neighbors(job: Job, g: int) -> NDArray[np.int64]:
    """Rows (G, k) of the neighborhoods of a group."""
    return NEIGHBORHOODS.of(job).read("rows", g)


def _measure(job: Job, stage: Blocks, client: Any, tell: Tell | None) -> None:
    """Hold the neighbours of some landmarks against all samples, and keep the share that was found."""
    if not stage.missing():
        return
    some = checked_landmarks(landmarks.count(job))
    exact: Nearest | None = None
    for part in collect(exact_part, job, job.n_blocks, client, tell, (some,), name="recall"):
        if exact is None:
            exact = part
        else:
            add(exact, part)
    assert exact is not None
    found = [NEIGHBORHOODS.of(job).read("distances", g)[here] for g, here in _by_group(some)]
    stage.write(0, {}, {"recall": recall(np.concatenate(found), exact.distances), "landmarks": len(some)})


def exact_part(job: Job, block: int, some: NDArray[np.int64]) -> Nearest:
    """A block's part in the neighbours of a few landmarks; in float64, so that it is the truth."""
    points = [np.concatenate(P) for P in zip(*_some_points(job, some), strict=True)]
    nearest = Nearest.none(len(some), links.n_neighbors(job))
    views = [X.astype(np.float64) for X in job.block(block)]
    spreads = scan.result(job).spreads
    near_both_ways(views, points, spreads, n_links=0, first_row=job.bounds(block)[0], nearest=nearest)
    return nearest


def _some_points(job: Job, some: NDArray[np.int64]) -> list[list[NDArray]]:
    return [[P[here] for P in landmarks.points(job, g)] for g, here in _by_group(some)]


def _by_group(some: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """Landmarks in rising order: each group that has some of them, and their places in it."""
    groups = some // landmarks.GROUP
    return [(int(g), some[groups == g] - g * landmarks.GROUP) for g in np.unique(groups)]


def neighbor_recall(job: Job) -> float | None:
    """Share of the true neighbours among those found, at worst of neighbours and links; None if all are true."""
    found = [links.link_recall(job)]
    if is_approximate(job):
        found.append(float(RECALL.of(job).facts(0)["recall"]))
    known = [share for share in found if share is not None]
    return min(known) if known else None


def _arrays(job: Job) -> Arrays:
    shape = (landmarks.count(job), width(job))
    arrays: dict[str, Any] = {"rows": (shape, "int64", landmarks.GROUP)}
    return arrays | ({"distances": (shape, "float64", landmarks.GROUP)} if is_approximate(job) else {})


def _cost(sizes: Sizes) -> StagePlan:
    groups = sizes.landmark_groups
    parts = sizes.merged_tasks / groups if sizes.merged_tasks else merge_neighbors.parts_counted(sizes)
    return StagePlan(
        "neighborhoods",
        groups,
        reads=parts * sizes.m * sizes.sought * 16.0,
        writes=sizes.m * sizes.k * 8.0,
        memory=-(-sizes.m // groups) * sizes.k * 80.0,
    )


NEIGHBORHOODS = Stage(
    "neighborhoods",
    settle,
    after=[landmarks.POINTS, merge_neighbors.MERGED],
    options=["neighborhoods", "window", "n_neighbors", "neighbor_index"],
    constants=[landmarks.GROUP],
    n_blocks=landmarks.n_groups,
    arrays=_arrays,
    says=says,
    cost=_cost,
    reads="all parts of a group of landmarks",
    leaves="row numbers of its neighborhoods",
)
#: How much of the truth an approximate search found, at some landmarks.
RECALL = Stage(
    "recall",
    after=[NEIGHBORHOODS],
    is_needed=is_approximate,
    says=says,
    drive=_measure,
    reads="a block of samples",
    leaves="the share of true neighbours that an approximate search found",
)

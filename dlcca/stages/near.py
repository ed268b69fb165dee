"""One pass over all distances of samples and landmarks: each sample's links, and each landmark's neighbours.

Both are read off the same products, so the heaviest arithmetic of a run is done once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.near import Nearest, merged, near_both_ways
from dlcca.stages import landmarks, scan
from dlcca.stages.job import Job
from dlcca.stages.work import Tell, do_missing
from dlcca.stores.blocks import Stage


def n_links(job: Job) -> int:
    """Links of a row in each view; 0 where the fusion finds its links by the metric, in a later stage."""
    if job.options["fusion"] != "alternating":
        return 0
    m = landmarks.count(job)
    return min(int(job.options["n_links"]), m) if job.options["kernel"] == "sparse" else m


def n_neighbors(job: Job) -> int:
    """Neighbours sought for each landmark; 0 where they are a window of time."""
    kind = job.options["neighborhoods"]  # may be an array of rows
    return int(job.options["n_neighbors"]) if isinstance(kind, str) and kind == "knn" else 0


def is_needed(job: Job) -> bool:
    return n_links(job) + n_neighbors(job) > 0


def stage_of(job: Job) -> Stage:
    return job.stage("near", [*landmarks.depends(job), n_links(job), n_neighbors(job)], job.n_blocks)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Find links and neighbours in every block that has none yet."""
    if not is_needed(job):
        return
    m, s, k = landmarks.count(job), n_links(job), n_neighbors(job)
    arrays: dict[str, Any] = {}
    if s:
        arrays |= {f"links_{v}": ((job.n, s), "int32", job.rows) for v in range(job.K)}
    if k:
        arrays |= {"distances": ((job.n_blocks * m, k), "float64", m), "rows": ((job.n_blocks * m, k), "int64", m)}
    stage = stage_of(job).prepare(arrays, says=f"{s} links, {k} neighbours, {m} landmarks")
    do_missing(compute, job, stage, client, tell)


def compute(job: Job, stage: Stage, block: int) -> None:
    m, s, k = landmarks.count(job), n_links(job), n_neighbors(job)
    first, _last = job.bounds(block)
    nearest = Nearest.none(m, k) if k else None
    links = near_both_ways(
        job.block(block),
        landmarks.points(job),
        scan.result(job).spreads,
        n_links=s,
        first_row=first,
        nearest=nearest,
    )
    parts: dict[str, tuple[int, NDArray]] = {}
    if s:
        parts |= {f"links_{v}": (first, found) for v, found in enumerate(links)}
    if nearest is not None:
        parts |= {"distances": (block * m, nearest.distances), "rows": (block * m, nearest.rows)}
    stage.write(block, parts, {})


def neighbors(job: Job) -> NDArray[np.int64]:
    """Rows (m, k) of the neighbours of every landmark, all blocks together."""
    stage = stage_of(job)
    nearest: Nearest | None = None
    for block in range(stage.n_blocks):
        part = Nearest(stage.read("distances", block), stage.read("rows", block))
        nearest = part if nearest is None else merged([nearest, part])
    assert nearest is not None
    return nearest.rows

"""The samples of all neighborhoods, gathered in one pass over the recording.

Neighbours of a landmark lie anywhere. Each block of the recording is read once and gives the rows that any landmark
asks for, instead of being read again for every group of landmarks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.fitting import find_neighbors
from dlcca.stages import landmarks, near
from dlcca.stages.job import Job
from dlcca.stages.work import Tell, do_missing
from dlcca.stores.blocks import Stage


def depends(job: Job) -> list[Any]:
    """What the neighborhoods, and so all later stages, depend on."""
    return [*landmarks.depends(job), *(job.options[name] for name in ("neighborhoods", "window", "n_neighbors"))]


def neighbors_stage(job: Job) -> Stage:
    return job.stage("neighborhoods", depends(job), 1)


def stage_of(job: Job) -> Stage:
    return job.stage("members", depends(job), job.n_blocks)


def width(job: Job) -> int:
    """Samples in a neighborhood."""
    kind = job.options["neighborhoods"]
    if not isinstance(kind, str):
        return np.asarray(kind).shape[1]
    return int(job.options["window"] if kind == "time" else job.options["n_neighbors"])


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Settle the neighborhoods, and gather their rows from every block that was not asked yet."""
    m, k = landmarks.count(job), width(job)
    says = f"{job.options['neighborhoods'] if isinstance(job.options['neighborhoods'], str) else 'given'}, {k} samples"
    settled = neighbors_stage(job).prepare({"rows": ((m, k), "int64", m)}, says=says)
    do_missing(settle, job, settled, client, tell)
    most = max(1, int(_counts(job).max()))
    arrays: dict[str, Any] = {
        f"values_{v}": ((job.n_blocks * most, d), job.dtype, most) for v, d in enumerate(job.dims)
    }
    do_missing(gather, job, stage_of(job).prepare(arrays, says=says), client, tell)


def settle(job: Job, stage: Stage, block: int) -> None:
    if near.n_neighbors(job):
        rows = near.neighbors(job)
    else:
        rows = find_neighbors(job.n, landmarks.rows(job), job.settings)
    stage.write(block, {"rows": (0, rows)}, {})


def neighbors(job: Job) -> NDArray[np.int64]:
    """Rows (m, k) of every landmark's neighborhood."""
    return neighbors_stage(job).read("rows", 0)


def _counts(job: Job) -> NDArray[np.int64]:
    """How many rows of each block are asked for."""
    return np.bincount(np.unique(neighbors(job)) // job.rows, minlength=job.n_blocks)


def gather(job: Job, stage: Stage, block: int) -> None:
    first, last = job.bounds(block)
    wanted = np.unique(neighbors(job))
    wanted = wanted[(wanted >= first) & (wanted < last)]
    place = block * int(stage.array("values_0").chunks[0])
    parts = {}
    if len(wanted):
        parts = {f"values_{v}": (place, X[wanted - first]) for v, X in enumerate(job.block(block))}
    stage.write(block, parts, {})


def values(job: Job, rows: NDArray[np.int64]) -> list[NDArray]:
    """The views (len(rows), d_v) at rows of neighborhoods, each row given once and in rising order."""
    stage = stage_of(job)
    asked = np.unique(neighbors(job))
    found: list[list[NDArray]] = [[] for _ in job.dims]
    for block in np.unique(rows // job.rows):
        first, last = job.bounds(int(block))
        here = asked[(asked >= first) & (asked < last)]
        at = np.searchsorted(here, rows[(rows >= first) & (rows < last)])
        for v, parts in enumerate(found):
            parts.append(stage.read(f"values_{v}", int(block))[at])
    return [np.concatenate(parts) for parts in found]

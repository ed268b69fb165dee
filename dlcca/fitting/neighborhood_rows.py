"""The samples of all neighborhoods: where a task that fits metrics reads them.

Neighbours of a landmark lie anywhere, so that a task of the metric stage reads every block in which it has some. Where
few samples are anybody's neighbours, they are copied first, in one pass over the recording, and the tasks read the
copy; where most are, a copy would be as long as the recording, and tasks read that. `survey` counts, and decides by
the rows that are read and written in all::

    with a copy     n + M + T·M     n samples, M of them in some neighborhood, T tasks
    without         rows of the blocks in which each task has neighbours, at most T·n
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import landmarks, neighbors
from dlcca.fitting.job import Job
from dlcca.fitting.neighbors import depends as depends
from dlcca.fitting.neighbors import width as width
from dlcca.storage.blocks import Stage

#: Landmarks of a task of the metric stage: at least so many, and more where there are very many of them.
LANDMARKS = 256
MANY_TASKS = 64
#: The samples of a task's neighborhoods take no more than this.
TASK_BYTES = 32 << 20


def per_task(job: Job) -> int:
    """Landmarks of a task of the metric stage; so many that a group is a whole number of tasks."""
    m, size = landmarks.count(job), min(LANDMARKS, landmarks.GROUP)
    bytes_of_one = width(job) * sum(job.dims) * np.dtype(job.dtype).itemsize
    while 2 * size <= landmarks.GROUP and m > MANY_TASKS * size and 2 * size * bytes_of_one <= TASK_BYTES:
        size *= 2
    return size


def survey_stage(job: Job) -> Stage:
    return job.stage("asked", [*depends(job), per_task(job)], 1)


def stage_of(job: Job) -> Stage:
    return job.stage("members", depends(job), job.n_blocks)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Count the samples that are asked for, and copy them from every block that was not asked yet, if it pays."""
    says = neighbors.says(job)
    bits = {"bits": ((job.n_blocks, -(-job.rows // 8)), "uint8", job.n_blocks)}
    do_missing(survey, job, survey_stage(job).prepare(bits, says=says), client, tell)
    facts = survey_stage(job).facts(0)
    if not facts["copied"]:
        return
    most = int(facts["most"])
    arrays: dict[str, Any] = {
        f"values_{v}": ((job.n_blocks * most, d), job.dtype, most) for v, d in enumerate(job.dims)
    }
    do_missing(gather, job, stage_of(job).prepare(arrays, says=says), client, tell)


def survey(job: Job, stage: Stage, block: int) -> None:
    """Mark every sample that is somebody's neighbour, a bit each, and decide whether they are copied."""
    asked = np.zeros(job.n_blocks * job.rows, dtype=bool)
    size = per_task(job)
    tasks = direct = 0
    for g in range(landmarks.n_groups(job)):
        rows = neighbors.neighbors(job, g)
        asked[rows.ravel()] = True
        for first in range(0, len(rows), size):
            blocks = np.unique(rows[first : first + size] // job.rows)
            direct += sum(last - first for first, last in map(job.bounds, blocks.tolist()))
            tasks += 1
    of_blocks = asked.reshape(job.n_blocks, job.rows)
    members = int(asked.sum())
    facts = {
        "members": members,
        "most": int(of_blocks.sum(axis=1).max()),
        "copied": job.n + members + tasks * members < direct,
    }
    stage.write(block, {"bits": (0, np.packbits(of_blocks, axis=1))}, facts)


def _asked_of(job: Job, block: int, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The rows of a block, counted from its first, that are asked for."""
    return np.flatnonzero(np.unpackbits(bits[block]))


def gather(job: Job, stage: Stage, block: int) -> None:
    wanted = _asked_of(job, block, survey_stage(job).read("bits", 0))
    place = block * int(survey_stage(job).facts(0)["most"])
    parts = {}
    if len(wanted):
        parts = {f"values_{v}": (place, X[wanted]) for v, X in enumerate(job.block(block))}
    stage.write(block, parts, {})


def values(job: Job, rows: NDArray[np.int64]) -> list[NDArray]:
    """The views (len(rows), d_v) at rows of neighborhoods, each row given once and in rising order.

    Blocks are read one after another, and only the rows asked for are kept.
    """
    copied = survey_stage(job).facts(0)["copied"]
    bits = survey_stage(job).read("bits", 0) if copied else None
    found: list[list[NDArray]] = [[] for _ in job.dims]
    for block in np.unique(rows // job.rows).tolist():
        first, last = job.bounds(block)
        at = rows[(rows >= first) & (rows < last)] - first
        if bits is not None:
            at = np.searchsorted(_asked_of(job, block, bits), at)
        for v, parts in enumerate(found):
            X = stage_of(job).read(f"values_{v}", block) if copied else job.read(v, slice(first, last))
            parts.append(X[at])
    return [np.concatenate(parts) for parts in found]

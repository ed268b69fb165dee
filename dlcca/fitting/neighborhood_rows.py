"""The samples of all neighborhoods: where a task that fits metrics reads them.

Neighbours of a landmark lie anywhere, so that a task of the metric stage reads every block in which it has some. Where
few samples are in any neighborhood, they are copied first, in one pass over the recording, and the tasks read the
copy; where most are, a copy would be as long as the recording, and tasks read that. `survey` counts, and decides by
the rows that are read and written in all::

    with a copy     n + M + T·M     n samples, M of them in some neighborhood, T tasks
    without         rows of the blocks in which each task has neighbours, at most T·n
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.fitting import landmarks, links, neighbors
from dlcca.fitting.job import Job

#: Landmarks of a task of the metric stage: at least so many, and more where there are very many of them.
LANDMARKS = 256
MANY_TASKS = 64
#: The samples of a task's neighborhoods take no more than this.
TASK_BYTES = 32 << 20


def per_task(job: Job) -> int:
    """Landmarks of a task of the metric stage; so many that a group is a whole number of tasks."""
    if job.in_memory:
        return landmarks.GROUP
    m, size = landmarks.count(job), min(LANDMARKS, landmarks.GROUP)
    bytes_of_one = neighbors.width(job) * sum(job.dims) * np.dtype(job.dtype).itemsize
    while 2 * size <= landmarks.GROUP and m > MANY_TASKS * size and 2 * size * bytes_of_one <= TASK_BYTES:
        size *= 2
    return size


def survey(job: Job, stage: Blocks, block: int) -> None:
    """Mark every sample that is in some neighborhood, a bit each, and decide whether they are copied."""
    used = np.zeros(job.n_blocks * job.rows, dtype=bool)
    size, direct = per_task(job), 0
    for g in range(landmarks.n_groups(job)):
        rows = neighbors.neighbors(job, g)
        used[rows.ravel()] = True
        for first in range(0, len(rows), size):
            blocks = np.unique(rows[first : first + size] // job.rows)
            direct += sum(last - first for first, last in map(job.bounds, blocks.tolist()))
    of_blocks, members = used.reshape(job.n_blocks, job.rows), int(used.sum())
    copied = job.n + members + tasks(job) * members < direct
    facts = {"members": members, "most": int(of_blocks.sum(axis=1).max()), "copied": copied}
    stage.write(block, {"bits": (0, np.packbits(of_blocks, axis=1))}, facts)


def _rows_of(block: int, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The rows of a block, counted from its first, that are in some neighborhood."""
    return np.flatnonzero(np.unpackbits(bits[block]))


def gather(job: Job, stage: Blocks, block: int) -> None:
    rows = _rows_of(block, SURVEY.of(job).read("bits", 0))
    place = block * int(SURVEY.of(job).facts(0)["most"])
    views = job.block(block) if len(rows) else []
    stage.write(block, {f"values_{v}": (place, X[rows]) for v, X in enumerate(views)}, {})


def gathered(job: Job, rows: NDArray[np.int64]) -> tuple[Sequence[NDArray], NDArray[np.int64]]:
    """Views, and the rows (m, k) of neighborhoods as row numbers of these views."""
    if job.in_memory:
        return [job.read(v, slice(None)) for v in range(job.K)], rows
    if links.subset_size(job):
        return neighbors.subset_views(job), np.searchsorted(links.subset_rows(job), rows)
    unique, where = np.unique(rows, return_inverse=True)
    return values(job, unique), where.reshape(rows.shape)


def values(job: Job, rows: NDArray[np.int64]) -> list[NDArray]:
    """The views (len(rows), d_v) at rows of neighborhoods, each row given once and in rising order.

    Blocks are read one after another, and only the requested rows are kept.
    """
    bits = SURVEY.of(job).read("bits", 0) if SURVEY.of(job).facts(0)["copied"] else None
    found: list[list[NDArray]] = [[] for _ in job.dims]
    for block in np.unique(rows // job.rows).tolist():
        first, last = job.bounds(block)
        at = rows[(rows >= first) & (rows < last)] - first
        if bits is not None:
            at = np.searchsorted(_rows_of(block, bits), at)
        for v, parts in enumerate(found):
            X = job.read(v, slice(first, last)) if bits is None else MEMBERS.of(job).read(f"values_{v}", block)
            parts.append(X[at])
    return [np.concatenate(parts) for parts in found]


def _values(job: Job) -> Arrays:
    most = int(SURVEY.of(job).facts(0)["most"])
    return {f"values_{v}": ((job.n_blocks * most, d), job.dtype, most) for v, d in enumerate(job.dims)}


def _is_counted(job: Job) -> bool:
    return not job.in_memory and not links.subset_size(job)


def _survey_cost(job: Job) -> dict[str, float]:
    entries = float(landmarks.count(job)) * neighbors.width(job)
    return {"selections": 8 * entries, "reads": 8 * entries, "memory": 1.3 * job.n + 24 * entries}


def _members_cost(job: Job) -> dict[str, float]:
    gathered = members_counted(job) * job.width * job.itemsize
    return {
        "tasks": job.n_blocks if rows_read(job)[1] and not links.subset_size(job) else 0,
        "reads": job.pass_bytes,
        "writes": gathered,
        "memory": job.reading_bytes + 2 * gathered / job.n_blocks,
    }


def tasks(job: Job) -> int:
    """Tasks of the metric stage."""
    return -(-landmarks.count(job) // per_task(job))


def members_counted(job: Job) -> float:
    """Samples in some neighborhood, about: drawn at random where they are neighbours, apart where they are windows."""
    drawn = landmarks.count(job) * neighbors.width(job) / job.n
    return job.n * (-math.expm1(-drawn) if links.n_neighbors(job) else min(1.0, drawn))


def rows_read(job: Job) -> tuple[float, bool]:
    """Rows that all tasks of the stage "metric" read, about, and whether they read them from a copy."""
    many, members = tasks(job), members_counted(job)
    if links.subset_size(job):
        return float(many) * links.subset_size(job), True
    direct = float(many if links.n_neighbors(job) else 1) * job.n  # windows of adjacent landmarks lie side by side
    copied = job.n + members + many * members < direct
    return (many * members if copied else direct), copied


SURVEY = Stage(
    "asked",
    survey,
    after=[neighbors.NEIGHBORHOODS],
    arrays=lambda job: {"bits": ((job.n_blocks, -(-job.rows // 8)), "uint8", job.n_blocks)},
    is_needed=_is_counted,
    cost=_survey_cost,
    reads="all neighborhoods",
    leaves="which rows are in some neighborhood, and whether a copy of them saves reading",
)
MEMBERS = Stage(
    "members",
    gather,
    after=[SURVEY],
    n_blocks=lambda job: job.n_blocks,
    arrays=_values,
    is_needed=lambda job: _is_counted(job) and bool(SURVEY.of(job).facts(0)["copied"]),
    cost=_members_cost,
    reads="a block of samples",
    leaves="a copy of the rows in some neighborhood",
)

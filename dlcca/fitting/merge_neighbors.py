"""The landmarks' neighbours from the parts of all blocks or shards: a map over groups of landmarks.

Of many parts, spans of `SPAN` are merged first, each in a task of its own, and then the spans: a tree of two levels.
The order of neighbours is total (by distance, then by row), so that any grouping gives the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import index_queries, landmarks, links
from dlcca.fitting.job import Job
from dlcca.numerics.topk import Nearest
from dlcca.numerics.topk_merge import add
from dlcca.storage.blocks import Stage

#: Parts that a task merges: 2^10 of them, which is 6·10^7 samples, are read by 32 tasks and then by one.
SPAN = 32


def n_parts(job: Job) -> int:
    return job.n_blocks if links.neighbors_by(job) == "products" else index_queries.n_shards(job)


def n_spans(job: Job) -> int:
    return -(-n_parts(job) // SPAN)


def stage_of(job: Job) -> Stage:
    source = links.stage_of(job) if links.neighbors_by(job) == "products" else index_queries.stage_of(job)
    return job.stage("merged", [source.fingerprint, SPAN], n_spans(job) * landmarks.n_groups(job))


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Merge the spans, where there is more than one."""
    if links.n_neighbors(job) == 0 or n_spans(job) == 1:
        return
    arrays = links.parts_of_neighbors(job, n_spans(job))
    do_missing(merge, job, stage_of(job).prepare(arrays, says=f"{n_parts(job)} parts"), client, tell)


def merge(job: Job, stage: Stage, block: int) -> None:
    span, g = divmod(block, landmarks.n_groups(job))
    parts = range(span * SPAN, min(n_parts(job), (span + 1) * SPAN))
    stage.write(block, links.part_of_neighbors(g, span, _together(_part(job, part, g) for part in parts)), {})


def nearest(job: Job, g: int) -> Nearest:
    """The neighbours of a group, all samples together."""
    if n_spans(job) == 1:
        return _together(_part(job, part, g) for part in range(n_parts(job)))
    stage, groups = stage_of(job), landmarks.n_groups(job)
    return _together(_read(stage, span * groups + g, g) for span in range(n_spans(job)))


def _part(job: Job, part: int, g: int) -> Nearest:
    if links.neighbors_by(job) == "products":
        return _read(links.stage_of(job), part, g)
    return _read(index_queries.stage_of(job), index_queries.block_of(job, part, g), g)


def _read(stage: Stage, block: int, g: int) -> Nearest:
    return Nearest(stage.read(f"distances_{g}", block), stage.read(f"rows_{g}", block))


def _together(parts: Iterable[Nearest]) -> Nearest:
    found: Nearest | None = None
    for part in parts:
        if found is None:
            found = part
        else:
            add(found, part)
    assert found is not None
    return found

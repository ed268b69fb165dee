"""The landmarks' neighbours from the parts of all blocks or shards: a map over groups of landmarks.

Of many parts, spans of `SPAN` are merged first, each in a task of its own, and then the spans: a tree of two levels.
The order of neighbours is total (by distance, then by row), so that any grouping gives the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Blocks, Stage
from dlcca.fitting import index_queries, landmarks, links
from dlcca.fitting.job import Job
from dlcca.numerics.topk import Nearest
from dlcca.numerics.topk_merge import add

#: Parts that a task merges: 2^10 of them, which is 6·10^7 samples, are read by 32 tasks and then by one.
SPAN = 32


def n_parts(job: Job) -> int:
    return job.n_blocks if links.neighbors_by(job) == "products" else index_queries.n_shards(job)


def n_spans(job: Job) -> int:
    return -(-n_parts(job) // SPAN)


def merge(job: Job, stage: Blocks, block: int) -> None:
    span, g = divmod(block, landmarks.n_groups(job))
    parts = range(span * SPAN, min(n_parts(job), (span + 1) * SPAN))
    stage.write(block, links.part_of_neighbors(g, span, _together(_part(job, part, g) for part in parts)), {})


def nearest(job: Job, g: int) -> Nearest:
    """The neighbours of a group, all samples together."""
    if n_spans(job) == 1:
        return _together(_part(job, part, g) for part in range(n_parts(job)))
    stage, groups = MERGED.of(job), landmarks.n_groups(job)
    return _together(_read(stage, span * groups + g, g) for span in range(n_spans(job)))


def _part(job: Job, part: int, g: int) -> Nearest:
    if links.neighbors_by(job) == "products":
        return _read(links.LINKS.of(job), part, g)
    return _read(index_queries.INDEX_QUERIES.of(job), index_queries.block_of(job, part, g), g)


def _read(stage: Blocks, block: int, g: int) -> Nearest:
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


def parts_counted(sizes: Sizes) -> int:
    """Parts of each landmark's neighbours: of blocks, or of shards."""
    return sizes.n_blocks if sizes.sought_by == "products" else -(-sizes.n // links.SHARD_ROWS)


def _cost(sizes: Sizes) -> StagePlan:
    moved = float(sizes.m) * sizes.sought * 16
    held = moved / sizes.landmark_groups
    return StagePlan("merged", sizes.merged_tasks, reads=parts_counted(sizes) * moved, writes=moved, memory=6 * held)


MERGED = Stage(
    "merged",
    merge,
    after=[links.LINKS, index_queries.INDEX_QUERIES],
    constants=[SPAN],
    n_blocks=lambda job: n_spans(job) * landmarks.n_groups(job),
    arrays=lambda job: links.parts_of_neighbors(job, n_spans(job)),
    is_needed=lambda job: links.n_neighbors(job) > 0 and n_spans(job) > 1,
    says=lambda job: f"{n_parts(job)} parts",
    cost=_cost,
    reads="the parts of 32 blocks",
    leaves="their neighbours of a group of landmarks, merged, where there are many blocks",
)

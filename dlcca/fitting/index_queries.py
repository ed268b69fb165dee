"""Neighbours of the landmarks by indexes: one for each shard of samples, which every landmark asks.

An index of pynndescent takes long to make: a task makes one, and asks it for all landmarks, a group at a time. A tree
is made in a second: a task makes (or keeps) one and asks it for one group, so that workers can share a shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Blocks, Stage
from dlcca.fitting import indexes, landmarks, links, scan
from dlcca.fitting.job import Job


def is_needed(job: Job) -> bool:
    return links.n_neighbors(job) > 0 and links.neighbors_by(job) != "products"


def n_shards(job: Job) -> int:
    return len(indexes.bounds(job, links.neighbors_by(job)))


def block_of(job: Job, shard: int, g: int) -> int:
    """The block in which a shard answers a group."""
    return shard * landmarks.n_groups(job) + g if links.neighbors_by(job) == "tree" else shard


def compute(job: Job, stage: Blocks, block: int) -> None:
    groups = landmarks.n_groups(job)
    if links.neighbors_by(job) == "tree":
        shard, g = divmod(block, groups)
        stage.write(block, _asked(job, shard, range(g, g + 1)), {})
    else:
        stage.write(block, _asked(job, block, range(groups)), {})


def _asked(job: Job, shard: int, groups: range) -> Iterator[links.Part]:
    index = indexes.of_shard(job, shard, links.neighbors_by(job))
    for g in groups:
        nearest = index.nearest(landmarks.points(job, g), links.n_neighbors(job))
        yield from links.part_of_neighbors(g, shard, nearest)


def _tasks(job: Job) -> int:
    return n_shards(job) * (landmarks.n_groups(job) if links.neighbors_by(job) == "tree" else 1)


def _compile(job: Job, client: Any) -> None:
    if links.neighbors_by(job) == "pynndescent":
        indexes.warm(client)


def _cost(sizes: Sizes) -> StagePlan:
    """Indexes of samples that are asked for the neighbours of every landmark."""
    shard = min(sizes.n, links.SHARD_ROWS)
    return StagePlan(
        "shards",
        sizes.shard_tasks,
        selections=float(sizes.n + sizes.m) * sizes.sought * links.INDEX_STEPS,
        reads=sizes.pass_bytes,
        writes=sizes.shard_tasks / sizes.landmark_groups * sizes.m * sizes.sought * 16.0,
        memory=float(shard) * (sizes.width * (sizes.itemsize + 4.0) + 16 * sizes.sought),
    )


INDEX_QUERIES = Stage(
    "shards",
    compute,
    after=[landmarks.POINTS, scan.MOMENTS],
    options=["neighborhoods", "n_neighbors", "neighbor_index"],
    constants=[landmarks.GROUP, indexes.TREE_ROWS],
    n_blocks=_tasks,
    arrays=lambda job: links.parts_of_neighbors(job, n_shards(job)),
    is_needed=is_needed,
    says=lambda job: (
        f"{links.n_neighbors(job)} neighbours of {landmarks.count(job)} landmarks by {links.neighbors_by(job)}"
    ),
    cost=_cost,
    before=_compile,
    afterwards=lambda job, client: indexes.forget(client),
    reads="a shard of samples",
    leaves="neighbours found by an index of the shard, where there are many landmarks",
)

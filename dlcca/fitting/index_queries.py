"""Neighbours of the landmarks by indexes: one for each shard of samples, which every landmark asks.

An index of pynndescent takes long to make: a task makes one, and asks it for all landmarks, a group at a time. A tree
is made in a second: a task makes (or keeps) one and asks it for one group, so that workers can share a shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import indexes, landmarks, links
from dlcca.fitting.job import Job
from dlcca.storage.blocks import Stage


def is_needed(job: Job) -> bool:
    return links.n_neighbors(job) > 0 and links.neighbors_by(job) != "products"


def n_shards(job: Job) -> int:
    return len(indexes.bounds(job, links.neighbors_by(job)))


def stage_of(job: Job) -> Stage:
    how, shards = links.neighbors_by(job), indexes.bounds(job, links.neighbors_by(job))
    tasks = len(shards) * (landmarks.n_groups(job) if how == "tree" else 1)
    depends = [*landmarks.depends(job), links.n_neighbors(job), how, shards, landmarks.GROUP]
    return job.stage("shards", depends, tasks)


def block_of(job: Job, shard: int, g: int) -> int:
    """The block in which a shard answers a group."""
    return shard * landmarks.n_groups(job) + g if links.neighbors_by(job) == "tree" else shard


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Ask every shard that was not asked yet."""
    if not is_needed(job):
        return
    how, k = links.neighbors_by(job), links.n_neighbors(job)
    says = f"{k} neighbours of {landmarks.count(job)} landmarks by {how}"
    stage = stage_of(job).prepare(links.parts_of_neighbors(job, n_shards(job)), says=says)
    if how == "pynndescent" and stage.missing():
        indexes.warm(client)
    if do_missing(compute, job, stage, client, tell):
        indexes.forget(client)


def compute(job: Job, stage: Stage, block: int) -> None:
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

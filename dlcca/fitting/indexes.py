"""Indexes in the memory of a worker: of a shard of samples, or of all landmarks in one view.

Many tasks ask for the same index, and a worker keeps those it used last. It can always be made again: nothing of it is
on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.fitting import axes, landmarks, scan
from dlcca.fitting.job import Job
from dlcca.numerics.distances import project
from dlcca.numerics.neighbors import Index, Tree, shards
from dlcca.storage import cache

#: Samples of a shard with a tree of its own: 2^21 of 8 channels take 0.4 GB.
TREE_ROWS = 1 << 21

AnyIndex = Index | Tree

#: Kinds of indexes in the cache of a process.
SAMPLES, LANDMARKS = "index of samples", "index of landmarks"


def bounds(job: Job, how: str) -> list[tuple[int, int]]:
    """The shards of the samples; they depend on the number of samples alone."""
    if how == "pynndescent":
        return shards(job.n)
    return [(first, min(job.n, first + TREE_ROWS)) for first in range(0, job.n, TREE_ROWS)]


def of_shard(job: Job, shard: int, how: str) -> AnyIndex:
    """The index of a shard of samples, by the joint distance."""
    first, last = bounds(job, how)[shard]
    spreads = scan.result(job).spreads

    def make() -> AnyIndex:
        return KINDS[how]([job.read(v, slice(first, last)) for v in range(job.K)], spreads, first)

    return job.cached(SAMPLES, landmarks.POINTS.fingerprint(job), how, shard, *spreads, make=make, keep=1)


def links(job: Job, v: int, X: NDArray, s: int, how: str) -> NDArray[np.int64]:
    """The s landmarks (b, s) nearest to each sample along one view's axes, nearest first."""
    here = axes.of(job)[v]

    def make() -> AnyIndex:
        return KINDS[how]([project(landmarks.points(job)[v], here)], [1.0], 0)

    # The spreads are in the key because they change when any sample does.
    key = (landmarks.POINTS.fingerprint(job), how, v, *scan.result(job).spreads)
    index = job.cached(LANDMARKS, *key, make=make, keep=job.K)
    return index.nearest([project(X, here)], s).rows


KINDS: dict[str, Callable[..., AnyIndex]] = {"tree": Tree.of, "pynndescent": Index.of}


def forget(client: Any = None) -> None:
    """Give the memory of all indexes back, here and on the workers: the next stages need it."""
    if client is not None:
        client.run(forget)
    for kind in (SAMPLES, LANDMARKS):
        cache.clear(kind)


def warm(client: Any, how: str) -> None:
    """Have pynndescent compiled in every worker, those that come later included: once, and not in a task."""
    if client is None or how != "pynndescent":
        return  # without a client, it compiles when it is first used, here
    from dlcca.engine.warm_up import CompilesPynndescent

    client.register_plugin(CompilesPynndescent())

"""A job whose views are arrays in memory: the same stages, on one block, with a store that is a dict."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine import given_rows
from dlcca.engine.memory_store import MemoryBlocks, MemoryStore
from dlcca.fitting.job import Job, T
from dlcca.settings.fit import Settings


@dataclass(frozen=True)
class ArraySource:
    """One view by its name."""

    name: str


@dataclass(frozen=True, eq=False)
class MemoryJob(Job):
    """K arrays (n, d_v). A job with other settings that has the same store shares the stages that do not differ."""

    arrays: Sequence[NDArray] = ()
    stretches: NDArray[np.int64] | None = None  # (n,) numbers of the unbroken stretches
    store: MemoryStore = field(default_factory=MemoryStore)
    allow_degenerate: bool = False

    in_memory = True

    @property
    def whole_views(self) -> Sequence[NDArray]:
        return self.arrays

    @property
    def segments(self) -> NDArray[np.int64] | None:
        return self.stretches

    def block(self, block: int) -> list[NDArray]:
        first, last = self.bounds(block)
        return [X[first:last] for X in self.arrays]

    def read(self, v: int, rows: Any) -> NDArray:
        return self.arrays[v][rows]

    def checksums(self, views: Sequence[NDArray]) -> dict[str, list[int]]:
        return {}

    def confirm_inputs(self, client: Any = None, tell: Any = None) -> None:
        """Nobody else can change them."""

    def find(self, kind: str, *key: Hashable) -> Any:
        return self.store.find(kind, key)

    def cached(self, kind: str, *key: Hashable, make: Callable[[], T], keep: int | None = None) -> T:
        return self.store.cached(kind, key, make, keep=keep)

    def blocks(self, name: str, known_by: str, n_blocks: int) -> MemoryBlocks:  # type: ignore[override]
        return MemoryBlocks(self.store, name, known_by, n_blocks)


def memory_job(
    arrays: Sequence[NDArray],
    names: Sequence[str],
    settings: Settings,
    seed: int = 0,
    segments: NDArray[np.int64] | None = None,
    *,
    allow_degenerate: bool = False,
) -> MemoryJob:
    """The job of arrays (n, d_v) that have been checked, with settings that hold no "auto"."""
    n = len(arrays[0])
    return MemoryJob(
        address="",
        sources=tuple(map(ArraySource, names)),  # type: ignore[arg-type]
        settings=given_rows.as_arrays(settings),
        seed=seed,
        n=n,
        dims=tuple(X.shape[1] for X in arrays),
        dtype=str(np.result_type(*arrays)),
        rows=n,
        inputs="",
        arrays=tuple(arrays),
        stretches=segments,
        allow_degenerate=allow_degenerate,
    )

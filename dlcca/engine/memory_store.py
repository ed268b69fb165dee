"""A store that is a dict: what stages leave when views are arrays in memory.

`MemoryBlocks` has the methods of `dlcca.storage.blocks.Blocks` that stages use. Nothing is copied, checked or locked:
the store lives as long as its job, in one process.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DamagedBlock
from dlcca.storage.blocks import Parts

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class MemoryBlocks:
    """The blocks of one stage, and what it has left."""

    name: str
    fingerprint: str
    n_blocks: int
    _dtypes: dict[str, np.dtype] = field(default_factory=dict)
    _parts: dict[tuple[str, int], NDArray] = field(default_factory=dict)  # by array and block
    _facts: dict[int, dict[str, Any]] = field(default_factory=dict)  # by block

    #: Stores on disk have one; see `dlcca.engine.work`.
    address = ""

    def prepare(self, arrays: Mapping[str, tuple[Any, ...]], *, says: str = "") -> Self:
        """Note the dtypes of the arrays (shape, dtype, rows of a block)."""
        self._dtypes.update({name: np.dtype(dtype) for name, (_shape, dtype, *_) in arrays.items()})
        return self

    def missing(self) -> list[int]:
        return [block for block in range(self.n_blocks) if block not in self._facts]

    def is_finished(self, block: int) -> bool:
        return block in self._facts

    def write(self, block: int, parts: Parts, facts: Mapping[str, Any]) -> None:
        """Keep a block's part of each array (first row, rows), read-only, and its facts."""
        for array, (_first, X) in parts.items() if isinstance(parts, Mapping) else parts:
            kept = np.asarray(X).astype(self._dtypes[array], copy=False).view()
            kept.flags.writeable = False
            self._parts[array, block] = kept
        self._facts[block] = dict(facts)

    def facts(self, block: int) -> dict[str, Any]:
        if block not in self._facts:
            raise DamagedBlock(f"block {block} of stage {self.name!r} has not been computed.")
        return self._facts[block]

    def read(self, array: str, block: int) -> NDArray:
        self.facts(block)
        return self._parts[array, block]

    def read_all(self, array: str) -> NDArray:
        parts = [self.read(array, block) for block in range(self.n_blocks)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def remove(self) -> None:
        self._parts.clear()
        self._facts.clear()


class MemoryStore:
    """What stages have left, by their names and fingerprints, and what tasks have cached for later ones."""

    def __init__(self) -> None:
        self._stages: dict[tuple[str, str, int], MemoryBlocks] = {}
        self._cached: dict[str, dict[Hashable, Any]] = {}

    def blocks(self, *known_by: Any) -> MemoryBlocks:
        """The blocks of a stage, by its name, its fingerprint and how many there are."""
        return self._stages.setdefault(known_by, MemoryBlocks(*known_by))

    def find(self, kind: str, key: Hashable) -> Any:
        return self._cached.get(kind, {}).get(key)

    def cached(self, kind: str, key: Hashable, make: Callable[[], T], *, keep: int | None = None) -> T:
        """The value of a key, made when it is first needed; with ``keep``, only so many of a kind, the last ones."""
        values = self._cached.setdefault(kind, {})
        if key not in values:
            while keep is not None and len(values) >= keep:
                del values[next(iter(values))]
            values[key] = make()
        return values[key]

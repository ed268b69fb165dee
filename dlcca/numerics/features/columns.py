"""Drafts into features where it takes no more than two numbers for each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Rows are finished in batches that the cache of a core holds.
BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Columns:
    """Features are ``max((F - center) / scale, least)``, each column with numbers of its own, (d,)."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    least: NDArray[np.float64]  # -inf where there is no bottom

    @classmethod
    def of(cls, center: NDArray, scale: NDArray, least: float = -np.inf) -> Columns:
        return cls(np.asarray(center, float), np.asarray(scale, float), np.full(len(center), least))

    @classmethod
    def from_array(cls, numbers: NDArray) -> Columns:
        """From what `as_array` gave."""
        return cls(*np.asarray(numbers, dtype=np.float64))

    def as_array(self) -> NDArray[np.float64]:
        """(3, d): center, scale, least."""
        return np.stack([self.center, self.scale, self.least])

    def finish(self, F: NDArray) -> NDArray:
        """Turn drafts (w, d) of floating-point numbers into features, in their place; the same array, in its dtype."""
        center, scale, least = (x.astype(F.dtype) for x in (self.center, self.scale, self.least))
        moves, scales, bounds = center.any(), (scale != 1).any(), np.isfinite(least).any()
        batch = max(1, BATCH_BYTES // max(1, F[:1].nbytes))
        for some in (F[i : i + batch] for i in range(0, len(F), batch)):
            if moves:
                some -= center
            if scales:
                some /= scale
            if bounds:
                np.maximum(some, least, out=some)
        return F


def side_by_side(parts: Sequence[Columns]) -> Columns:
    """Of features that lie side by side."""
    return Columns.from_array(np.concatenate([part.as_array() for part in parts], axis=1))

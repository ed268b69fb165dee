"""Drafts into features where it takes no more than two numbers for each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

#: Rows are finished in batches that the cache of a core holds.
BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Columns:
    """Features are ``max((F - center) / scale, least)``, each column with numbers of its own, (d,).

    Drafts F may be kept as whole numbers N, as a converter gave them; then they are ``gain * N + bias``.
    """

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    least: NDArray[np.float64]  # -inf where there is no bottom
    gain: NDArray[np.float64] | None = None  # of whole numbers
    bias: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, center: NDArray, scale: NDArray, least: float = -np.inf) -> Columns:
        return cls(np.asarray(center, float), np.asarray(scale, float), np.full(len(center), least))

    @classmethod
    def from_array(cls, numbers: NDArray) -> Columns:
        """From what `as_array` gave."""
        return cls(*np.asarray(numbers, dtype=np.float64))

    def of_numbers(self, gain: NDArray, bias: NDArray) -> Columns:
        """The same of whole numbers; gain and bias (c,) of channels, which run fastest in the columns."""
        times = len(self.center) // len(gain)
        return replace(self, gain=np.tile(gain, times), bias=np.tile(bias, times))

    def as_array(self) -> NDArray[np.float64]:
        """(3, d): center, scale, least; or (5, d) with gain and bias."""
        rows = (self.center, self.scale, self.least, self.gain, self.bias)
        return np.stack([row for row in rows if row is not None])

    def finish(self, F: NDArray) -> NDArray:
        """Features (w, d) of drafts: floats in their place, the same array in its dtype; whole numbers in float32."""
        out = F if self.gain is None else np.empty(F.shape, np.float32)
        center, scale, least = (x.astype(out.dtype) for x in (self.center, self.scale, self.least))
        moves, scales, bounds = center.any(), (scale != 1).any(), np.isfinite(least).any()
        batch = max(1, BATCH_BYTES // max(1, out[:1].nbytes))
        for rows in (slice(i, i + batch) for i in range(0, len(F), batch)):
            some = out[rows]
            if self.gain is not None:
                self._values_into(some, F[rows])
            if moves:
                some -= center
            if scales:
                some /= scale
            if bounds:
                np.maximum(some, least, out=some)
        return out

    def _values_into(self, out: NDArray[np.float32], numbers: NDArray[np.integer]) -> None:
        assert self.gain is not None
        assert self.bias is not None
        if (self.gain == 1).all() and not self.bias.any():
            out[...] = numbers
            return
        np.multiply(numbers, self.gain.astype(out.dtype), out=out, dtype=out.dtype)
        out += self.bias.astype(out.dtype)


def side_by_side(parts: Sequence[Columns]) -> Columns:
    """Of features that lie side by side."""
    return Columns.from_array(np.concatenate([part.as_array() for part in parts], axis=1))

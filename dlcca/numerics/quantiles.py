"""Quantiles of more numbers than memory holds: exact, digit by digit, from counts that add up over blocks.

Positive floating-point numbers sort like their bits read as integers. A pass over all numbers counts their leading 16
bits and so finds the 65 536th part of the number line in which a rank lies; the next pass looks at the next 16 bits of
the numbers in that part only. Two passes settle float32, four settle float64.

Of the 65 536 parts few hold any numbers at all: distances lie within some powers of ten. Only those are kept, for what
a block has found travels to where all blocks are added up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

BITS = 16
Prefix = int
Key = TypeVar("Key", bound=Hashable)


class Digits(NamedTuple):
    """How many numbers go on with which 16 bits: those that occur (o,), in rising order, and how often (o,)."""

    digits: NDArray[np.uint16]
    counts: NDArray[np.int64]


#: For each prefix asked for, how the numbers that begin with it go on.
Counts = dict[Prefix, Digits]


def levels(dtype: np.dtype) -> int:
    """Passes until a quantile of this dtype is exact."""
    return np.dtype(dtype).itemsize * 8 // BITS


def count_digits(values: NDArray, level: int, prefixes: list[Prefix]) -> Counts:
    """Counts of the next 16 bits of the positive numbers among ``values`` that begin with a prefix.

    Parameters
    ----------
    values : any shape, float32 or float64; zeros are left out
    level : how many digits a prefix has; 0 in the first pass, whose only prefix is 0
    """
    bits = np.ascontiguousarray(values).ravel()
    bits = bits[bits > 0].view(f"u{values.dtype.itemsize}")
    shift = values.dtype.itemsize * 8 - BITS * (level + 1)
    leading = bits >> np.array(shift, bits.dtype)
    found = {}
    for prefix in prefixes:
        here = leading if level == 0 else leading[(leading >> np.array(BITS, bits.dtype)) == prefix]
        digits = (here & np.array((1 << BITS) - 1, bits.dtype)).astype(np.int64)
        found[prefix] = _occurring(np.bincount(digits))
    return found


def _occurring(counts: NDArray[np.int64]) -> Digits:
    """Those of all digits (up to 2^16,) that occur."""
    digits = np.flatnonzero(counts)
    return Digits(digits.astype(np.uint16), counts[digits])


def added(parts: Iterable[Mapping[Key, Digits]]) -> dict[Key, Digits]:
    """Counts of several blocks together, under whatever keys; each block is let go before the next is asked for."""
    totals: dict[Key, NDArray[np.int64]] = {}
    for part in parts:
        for key, found in part.items():
            if key not in totals:
                totals[key] = np.zeros(1 << BITS, dtype=np.int64)
            totals[key][found.digits] += found.counts
    return {key: _occurring(total) for key, total in totals.items()}


class Search:
    """A quantile of all positive numbers, narrowed pass by pass; several may share their passes.

    Parameters
    ----------
    share : 0 to 1
    passes : `levels` of the dtype for an exact result; one fewer leaves a relative error of 2^-8 (float32) or 2^-37
        (float64), two fewer 2^-21 (float64)
    """

    def __init__(self, share: float, dtype: np.dtype, passes: int) -> None:
        self.share, self.dtype, self.passes, self.level = share, np.dtype(dtype), passes, 0
        self._at = 0.0
        self._found: dict[int, tuple[Prefix, int]] = {}  # by rank: prefix, and rank among its numbers
        self.is_over = False

    @property
    def prefixes(self) -> list[Prefix]:
        """What the next pass is to count."""
        return sorted({prefix for prefix, _ in self._found.values()}) or [0]

    def narrow(self, counts: Mapping[Prefix, Digits]) -> None:
        """Take in what a pass over all numbers has counted (see `count_digits`)."""
        if self.level == 0:
            total = int(counts[0].counts.sum())
            self._at = (total - 1) * self.share
            self._found = {int(rank): (0, int(rank)) for rank in (np.floor(self._at), np.ceil(self._at)) if total}
        for rank, (prefix, left) in self._found.items():
            upto = np.cumsum(counts[prefix].counts)
            place = int(np.searchsorted(upto, left, side="right"))
            digit = int(counts[prefix].digits[place])
            self._found[rank] = ((prefix << BITS) + digit, left - int(upto[place - 1] if place else 0))
        self.level += 1
        self.is_over = self.level == self.passes or not self._found

    @property
    def result(self) -> float:
        """The quantile, interpolated as `numpy.quantile` does; 0 if there are no positive numbers."""
        if not self._found:
            return 0.0
        ends = (min(self._found), max(self._found))
        lower, upper = (_number(self._found[rank][0], self.dtype, self.passes) for rank in ends)
        part = self._at - float(np.floor(self._at))
        # From the nearer end, and in the dtype of the numbers, as NumPy does: equal to the last digit.
        return float(lower + (upper - lower) * part if part < 0.5 else upper - (upper - lower) * (1 - part))


def _number(prefix: Prefix, dtype: np.dtype, passes: int) -> Any:
    """The number whose leading bits are given; the middle of those that begin so, if bits are left open."""
    size = np.dtype(dtype).itemsize
    left = size * 8 - BITS * passes
    bits = (prefix << left) + (1 << (left - 1) if left else 0)
    return np.array([bits], dtype=f"u{size}").view(dtype)[0]

"""Quantiles of more numbers than memory holds: exact, digit by digit, from counts that add up over blocks.

Positive floating-point numbers sort like their bits read as integers. A pass over all numbers counts their leading 16
bits and so finds the 65 536th part of the number line in which a rank lies; the next pass looks at the next 16 bits of
the numbers in that part only. Two passes settle float32, four settle float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 16
Prefix = int
#: For each prefix asked for, how many numbers continue it with each of the 2^16 next digits.
Counts = dict[Prefix, NDArray[np.int64]]


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
        found[prefix] = np.bincount(digits, minlength=1 << BITS)
    return found


def added(parts: list[Counts]) -> Counts:
    """Counts of several blocks together."""
    return {prefix: np.sum([part[prefix] for part in parts], axis=0) for prefix in parts[0]}


def quantile(share: float, dtype: np.dtype, count: Callable[[int, list[Prefix]], Counts], passes: int) -> float:
    """The quantile of all positive numbers, interpolated between neighbours as `numpy.quantile` does.

    Parameters
    ----------
    share : 0 to 1
    count : makes a pass over all numbers: given a level and prefixes, the counts of `count_digits` of all of them
    passes : `levels` of the dtype for an exact result; one fewer leaves a relative error of 2^-8 (float32) or 2^-37
        (float64), two fewer 2^-21 (float64)

    Returns
    -------
    the quantile; 0 if there are no positive numbers
    """
    first = count(0, [0])
    total = int(first[0].sum())
    if total == 0:
        return 0.0
    at = (total - 1) * share
    ranks = {int(np.floor(at)), int(np.ceil(at))}
    found = {rank: (0, rank) for rank in ranks}  # the prefix known so far, and the rank among what continues it
    counts: Mapping[Prefix, NDArray] = first
    for level in range(passes):
        if level > 0:
            counts = count(level, sorted({prefix for prefix, _ in found.values()}))
        for rank, (prefix, left) in found.items():
            upto = np.cumsum(counts[prefix])
            digit = int(np.searchsorted(upto, left, side="right"))
            found[rank] = ((prefix << BITS) + digit, left - int(upto[digit - 1] if digit else 0))
    lower, upper = (_number(found[rank][0], dtype, passes) for rank in (min(ranks), max(ranks)))
    part = at - float(np.floor(at))
    # From the nearer end, and in the dtype of the numbers, as NumPy does: equal to the last digit.
    return float(lower + (upper - lower) * part if part < 0.5 else upper - (upper - lower) * (1 - part))


def _number(prefix: Prefix, dtype: np.dtype, passes: int) -> Any:
    """The number whose leading bits are given; the middle of those that begin so, if bits are left open."""
    size = np.dtype(dtype).itemsize
    left = size * 8 - BITS * passes
    bits = (prefix << left) + (1 << (left - 1) if left else 0)
    return np.array([bits], dtype=f"u{size}").view(dtype)[0]

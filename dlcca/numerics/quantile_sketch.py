"""Quantiles of a stream from small summaries of its blocks, which add up in any number.

A block is summed up by the values at ``RANKS`` evenly spaced ranks. Its share of numbers below any value is then known
to within 1 / (2 RANKS), and so is that of all blocks together, however many they are. Blocks of very many numbers are
summed up from a part of them, evenly spread, that all blocks together have at least ``SORTED`` numbers in: the standard
error of a share is then at most 1 / (2 sqrt(SORTED)), which is 0.004.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

RANKS = 128
#: Numbers of each channel that are sorted: of all blocks together, and of each block, at least.
SORTED, SORTED_LEAST = 16_384, 1024
#: So many summaries are folded into one of so many ranks, so that memory does not grow with the recording.
FOLDED, FOLDED_RANKS = 256, 4096
#: Quartiles of a normal distribution lie this many standard deviations apart.
QUARTILES_APART = 1.3489795003921634

#: Values of each channel at evenly spaced ranks (ranks, c), and how many numbers they stand for (c,).
Summary = tuple[NDArray, NDArray[np.int64]]


def summary(X: NDArray, blocks: int = 1, values_of: Callable[[NDArray], NDArray] = np.asarray) -> Summary:
    """Values of each channel at evenly spaced ranks, and how many finite numbers they stand for.

    Parameters
    ----------
    X : (n, c); what is not finite is left out
    blocks : how many there are of this size: the fewer, the more of its numbers are looked at
    values_of : turns those rows of X that are looked at into the numbers that are meant

    Returns
    -------
    values : (RANKS, c), rising; NaN for a channel without any number
    counts : (c,)
    """
    n = len(X)
    every = max(1, n // max(SORTED_LEAST, SORTED // max(blocks, 1)))
    columns = np.array(values_of(X[::every]).T, order="C")  # a copy, always: it is sorted
    finite = np.isfinite(columns)
    found = finite.sum(axis=1)
    if not finite.all():
        columns[~finite] = np.inf  # behind all numbers
    columns.sort(axis=1)
    at = np.clip((np.arange(RANKS) + 0.5) / RANKS * found[:, None] - 0.5, 0, np.maximum(found - 1, 0)[:, None])
    left = at.astype(np.int64)
    right = np.minimum(left + 1, np.maximum(found - 1, 0)[:, None])
    low, high = (np.take_along_axis(columns, places, axis=1) for places in (left, right))
    with np.errstate(invalid="ignore"):  # a channel without any number
        values = low + (high - low) * (at - left).astype(columns.dtype)
    values[found == 0] = np.nan
    return values.T, np.rint(found * (n / max(columns.shape[1], 1))).astype(np.int64)


class Sketches:
    """The summaries of many blocks, one after another; what is kept of them grows with the logarithm of their number.

    Every ``FOLDED`` summaries are folded into one of ``FOLDED_RANKS`` ranks, and every ``FOLDED`` of those again: each
    fold adds 1 / (2 FOLDED_RANKS) to the error of a share.
    """

    def __init__(self) -> None:
        self.levels: list[list[Summary]] = [[]]

    def add(self, values: NDArray, counts: NDArray[np.int64]) -> None:
        if np.any(counts):
            self._add(0, (values, counts))

    def _add(self, level: int, one: Summary) -> None:
        if level == len(self.levels):
            self.levels.append([])
        self.levels[level].append(one)
        if len(self.levels[level]) == FOLDED:
            shares = (np.arange(FOLDED_RANKS) + 0.5) / FOLDED_RANKS
            folded = quantiles(self.levels[level], shares)
            counts = np.sum([counts for _, counts in self.levels[level]], axis=0)
            self.levels[level] = []
            self._add(level + 1, (folded, counts))

    @property
    def summaries(self) -> list[Summary]:
        return [one for level in self.levels for one in level]


def quantiles(summaries: Sequence[Summary], shares: Sequence[float] | NDArray) -> NDArray[np.float64]:
    """Quantiles of each channel from the summaries of all blocks.

    Parameters
    ----------
    summaries : values (ranks, c), of any number of ranks, and counts (c,)
    shares : 0 to 1

    Returns
    -------
    (len(shares), c); NaN for a channel without any number
    """
    c = len(summaries[0][1])
    out = np.full((len(shares), c), np.nan)
    for channel in range(c):
        held = [(values[:, channel], counts[channel]) for values, counts in summaries if counts[channel] > 0]
        if not held:
            continue
        points = np.concatenate([values for values, _ in held])
        weights = np.concatenate([np.full(len(values), count / len(values)) for values, count in held])
        order = np.argsort(points)
        upto = np.cumsum(weights[order]) - weights[order] / 2
        out[:, channel] = np.interp(np.asarray(shares) * weights.sum(), upto, points[order])
    return out


def robust_scaling(summaries: Sequence[Summary]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Median of each channel, and the distance of its quartiles as a standard deviation, from summaries of blocks.

    Where the quartiles are equal (a channel that rests most of the time) the range from the 1st to the 99th hundredth
    takes their place; a channel that never moves gets 1.
    """
    low, median, high, first, last = quantiles(summaries, (0.25, 0.5, 0.75, 0.01, 0.99))
    scale = (high - low) / QUARTILES_APART
    wide = (last - first) / 4.652695748081682  # so many standard deviations apart in a normal distribution
    scale = np.where(scale > 0, scale, wide)
    usable = np.isfinite(scale) & (scale > 0)
    return np.where(np.isfinite(median), median, 0.0), np.where(usable, scale, 1.0)

"""Statistics of more numbers than memory holds, from summaries of blocks that add up.

Means, variances and principal components come from sums in float64. Quantiles come in two kinds:

Exact, from counts of digits. Positive floating-point numbers sort like their bits read as integers. A pass over all
numbers counts their leading 16 bits and so finds the 65 536th part of the number line in which a rank lies; the next
pass counts the next 16 bits of the numbers in that part only. Two passes suffice for float32, four for float64. Of the
65 536 parts few hold any numbers: only those are kept, because the counts of a block are sent to where they are added.

Approximate, from sketches, in one pass. A block is summarized by the values at ``RANKS`` evenly spaced ranks. Its share
of numbers below any value is then known to within 1 / (2 RANKS), and so is that of all blocks together, however many
they are. Large blocks are summarized from an evenly spread part of their numbers, such that all blocks together have at
least ``SORTED`` numbers in it: the standard error of a share is then at most 1 / (2 sqrt(SORTED)), which is 0.004.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.coordinates import signs


@dataclass(frozen=True)
class Moments:
    """Count and mean (d,) of some rows, and the sums of squared deviations of each channel, or of all products."""

    count: int
    mean: NDArray[np.float64]  # (d,)
    squares: NDArray[np.float64]  # (d,), or (d, d) with products

    @classmethod
    def of(cls, X: NDArray, *, products: bool = False) -> "Moments":
        """Of one block (n, d)."""
        mean = X.mean(axis=0, dtype=np.float64) if len(X) else np.zeros(X.shape[1])
        apart = X - mean
        return cls(len(X), mean, apart.T @ apart if products else np.square(apart).sum(axis=0))

    def with_block(self, other: "Moments") -> "Moments":
        """Of both together."""
        count = self.count + other.count
        if other.count == 0 or self.count == 0:
            return self if other.count == 0 else other
        gap = other.mean - self.mean
        square = gap**2 if self.squares.ndim == 1 else np.outer(gap, gap)
        squares = self.squares + other.squares + square * (self.count * other.count / count)
        return Moments(count, self.mean + gap * (other.count / count), squares)


def combined(parts: Sequence[Moments]) -> Moments:
    """Of all blocks together, in pairs of neighbours and pairs of pairs: the same tree whoever computed them."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [parts[i].with_block(parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def principal(blocks: Iterable[Moments], q: int) -> tuple[NDArray, NDArray, NDArray]:
    """Mean (d,), components (d, q) and variances (q,), the largest first; blocks with products, in the order given."""
    total = reduce(Moments.with_block, blocks)
    lam, V = np.linalg.eigh(total.squares / max(total.count, 1))
    components, variances = V[:, ::-1][:, :q], lam[::-1][:q]
    return total.mean, components * signs(components), np.maximum(variances, 0)


BITS = 16
Prefix = int
Key = TypeVar("Key", bound=Hashable)


class Digits(NamedTuple):
    """How many numbers go on with which 16 bits: those that occur (o,), in rising order, and how often (o,)."""

    digits: NDArray[np.uint16]
    counts: NDArray[np.int64]


#: For each requested prefix, how the numbers that begin with it go on.
Counts = dict[Prefix, Digits]


def levels(dtype: np.dtype) -> int:
    """Passes until a quantile of this dtype is exact."""
    return np.dtype(dtype).itemsize * 8 // BITS


def count_digits(values: NDArray, level: int, prefixes: list[Prefix]) -> Counts:
    """Counts of the next 16 bits of the positive numbers among ``values``, of any shape, that begin with a prefix.

    ``level`` says how many digits a prefix has; 0 in the first pass, whose only prefix is 0.
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
    """Counts of several blocks together, under any keys; one block is in memory at a time."""
    totals: dict[Key, NDArray[np.int64]] = {}
    for part in parts:
        for key, found in part.items():
            if key not in totals:
                totals[key] = np.zeros(1 << BITS, dtype=np.int64)
            totals[key][found.digits] += found.counts
    return {key: _occurring(total) for key, total in totals.items()}


class Search:
    """The quantile of a ``share`` of all positive numbers, narrowed pass by pass; several may share their passes.

    There are `levels` passes for an exact result; one fewer leaves a relative error of 2^-8 (float32) or 2^-37
    (float64), two fewer 2^-21 (float64).
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
        """Use the counts of a pass over all numbers (see `count_digits`)."""
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
        size = self.dtype.itemsize
        open_bits = 8 * size - BITS * self.passes
        middle = 1 << (open_bits - 1) if open_bits else 0  # of the numbers that begin so
        found = [(self._found[rank][0] << open_bits) + middle for rank in (min(self._found), max(self._found))]
        lower, upper = np.array(found, f"u{size}").view(self.dtype)
        part = self._at - float(np.floor(self._at))
        # From the nearer end, and in the dtype of the numbers, as NumPy does: equal to the last digit.
        return float(lower + (upper - lower) * part if part < 0.5 else upper - (upper - lower) * (1 - part))


RANKS = 128
#: Numbers of each channel that are sorted: of all blocks together, and of each block, at least.
SORTED, SORTED_LEAST = 16_384, 1024
#: So many summaries are folded into one of so many ranks, so that memory does not grow with the recording.
FOLDED, FOLDED_RANKS = 256, 4096
#: Quartiles of a normal distribution lie this many standard deviations apart.
QUARTILES_APART = 1.3489795003921634
#: Values of each channel at evenly spaced ranks (ranks, c), and of how many numbers they are (c,).
Summary = tuple[NDArray, NDArray[np.int64]]


def summary(X: NDArray, blocks: int = 1, values_of: Callable[[NDArray], NDArray] = np.asarray) -> Summary:
    """Values (RANKS, c) of each channel at evenly spaced ranks, and of how many finite numbers (c,) they are.

    Values rise; they are NaN for a channel without any number. What is not finite of X (n, c) is left out. The fewer
    ``blocks`` of this size there are, the more of its rows are used; ``values_of`` turns these into their numbers.
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

    def add(self, values: NDArray, counts: NDArray[np.int64], level: int = 0) -> None:
        if not np.any(counts):
            return
        if level == len(self.levels):
            self.levels.append([])
        held = self.levels[level]
        held.append((values, counts))
        if len(held) == FOLDED:
            self.levels[level] = []
            shares = (np.arange(FOLDED_RANKS) + 0.5) / FOLDED_RANKS
            self.add(quantiles(held, shares), np.sum([counts for _, counts in held], axis=0), level + 1)

    @property
    def summaries(self) -> list[Summary]:
        return [one for level in self.levels for one in level]


def quantiles(summaries: Sequence[Summary], shares: Sequence[float] | NDArray) -> NDArray[np.float64]:
    """Quantiles (len(shares), c) of each channel from the summaries of all blocks, which may have any number of ranks.

    NaN for a channel without any number.
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

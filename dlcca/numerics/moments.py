"""Means and variances of blocks that add up, without loss of digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of each channel."""

    count: int
    mean: NDArray[np.float64]  # (d,)
    squares: NDArray[np.float64]  # (d,)

    @classmethod
    def of(cls, X: NDArray) -> Moments:
        """Of one block (n, d)."""
        mean = X.mean(axis=0, dtype=np.float64)
        return cls(len(X), mean, np.square(X - mean, dtype=np.float64).sum(axis=0))


def combined(parts: Sequence[Moments]) -> Moments:
    """Of all blocks together, in pairs of neighbours and pairs of pairs: the same tree whoever computed them."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [_both(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def _both(one: Moments, other: Moments) -> Moments:
    count = one.count + other.count
    gap = other.mean - one.mean
    mean = one.mean + gap * (other.count / count)
    return Moments(count, mean, one.squares + other.squares + gap**2 * (one.count * other.count / count))

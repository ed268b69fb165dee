"""Principal components of more rows than memory holds, from sums of blocks in float64."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.signs import signs


@dataclass(frozen=True)
class Scatter:
    """Count, mean (d,) and sum of products of deviations (d, d) of some rows."""

    count: int
    mean: NDArray[np.float64]
    products: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray) -> Scatter:
        """Of one block (n, d)."""
        X = np.asarray(X, dtype=np.float64)
        mean = X.mean(axis=0) if len(X) else np.zeros(X.shape[1])
        return cls(len(X), mean, (X - mean).T @ (X - mean))

    def with_block(self, other: Scatter) -> Scatter:
        """Of both together."""
        count = self.count + other.count
        if other.count == 0 or self.count == 0:
            return self if other.count == 0 else other
        gap = other.mean - self.mean
        products = self.products + other.products + np.outer(gap, gap) * (self.count * other.count / count)
        return Scatter(count, self.mean + gap * (other.count / count), products)


def principal(blocks: Iterable[Scatter], q: int) -> tuple[NDArray, NDArray, NDArray]:
    """Mean (d,), components (d, q) and variances (q,), the largest first; blocks are added in the order given."""
    total: Scatter | None = None
    for block in blocks:
        total = block if total is None else total.with_block(block)
    assert total is not None
    lam, V = np.linalg.eigh(total.products / max(total.count, 1))
    components, variances = V[:, ::-1][:, :q], lam[::-1][:q]
    return total.mean, components * signs(components), np.maximum(variances, 0)

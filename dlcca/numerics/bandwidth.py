"""Rules for σ, the scale of the kernel, from the squared distances D that the kernel will see."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The rules by name; ``quantile`` is of all entries given, ``neighbor`` of each row's k-th smallest.
RULES = ("median", "quantile", "neighbor", "slope")


def median_rule(D: NDArray) -> float:
    """The median of D: the paper's choice."""
    return float(np.median(D))


def quantile_rule(D: NDArray, share: float = 0.2) -> float:
    """The value below which a ``share`` of D lies: narrower than the median, for kernels of few links."""
    return float(np.quantile(D, share))


def neighbor_rule(D: NDArray, k: int = 8) -> float:
    """The median over the rows of their k-th smallest distance."""
    k = min(k, D.shape[1])
    return float(np.median(np.partition(D, k - 1, axis=1)[:, k - 1]))


def slope_rule(D: NDArray, sigmas: NDArray | None = None) -> float:
    """The σ at which log Σ exp(-D/σ) rises fastest with log σ.

    There the kernel is neither a set of isolated points (slope 0 for small σ) nor one blob (slope 0 for large σ).

    Parameters
    ----------
    D : (n, m)
    sigmas : candidates, rising; by default 60 from 1e-4 to 1e2 of the median of what is not zero
    """
    if sigmas is None:
        sigmas = np.median(D[D > 0]) * np.logspace(-4, 2, 60)
    nearest = D.min()  # taken out of the sum: where all of D is far above σ, the logarithm would be of zero
    total = np.array([np.exp(-(D - nearest) / sigma).sum(dtype=np.float64) for sigma in sigmas])
    steepness = np.gradient(np.log(total) - nearest / sigmas, np.log(sigmas))
    return float(sigmas[np.argmax(steepness)])


def beyond_rounding(D: NDArray) -> NDArray:
    """The distances that are not zero but for rounding; local metrics have no unit, so the limit needs none."""
    return D[D > np.finfo(D.dtype).eps]


def by_rule(D: NDArray, rule: str) -> float:
    """σ by the name of a rule; 0 when all of D is zero, which the caller must refuse.

    A sample's distance to itself and to its duplicates tells nothing of scale: quantiles are of the others.
    """
    apart = beyond_rounding(D)
    if apart.size == 0:
        return 0.0
    if rule in ("median", "quantile"):
        return median_rule(apart) if rule == "median" else quantile_rule(apart)
    return neighbor_rule(D) if rule == "neighbor" else slope_rule(D)

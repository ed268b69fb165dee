"""Rules for σ, the scale of the kernel, from the squared distances D that the kernel will see."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The rules by name; ``quantile`` is of all entries given, ``neighbor`` of each row's k-th smallest.
RULES = ("median", "quantile", "neighbor", "slope")
#: The rules that are quantiles: of which share.
QUANTILES = {"median": 0.5, "quantile": 0.2, "neighbor": 0.5}


def median_rule(D: NDArray) -> float:
    """The median of D: the paper's choice."""
    return float(np.median(D))


def quantile_rule(D: NDArray, share: float = QUANTILES["quantile"]) -> float:
    """The value below which a ``share`` of D lies: narrower than the median, for kernels of few links."""
    return float(np.quantile(D, share))


def neighbor_rule(D: NDArray, k: int = 8) -> float:
    """The median over the rows of their k-th smallest distance."""
    return median_rule(kth_smallest(D, k))


def kth_smallest(D: NDArray, k: int = 8) -> NDArray:
    """Of every row; its largest where it is shorter."""
    k = min(k, D.shape[1])
    return np.partition(D, k - 1, axis=1)[:, k - 1]


def slope_rule(D: NDArray, sigmas: NDArray | None = None) -> float:
    """The σ at which log Σ exp(-D/σ) rises fastest with log σ.

    There the kernel is neither a set of isolated points (slope 0 for small σ) nor one blob (slope 0 for large σ).

    Parameters
    ----------
    D : (n, m)
    sigmas : candidates, rising; by default 60 from 1e-4 to 1e2 of the median of what is not zero
    """
    if sigmas is None:
        sigmas = candidates(median_rule(beyond_rounding(D)))
    return steepest(sigmas, log_sums(D, sigmas))


def candidates(median: float) -> NDArray[np.float64]:
    """The values of σ that the slope rule tries."""
    return median * np.logspace(-4, 2, 60)


def log_sums(D: NDArray, sigmas: NDArray) -> NDArray[np.float64]:
    """log Σ exp(-D/σ) for each σ; parts of D are put together by `numpy.logaddexp`."""
    nearest = D.min()  # taken out of the sum: where all of D is far above σ, the logarithm would be of zero
    total = [np.exp(-(D - nearest) / sigma).sum(dtype=np.float64) for sigma in sigmas]
    return np.log(total) - nearest / sigmas


def steepest(sigmas: NDArray, logs: NDArray) -> float:
    """The σ at which the logarithm rises fastest with log σ."""
    return float(sigmas[np.argmax(np.gradient(logs, np.log(sigmas)))])


def beyond_rounding(D: NDArray) -> NDArray:
    """The distances that are not zero but for rounding; local metrics have no unit, so the limit needs none."""
    return D[D > np.finfo(D.dtype).eps]


def by_rule(D: NDArray, rule: str) -> float:
    """σ by the name of a rule; 0 when all of D is zero, which the caller must refuse.

    A sample's distance to itself and to its duplicates tells nothing of scale: quantiles are of the others.
    """
    if rule == "slope":
        return slope_rule(D) if beyond_rounding(D).size else 0.0
    apart = beyond_rounding(kth_smallest(D) if rule == "neighbor" else D)
    return quantile_rule(apart, QUANTILES[rule]) if apart.size else 0.0

"""Gaussian kernels of all pairs of samples in a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.baselines.inputs import check_number
from dlcca.errors import DataError, SettingsError
from dlcca.numerics.affinity import kernel_rows
from dlcca.numerics.bandwidth import median_rule
from dlcca.numerics.neighborhoods import squared_distances

#: A median below this share of the largest squared distance is rounding: most pairs of samples coincide.
COINCIDENT = 1e-12


def gaussian_kernel(X: NDArray, bandwidth: float | None) -> NDArray[np.float64]:
    r"""Affinities of all pairs of samples, :math:`W_{ij} = \exp(-|x_i - x_j|^2 / \sigma)`.

    Parameters
    ----------
    X : (n, d), centred
    bandwidth : σ, in squared units of the view; None for the median of the squared distances, as in the paper

    Returns
    -------
    W : (n, n)
    """
    D = squared_distances(X, X)
    if bandwidth is None:
        bandwidth = median_rule(D)
        if bandwidth <= COINCIDENT * D.max():
            raise DataError(
                "half of all pairs of samples coincide in a view, so the median of their distances is 0. "
                "Set bandwidth, in squared units of the view, or remove repeated samples."
            )
    return kernel_rows(D, bandwidth)


def one_bandwidth(bandwidth: Any) -> float | None:
    """None or a number above 0, or a `SettingsError`."""
    return None if bandwidth is None else check_number("bandwidth", bandwidth, positive=True)


def bandwidth_of_each(bandwidth: Any, K: int) -> list[float | None]:
    """The bandwidths of K views from one for all, a list with one for each (None where it is the median), or None."""
    if not isinstance(bandwidth, Sequence | np.ndarray) or isinstance(bandwidth, str):
        return [one_bandwidth(bandwidth)] * K
    if len(bandwidth) != K:
        raise SettingsError(f"bandwidth has {len(bandwidth)} entries and there are {K} views; give one for each.")
    return [one_bandwidth(sigma) for sigma in bandwidth]

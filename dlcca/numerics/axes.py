"""Axes in which the links of a view are searched: along them no channel counts for much more than another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Directions with a standard deviation below this share of the largest are not stretched any further.
LEAST_SPREAD = 0.01
#: A view of more channels is searched as it is: its matrix would take longer than the search.
MOST_CHANNELS = 2048


@dataclass(frozen=True)
class Axes:
    """Where a view's samples lie once its axes have been evened out."""

    centre: NDArray[np.float64]  # (d,)
    turn: NDArray[np.float64]  # (d, d), symmetric

    def of(self, X: NDArray) -> NDArray:
        """Samples (n, d) along these axes, of the same shape and dtype."""
        return (X - self.centre.astype(X.dtype)) @ self.turn.astype(X.dtype)


def evened(parts: Iterable[NDArray]) -> Axes | None:
    r"""Axes along which the spreads of the landmarks are the roots of what they were, :math:`(\Sigma + \tau I)^{-1/4}`.

    A sensor's largest movements may be its own. Nearest by plain distance, they would decide alone which landmarks a
    sample is linked to, and a small movement that is common to all sensors would not be followed. At unit variance
    along every axis (:math:`\Sigma^{-1/2}`) noise and curvature would decide instead; this is half the way. Local CCA
    itself does not depend on such a map.

    Parameters
    ----------
    parts : arrays (m_g, d) of landmarks in a fixed order; all of them together have the covariance Σ

    Returns
    -------
    Axes, along which the landmarks have a total variance of 1; None for views that are too wide, or never change
    """
    origin = np.zeros(0)
    count, total, squares = 0, np.zeros(0), np.zeros(0)
    for P in parts:
        if P.shape[1] > MOST_CHANNELS:
            return None
        if not count:
            origin = P[0].astype(np.float64)  # products of small numbers keep their digits
            total, squares = np.zeros_like(origin), np.zeros((len(origin), len(origin)))
        P = P.astype(np.float64) - origin
        count, total, squares = count + len(P), total + P.sum(axis=0), squares + P.T @ P
    mean = total / count
    lam, V = np.linalg.eigh(squares / count - np.outer(mean, mean))
    if not lam[-1] > 0:
        return None
    lam = np.maximum(lam, 0)
    scale = (lam + LEAST_SPREAD**2 * lam[-1]) ** -0.25
    scale /= np.sqrt((scale**2 * lam).sum())
    return Axes(origin + mean, (V * scale) @ V.T)


def along(X: NDArray, axes: Axes | None) -> NDArray:
    """Samples (n, d) along axes; as they are, if there are none."""
    return X if axes is None else axes.of(X)

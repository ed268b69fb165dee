"""Squared distances: plain ones, along equalized axes, and under local metrics.

Under the local metrics they estimate the distances of the hidden common variable.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.kernels import sparse_rows


def squared_distances(X: NDArray, Y: NDArray) -> NDArray[np.float64]:
    """Squared Euclidean distances (n, m) between the rows of X (n, d) and of Y (m, d), never negative."""
    X, Y = np.asarray(X, np.float64), np.asarray(Y, np.float64)
    X, Y = X - Y[0], Y - Y[0]  # squares of an offset far above the spread would leave no digits for the difference
    D = (X**2).sum(axis=1)[:, None] - 2 * X @ Y.T
    D += (Y**2).sum(axis=1)
    return np.maximum(D, 0, out=D)


#: Projections made at a time: 2 MiB of them in float32 are squared and added up while they are still in the cache.
BLOCK_ENTRIES = 1 << 19
#: Columns of one product: wide enough for BLAS to run at its full rate.
PANEL_COLUMNS = 2048
#: Up to so many links NumPy finds the distances before numba would be imported.
FEW_LINKS = 1 << 19
#: Samples whose linked distances are found at a time: few enough to stay in the cache, many for each landmark.
TILE_ROWS = 1 << 14


def landmark_distances(X: NDArray, X_L: NDArray, F: NDArray) -> NDArray:
    r"""Distances of every sample to every landmark, under the landmark's metric (Algorithm 2, step 3).

    :math:`D_{ji} = |F_i^T (x_j - x_i)|^2` (n, m), of samples X (n, d), landmarks X_L (m, d) and the factors F (m, d, r)
    of their metrics.
    """
    m, d, r = F.shape
    centre = X_L.mean(axis=0)  # keeps the projections small, so that their differences keep their digits
    D = np.empty((len(X), m), dtype=np.result_type(X, F))
    wide = max(1, PANEL_COLUMNS // r)
    panels = [
        (left, _panel(X_L[left : left + wide] - centre, F[left : left + wide], D.dtype)) for left in range(0, m, wide)
    ]
    rows = max(1, BLOCK_ENTRIES // (r * wide))
    kept = np.empty(min(rows, len(X)) * r * min(wide, m), dtype=D.dtype)
    ending_in_one = np.ones((min(rows, len(X)), d + 1), dtype=D.dtype)
    for top in range(0, len(X), rows):
        some = X[top : top + rows]
        points = ending_in_one[: len(some)]
        np.subtract(some, centre, out=points[:, :d])
        for left, panel in panels:
            here = panel.shape[1] // r
            Y = kept[: len(some) * r * here].reshape(len(some), r, here)
            np.matmul(points, panel, out=Y.reshape(len(some), r * here))
            np.einsum("bri,bri->bi", Y, Y, out=D[top : top + len(some), left : left + here])
    return D


def _panel(X_L: NDArray, F: NDArray, dtype: np.dtype) -> NDArray:
    """What a sample and a last entry of 1 are multiplied with to give all :math:`F_i^T (x - x_i)`: (d + 1, r m).

    The landmarks lie side by side, so that sums over r add whole rows of numbers.
    """
    m, d, r = F.shape
    panel = np.empty((d + 1, r, m), dtype=dtype)
    panel[:d] = np.moveaxis(F, 0, 2)
    panel[d] = -np.einsum("md,mdr->rm", X_L, F)
    return panel.reshape(d + 1, r * m)


def linked_distances(
    X: NDArray, X_L: NDArray, F: NDArray, links: NDArray[np.integer], *, few_links: int = FEW_LINKS
) -> NDArray:
    """Distances (n, s) of each sample to the few landmarks that it is linked to.

    X, X_L and F as in `landmark_distances`; the distances are in the order of the ``links`` (n, s).
    More than ``few_links`` are found by compiled code.
    """
    m, s = len(X_L), links.shape[1]
    dtype = np.result_type(X, F)
    D = np.empty(links.size, dtype=dtype)
    if links.size > few_links:
        from dlcca.numerics import compiled

        X, X_L, F = (np.ascontiguousarray(A, dtype=dtype) for A in (X, X_L, F))
        for first in range(0, len(X), TILE_ROWS):
            rows = slice(first, first + TILE_ROWS)
            places, bounds = compiled.order_by_column(np.ascontiguousarray(links[rows], np.int32), m)
            compiled.linked_distances(X[rows], X_L, F, places, bounds, s, D[first * s : (first + TILE_ROWS) * s])
        return D.reshape(links.shape)
    # All the samples of a landmark side by side: one product for each.
    by_landmark = sparse_rows(np.arange(links.size).reshape(links.shape), links, m).tocsc()
    for i, here in enumerate(np.split(by_landmark.data, by_landmark.indptr[1:-1])):
        if len(here):
            D[here] = np.square((X[here // s] - X_L[i]) @ F[i]).sum(axis=1)
    return D.reshape(links.shape)


def middle_distances(X: NDArray, factor_at: Callable[[NDArray], NDArray]) -> NDArray:
    r"""Distances of all pairs under the metric at their middle point (Algorithm 1, step 1).

    :math:`D_{ij} = (x_i - x_j)^T A(\bar x_{ij}) (x_i - x_j)` with :math:`\bar x_{ij} = (x_i + x_j)/2`: n(n-1)/2
    metrics, so for small n only. D (n, n) is symmetric, with zeros on the diagonal. ``factor_at`` gives the factors
    (p, d, r) of the metric at p points (p, d).
    """
    n = len(X)
    D = np.zeros((n, n), dtype=X.dtype)
    for i in range(n - 1):
        F = factor_at((X[i] + X[i + 1 :]) / 2)
        D[i, i + 1 :] = np.square(np.einsum("pd,pdr->pr", X[i] - X[i + 1 :], F)).sum(axis=1)
    return D + D.T


def end_distances(X: NDArray, F: NDArray) -> NDArray:
    r"""Distances of all pairs, the metrics of both ends averaged: :math:`Q_{ij}` of Section VII-A, (n, n), symmetric.

    From samples X (n, d) and the factor F (n, d, r) at every sample.
    """
    D = landmark_distances(X, X, F)
    return (D + D.T) / 2


#: Directions with a standard deviation below this share of the largest are not stretched any further.
LEAST_SPREAD = 0.01
#: A view of more channels is searched as it is: its matrix would take longer than the search.
MOST_CHANNELS = 2048


@dataclass(frozen=True)
class Axes:
    """Where a view's samples lie once its axes have been equalized."""

    centre: NDArray[np.float64]  # (d,)
    turn: NDArray[np.float64]  # (d, d), symmetric

    def of(self, X: NDArray) -> NDArray:
        """Samples (n, d) along these axes, of the same shape and dtype."""
        return (X - self.centre.astype(X.dtype)) @ self.turn.astype(X.dtype)


def equalized(parts: Iterable[NDArray]) -> Axes | None:
    r"""Axes along which the spreads of the landmarks are the roots of what they were, :math:`(\Sigma + \tau I)^{-1/4}`.

    A sensor's largest movements may be its own. Nearest by plain distance, they would decide alone which landmarks a
    sample is linked to, and a small movement that is common to all sensors would not be followed. At unit variance
    along every axis (:math:`\Sigma^{-1/2}`) noise and curvature would decide instead; this is half the way. Local CCA
    itself does not depend on such a map.

    ``parts`` are arrays (m_g, d) of landmarks in a fixed order; all of them together have the covariance Σ. Along the
    axes they have a total variance of 1. None for views that are too wide, or never change.
    """
    count, origin, total, squares = 0, np.zeros(0), np.zeros(0), np.zeros(0)
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


def project(X: NDArray, axes: Axes | None) -> NDArray:
    """Samples (n, d) along axes; as they are, if there are none."""
    return X if axes is None else axes.of(X)

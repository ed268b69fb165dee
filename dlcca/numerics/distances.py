"""D: squared distances under local metrics, which estimate the distances of the hidden common variable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

#: Projections made at a time: 2 MiB of them in float32 are squared and added up while they are still in the cache.
BLOCK_ENTRIES = 1 << 19
#: Columns of one product: wide enough for BLAS to run at its full rate.
PANEL_COLUMNS = 2048


def landmark_distances(X: NDArray, X_L: NDArray, F: NDArray) -> NDArray:
    r"""Distances of every sample to every landmark, under the landmark's metric (Algorithm 2, step 3).

    :math:`D_{ji} = |F_i^T (x_j - x_i)|^2`

    Parameters
    ----------
    X : (n, d) samples
    X_L : (m, d) landmarks
    F : (m, d, r) factors of their metrics

    Returns
    -------
    D : (n, m)
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


def linked_distances(X: NDArray, X_L: NDArray, F: NDArray, links: NDArray[np.int64]) -> NDArray:
    """Distances of each sample to a few landmarks only.

    Parameters
    ----------
    X, X_L, F : as in `landmark_distances`
    links : (n, s) the landmarks of each sample

    Returns
    -------
    D : (n, s), in the order of the links
    """
    m = len(X_L)
    flat = links.ravel()
    order = np.argsort(flat, kind="stable")  # all the samples of a landmark side by side: one product for each
    edges = np.searchsorted(flat[order], np.arange(m + 1))
    D = np.empty(flat.size, dtype=np.result_type(X, F))
    for i in range(m):
        here = order[edges[i] : edges[i + 1]]
        if len(here):
            D[here] = np.square((X[here // links.shape[1]] - X_L[i]) @ F[i]).sum(axis=1)
    return D.reshape(links.shape)


def middle_distances(X: NDArray, factor_at: Callable[[NDArray], NDArray]) -> NDArray:
    r"""Distances of all pairs under the metric at their middle point (Algorithm 1, step 1).

    :math:`D_{ij} = (x_i - x_j)^T A(\bar x_{ij}) (x_i - x_j)` with :math:`\bar x_{ij} = (x_i + x_j)/2`: n(n-1)/2
    metrics, so for small n only.

    Parameters
    ----------
    X : (n, d)
    factor_at : gives the factors (p, d, r) of the metric at p points (p, d)

    Returns
    -------
    D : (n, n), symmetric, zero on the diagonal
    """
    n = len(X)
    D = np.zeros((n, n), dtype=X.dtype)
    for i in range(n - 1):
        F = factor_at((X[i] + X[i + 1 :]) / 2)
        D[i, i + 1 :] = np.square(np.einsum("pd,pdr->pr", X[i] - X[i + 1 :], F)).sum(axis=1)
    return D + D.T


def end_distances(X: NDArray, F: NDArray) -> NDArray:
    r"""Distances of all pairs, the metrics of both ends averaged: :math:`Q_{ij}` of Section VII-A.

    Parameters
    ----------
    X : (n, d)
    F : (n, d, r) factor at every sample

    Returns
    -------
    Q : (n, n), symmetric
    """
    D = landmark_distances(X, X, F)
    return (D + D.T) / 2

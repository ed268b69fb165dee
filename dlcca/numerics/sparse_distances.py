"""Compiled distances of each sample to a few landmarks, under the landmarks' metrics."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

#: Samples of a landmark that are put side by side at a time; they stay in the cache.
TILE = 512


def linked_distances(X: NDArray, X_L: NDArray, F: NDArray, links: NDArray) -> NDArray:
    """The same as `distances.linked_distances`, for many samples: compiled.

    Parameters
    ----------
    X : (n, d) samples
    X_L : (m, d) landmarks
    F : (m, d, r) factors of their metrics
    links : (n, s) the landmarks of each sample

    Returns
    -------
    D : (n, s), in the order of the links
    """
    dtype = np.result_type(X, F)
    X, X_L, F = (np.ascontiguousarray(A, dtype=dtype) for A in (X, X_L, F))
    D = np.empty(links.shape, dtype=dtype)
    _distances(X, X_L, F, by_landmark(links, len(X_L)), links.shape[1], D.reshape(-1))
    return D


def by_landmark(links: NDArray, m: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the links of each of m landmarks are: places in the ravelled links, and bounds (m + 1) of each one's."""
    return _sorted(np.ascontiguousarray(links, np.int32), m)


@numba.njit(cache=True, nogil=True)
def _sorted(links, m):  # type: ignore[no-untyped-def]
    bounds = np.zeros(m + 1, dtype=np.int64)
    flat = links.reshape(-1)
    for i in flat:
        bounds[i + 1] += 1
    for i in range(m):
        bounds[i + 1] += bounds[i]
    places = np.empty(len(flat), dtype=np.int64)
    filled = bounds[:-1].copy()
    for place in range(len(flat)):
        i = flat[place]
        places[filled[i]] = place
        filled[i] += 1
    return places, bounds


@numba.njit(cache=True, nogil=True)
def _distances(X, X_L, F, of_landmark, s, D):  # type: ignore[no-untyped-def]
    """Landmark by landmark, so that its factors are read once: its samples side by side, and one product for them."""
    places, bounds = of_landmark
    m, d, r = F.shape
    steps = np.empty((TILE, d), dtype=X.dtype)
    projected = np.empty((TILE, r), dtype=X.dtype)
    for i in range(m):
        for first in range(bounds[i], bounds[i + 1], TILE):
            count = min(TILE, bounds[i + 1] - first)
            for j in range(count):
                x, step = X[places[first + j] // s], steps[j]
                for c in range(d):
                    step[c] = x[c] - X_L[i, c]
            np.dot(steps[:count], F[i], projected[:count])
            for j in range(count):
                total = X.dtype.type(0)
                for a in range(r):
                    total += projected[j, a] * projected[j, a]
                D[places[first + j]] = total

"""Compiled distances of each sample to a few landmarks, under the landmarks' metrics."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


def linked_distances(X: NDArray, X_L: NDArray, F: NDArray, links: NDArray) -> NDArray:
    """The same as `distances.linked_distances`, for many samples: one pass, without gathering anything.

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
    D = np.empty(links.shape, dtype=dtype)
    X, X_L, F = (np.ascontiguousarray(A, dtype=dtype) for A in (X, X_L, F))
    _distances(X, X_L, F, links, D)
    return D


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _distances(X, X_L, F, links, D):  # type: ignore[no-untyped-def]
    n, d = X.shape
    r = F.shape[2]
    step = np.empty(d, dtype=X.dtype)
    projected = np.empty(r, dtype=X.dtype)
    whole = d - d % 4
    for j in range(n):
        for p in range(links.shape[1]):
            i = links[j, p]
            for c in range(d):
                step[c] = X[j, c] - X_L[i, c]
            for a in range(r):
                projected[a] = 0
            # Four channels at a time: a projection is then loaded and stored once for each four.
            for c in range(0, whole, 4):
                s0, s1, s2, s3 = step[c], step[c + 1], step[c + 2], step[c + 3]
                f0, f1, f2, f3 = F[i, c], F[i, c + 1], F[i, c + 2], F[i, c + 3]
                for a in range(r):
                    projected[a] += s0 * f0[a] + s1 * f1[a] + s2 * f2[a] + s3 * f3[a]
            for c in range(whole, d):
                for a in range(r):
                    projected[a] += step[c] * F[i, c, a]
            total = X.dtype.type(0)
            for a in range(r):
                total += projected[a] * projected[a]
            D[j, p] = total

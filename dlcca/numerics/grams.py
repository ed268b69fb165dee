"""AᵀB of sparse kernels with a fixed number of links per row, added up in float64 by compiled code.

Landmark by landmark: the row of the result that is added to stays in the nearest cache, and is added to always in the
same order of samples, so with the same rounding.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.linked import by_landmark


def add_gram(G: NDArray[np.float64], links_a: NDArray, A: NDArray, links_b: NDArray, B: NDArray) -> None:
    """G += AᵀB.

    Parameters
    ----------
    G : (m_a, m_b), changed in place
    links_a, A : (n, s_a) columns and entries of the sparse matrix A
    links_b, B : (n, s_b) the same of B
    """
    A, B = (np.ascontiguousarray(M, np.float64) for M in (A, B))
    _add(G, by_landmark(links_a, len(G)), A, np.ascontiguousarray(links_b, np.int32), B)


@numba.njit(cache=True, nogil=True)
def _add(G, of_landmark, A, links_b, B):  # type: ignore[no-untyped-def]
    places, bounds = of_landmark
    s, entries = A.shape[1], A.reshape(-1)
    for i in range(len(G)):
        row = G[i]
        for at in range(bounds[i], bounds[i + 1]):
            a, j = entries[places[at]], places[at] // s
            for q in range(links_b.shape[1]):
                row[links_b[j, q]] += a * B[j, q]


def add_own_gram(H: NDArray[np.float64], links: NDArray, A: NDArray) -> None:
    """H += half of AᵀA, such that H + Hᵀ is AᵀA: every pair of links is added once, not twice.

    Parameters
    ----------
    H : (m, m), changed in place
    links, A : (n, s) columns and entries of the sparse matrix A
    """
    _add_own(H, by_landmark(links, len(H)), np.ascontiguousarray(links, np.int32), np.ascontiguousarray(A, np.float64))


@numba.njit(cache=True, nogil=True)
def _add_own(H, of_landmark, links, A):  # type: ignore[no-untyped-def]
    places, bounds = of_landmark
    s = A.shape[1]
    for i in range(len(H)):
        row = H[i]
        for at in range(bounds[i], bounds[i + 1]):
            j, p = places[at] // s, places[at] % s
            a = A[j, p]
            row[i] += a * a / 2
            for q in range(p + 1, s):
                row[links[j, q]] += a * A[j, q]

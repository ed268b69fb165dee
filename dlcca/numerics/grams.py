"""AᵀB of sparse kernels with a fixed number of links per row, added up in float64 by compiled code."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


def add_gram(G: NDArray[np.float64], links_a: NDArray, A: NDArray, links_b: NDArray, B: NDArray) -> None:
    """G += AᵀB, always in the same order of rows, and so with the same rounding.

    Rows that have their first link in common follow each other: they touch the same rows of G, which then are still in
    the cache.

    Parameters
    ----------
    G : (m_a, m_b), changed in place
    links_a, A : (n, s_a) columns and entries of the sparse matrix A
    links_b, B : (n, s_b) the same of B
    """
    order = np.argsort(links_a[:, 0], kind="stable")
    _add(G, order, links_a, np.asarray(A, np.float64), links_b, np.asarray(B, np.float64))


@numba.njit(cache=True, nogil=True)
def _add(G, order, links_a, A, links_b, B):  # type: ignore[no-untyped-def]
    for j in order:
        for p in range(links_a.shape[1]):
            a = A[j, p]
            row = G[links_a[j, p]]
            for q in range(links_b.shape[1]):
                row[links_b[j, q]] += a * B[j, q]


def add_own_gram(H: NDArray[np.float64], links: NDArray, A: NDArray) -> None:
    """H += half of AᵀA, such that H + Hᵀ is AᵀA: every pair of links is added once, not twice.

    Parameters
    ----------
    H : (m, m), changed in place
    links, A : (n, s) columns and entries of the sparse matrix A
    """
    order = np.argsort(links[:, 0], kind="stable")
    _add_own(H, order, links, np.asarray(A, np.float64))


@numba.njit(cache=True, nogil=True)
def _add_own(H, order, links, A):  # type: ignore[no-untyped-def]
    for j in order:
        for p in range(links.shape[1]):
            a = A[j, p]
            row = H[links[j, p]]
            row[links[j, p]] += a * a / 2
            for q in range(p + 1, links.shape[1]):
                row[links[j, q]] += a * A[j, q]

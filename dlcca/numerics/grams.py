"""AᵀB of sparse kernels with a fixed number of links per row, added up in float64 by compiled code."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

#: Rows of A and B that are turned over at a time: few enough for them to stay in the cache.
TILE_ROWS = 8192


def add_gram(G: NDArray[np.float64], links_a: NDArray, A: NDArray, links_b: NDArray, B: NDArray) -> None:
    """G += AᵀB, every entry in the order of the rows, and so always with the same rounding.

    AᵀA comes out exactly symmetric: its two halves are the same products in the same order.

    Parameters
    ----------
    G : (m_a, m_b), changed in place
    links_a, A : (n, s_a) columns and entries of the sparse matrix A; no column twice in a row
    links_b, B : (n, s_b) the same of B
    """
    tile = max(1, min(TILE_ROWS, len(A)))
    for first in range(0, len(A), tile):
        rows = slice(first, first + tile)
        # Unsigned, for compiled code looks twice at an index that may count from the end.
        columns_a, columns_b = (links[rows].astype(np.uint32) for links in (links_a, links_b))
        _add(G, columns_a, A[rows].astype(np.float64), columns_b, B[rows].astype(np.float64))


@numba.njit(cache=True, nogil=True)
def _add(G, links_a, A, links_b, B):  # type: ignore[no-untyped-def]
    """One row of G after the other, which stays in the cache, from all rows that have an entry in that column of A."""
    starts, holders, entries = _turned(links_a, A, len(G))
    for i in range(len(G)):
        row = G[i]
        for e in range(starts[i], starts[i + 1]):
            j, a = holders[e], entries[e]
            for q in range(links_b.shape[1]):
                row[links_b[j, q]] += a * B[j, q]


@numba.njit(cache=True, nogil=True)
def _turned(links, A, m):  # type: ignore[no-untyped-def]
    """A by its columns: where each begins, and the rows and entries in it, in the order of the rows."""
    n, s = links.shape
    starts = np.zeros(m + 1, np.int64)
    for j in range(n):
        for p in range(s):
            starts[links[j, p] + 1] += 1
    for i in range(m):
        starts[i + 1] += starts[i]
    free = starts[:-1].copy()
    holders, entries = np.empty(n * s, np.uint32), np.empty(n * s, np.float64)
    for j in range(n):
        for p in range(s):
            i = links[j, p]
            holders[free[i]], entries[free[i]] = j, A[j, p]
            free[i] += 1
    return starts, holders, entries

"""AᵀB of sparse kernels with a fixed number of links per row, added up in float64 by compiled code."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


def add_gram(G: NDArray[np.float64], links_a: NDArray, A: NDArray, links_b: NDArray, B: NDArray) -> None:
    """G += AᵀB, rows one after another: the order, and so the rounding, is always the same.

    Parameters
    ----------
    G : (m_a, m_b), changed in place
    links_a, A : (n, s_a) columns and entries of the sparse matrix A
    links_b, B : (n, s_b) the same of B
    """
    _add(G, links_a, np.asarray(A, np.float64), links_b, np.asarray(B, np.float64))


@numba.njit(cache=True, nogil=True)
def _add(G, links_a, A, links_b, B):  # type: ignore[no-untyped-def]
    for j in range(links_a.shape[0]):
        for p in range(links_a.shape[1]):
            a = A[j, p]
            row = G[links_a[j, p]]
            for q in range(links_b.shape[1]):
                row[links_b[j, q]] += a * B[j, q]

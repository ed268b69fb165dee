"""How a kernel hangs together: its separate pieces, and how many landmarks a row really sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dlcca.numerics.affinity import Kernel

#: Entries below this share of the largest of their row join nothing: diffusion would not pass in any time.
NOTHING = 1e-9


def n_pieces(kernels: Sequence[Kernel]) -> int:
    """Pieces into which samples and landmarks fall, where diffusion passes along all of some kernels (n, m_v)."""
    from scipy.sparse.csgraph import connected_components

    joined = sp.hstack([_joins(W) for W in kernels], format="csr")
    n, m = joined.shape
    graph = sp.block_array([[None, joined], [sp.csr_array((m, n), dtype=bool), None]], format="csr")
    _count, label = connected_components(graph, directed=False)
    return len(np.unique(label[:n]))  # a landmark without a sample is no piece


def _joins(W: Kernel) -> sp.csr_array:
    if not sp.issparse(W):
        return sp.csr_array(W > NOTHING * W.max(axis=1, keepdims=True))
    W = sp.csr_array(W)
    largest = np.repeat(W.max(axis=1).toarray().ravel(), np.diff(W.indptr))
    kept = sp.csr_array((W.data > NOTHING * largest, W.indices, W.indptr), shape=W.shape)
    kept.eliminate_zeros()
    return kept


def landmarks_seen(W: Kernel) -> NDArray[np.float64]:
    r"""How many landmarks each row sees, (n,): :math:`(\sum_i W_i)^2 / \sum_i W_i^2`, 1 if all its weight is on one."""
    squares = W.multiply(W) if sp.issparse(W) else W**2
    total, of_squares = (np.asarray(x.sum(axis=1), np.float64).ravel() for x in (W, squares))
    return total**2 / of_squares

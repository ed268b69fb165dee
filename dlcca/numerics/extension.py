"""Coordinates of any row, seen in the fit or new, from its kernel row: one formula for both."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dlcca.numerics.affinity import Kernel


def extend(W: Kernel, weights: NDArray, values: NDArray) -> NDArray[np.float64]:
    r"""Average of the landmarks' values, weighed by the kernel row and the landmarks' weights.

    :math:`\psi(j) = \sum_i W_{ji} b_i V_i \,/\, \sum_i W_{ji} b_i`. For the eigenvectors of `spectra` this is ψ_l/ψ_0
    itself and not an approximation, so the training rows keep their coordinates. A factor of a row of W drops out.

    Parameters
    ----------
    W : (n, m) kernel rows, dense or sparse, none of them all zero
    weights : (m,) b
    values : (m, q) V

    Returns
    -------
    Psi : (n, q)
    """
    W = _in_float64(W)
    return (W @ (weights[:, None] * values)) / (W @ weights)[:, None]


def _in_float64(W: Kernel) -> Kernel:
    """The same entries; a sparse W keeps their order, which its own ``astype`` takes the time to change."""
    if sp.issparse(W):
        return sp.csr_array((W.data.astype(np.float64), W.indices, W.indptr), shape=W.shape)
    return W.astype(np.float64)

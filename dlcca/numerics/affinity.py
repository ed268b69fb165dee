"""W = exp(-D/σ): kernel rows, one per sample, dense over all landmarks or sparse over a few links."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dlcca.numerics.axes import Axes, along
from dlcca.numerics.neighborhoods import smallest, squared_distances

Links = NDArray[np.int64]
#: Kernel rows, one per sample and as wide as there are landmarks.
Kernel = Any  # NDArray | scipy.sparse.csr_array


def nearest_links(X: NDArray, X_L: NDArray, s: int, axes: Axes | None = None, *, block: int = 512) -> Links:
    """The s landmarks nearest to each sample by distance along a view's axes, nearest first: (n, s).

    The links of ``alternating`` fusion: each view's kernel stays within the view's own neighborhoods, where the
    local metrics are valid, and the product of the views carries it far.
    """
    X_L = along(X_L, axes)
    blocks = (along(X[first : first + block], axes) for first in range(0, len(X), block))
    return np.concatenate([smallest(squared_distances(some, X_L), s) for some in blocks])


def closest_links(D: NDArray, s: int) -> tuple[Links, NDArray]:
    """The s smallest distances of each row of D and their columns: (n, s) each.

    The links of ``view`` and ``average`` fusion. Neighbours in the raw view would let its private part back in.
    """
    links = smallest(D, s)
    return links, np.take_along_axis(D, links, axis=1)


def kernel_rows(D: NDArray, sigma: float) -> NDArray:
    """W = exp(-D/σ), entry by entry."""
    W = D / np.asarray(-sigma, D.dtype)
    return np.exp(W, out=W)


def relative_rows(D: NDArray, sigma: float) -> NDArray:
    """Kernel rows up to a factor of their own, exp(-(D - min D)/σ): never all zero, however far the sample."""
    W = D - D.min(axis=1, keepdims=True)
    W /= np.asarray(-sigma, D.dtype)
    return np.exp(W, out=W)


def balanced(W: Kernel) -> tuple[Kernel, NDArray]:
    r"""A kernel whose diffusion step does not depend on how densely samples or landmarks lie.

    :math:`A = R\, C^{-1/2}` with R the kernel with rows that sum to one and C the diagonal of R's column sums. The
    step :math:`A A^T` is symmetric and doubly stochastic: its leading eigenvalue is 1 with a constant eigenvector.

    Parameters
    ----------
    W : (n, m) dense or sparse; a factor of a row drops out

    Returns
    -------
    A : (n, m) in float64
    C : (m,) the diagonal; a landmark that no sample is linked to has zero
    """
    W = W.astype(np.float64)
    R = row_scaled(W, 1 / np.asarray(W.sum(axis=1)).ravel())
    C = np.asarray(R.sum(axis=0)).ravel()
    return column_scaled(R, inverse_root(C)), C


def inverse_root(x: NDArray) -> NDArray[np.float64]:
    """1/√x, and 0 where x is 0."""
    return np.divide(1.0, np.sqrt(x), out=np.zeros(x.shape), where=x > 0)


def row_scaled(W: Kernel, scale: NDArray) -> Kernel:
    """Each row of W times a number of its own."""
    return sp.diags_array(scale).tocsr() @ W if sp.issparse(W) else W * scale[:, None]


def column_scaled(W: Kernel, scale: NDArray) -> Kernel:
    """Each column of W times a number of its own."""
    return W @ sp.diags_array(scale).tocsr() if sp.issparse(W) else W * scale


def sparse_rows(W: NDArray, links: NDArray, m: int) -> sp.csr_array:
    """The entries W (n, s) at the landmarks ``links`` as a sparse matrix (n, m), in the order of the links."""
    n, s = links.shape
    return sp.csr_array((W.ravel(), links.ravel(), np.arange(0, n * s + 1, s)), shape=(n, m))

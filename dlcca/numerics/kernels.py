"""The kernel W = exp(-D/σ): its rows, its bandwidth σ, and how it connects the samples.

There is one row per sample, dense over all landmarks or sparse over a few links.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: Rows of sparse kernels that are transposed at a time: few enough for them to stay in the cache.
TILE_ROWS = 8192
#: Kernel rows, one per sample and as wide as there are landmarks.
Kernel = Any  # NDArray | scipy.sparse.csr_array
#: Products of kernels (m_u, m_v), by their numbers.
Grams = Mapping[tuple[int, int], NDArray]


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

    From W (n, m), dense or sparse, of which a factor of a row drops out: A (n, m) in float64, and the diagonal C (m,),
    which is zero for a landmark that no sample is linked to.
    """
    R = row_shares(W.astype(np.float64))
    C = np.asarray(R.sum(axis=0)).ravel()
    scale = inverse_root(C)
    return R @ sp.diags_array(scale).tocsr() if sp.issparse(R) else R * scale, C


def inverse_root(x: NDArray) -> NDArray[np.float64]:
    """1/√x, and 0 where x is 0."""
    return np.divide(1.0, np.sqrt(x), out=np.zeros(x.shape), where=x > 0)


def sparse_rows(W: NDArray, links: NDArray, m: int) -> sp.csr_array:
    """The entries W (n, s) at the landmarks ``links`` as a sparse matrix (n, m), in the order of the links."""
    n, s = links.shape
    return sp.csr_array((W.ravel(), links.ravel(), np.arange(0, n * s + 1, s)), shape=(n, m))


def row_shares(W: Kernel) -> Kernel:
    """Kernel rows (n, m), dense or sparse, divided by their sums; the dtype is kept."""
    total = np.asarray(W.sum(axis=1, dtype=np.float64))
    if not sp.issparse(W):
        return np.asarray(W / total[:, None], W.dtype)
    shares = (W.data / np.repeat(total, np.diff(W.indptr))).astype(W.dtype)
    return sp.csr_array((shares, W.indices, W.indptr), shape=W.shape)


def extend(W: Kernel, weights: NDArray, values: NDArray) -> NDArray[np.float64]:
    r"""Average of the landmarks' values, weighed by the kernel row and the landmarks' weights.

    :math:`\psi(j) = \sum_i W_{ji} b_i V_i \,/\, \sum_i W_{ji} b_i`. For the eigenvectors of `fusion` this is ψ_l/ψ_0
    itself and not an approximation, so the training rows keep their coordinates.

    Psi (n, q) from kernel rows W (n, m), dense or sparse, none of them all zero, of which a factor of a row drops out;
    weights b (m,) and values V (m, q).
    """
    if sp.issparse(W):  # its own ``astype`` would take the time to change the order of the entries
        W = sp.csr_array((W.data.astype(np.float64), W.indices, W.indptr), shape=W.shape)
    W = W.astype(np.float64, copy=False)
    return (W @ (weights[:, None] * values)) / (W @ weights)[:, None]


#: The rules that are quantiles, of which share: ``neighbor`` of each row's k-th smallest entry, others of all entries.
QUANTILES = {"median": 0.5, "quantile": 0.2, "neighbor": 0.5}


def kth_smallest(D: NDArray, k: int = 8) -> NDArray:
    """Of every row; its largest where it is shorter."""
    k = min(k, D.shape[1])
    return np.partition(D, k - 1, axis=1)[:, k - 1]


def sigma_grid(median: float) -> NDArray[np.float64]:
    """The values of σ that the slope rule tries, from the median of the distances that are not zero."""
    return median * np.logspace(-4, 2, 60)


def log_sums(D: NDArray, sigmas: NDArray) -> NDArray[np.float64]:
    """log Σ exp(-D/σ) for each σ; parts of D are put together by `numpy.logaddexp`."""
    nearest = D.min()  # taken out of the sum: where all of D is far above σ, the logarithm would be of zero
    total = [np.exp(-(D - nearest) / sigma).sum(dtype=np.float64) for sigma in sigmas]
    return np.log(total) - nearest / sigmas


def steepest(sigmas: NDArray, logs: NDArray) -> float:
    """The σ at which the logarithm rises fastest with log σ."""
    return float(sigmas[np.argmax(np.gradient(logs, np.log(sigmas)))])


def beyond_rounding(D: NDArray) -> NDArray:
    """The distances that are not zero but for rounding; local metrics have no unit, so the limit needs none."""
    return D[D > np.finfo(D.dtype).eps]


def choose_bandwidth(D: NDArray, rule: str) -> float:
    """σ by the name of a rule; 0 when all of D is zero, which the caller must refuse.

    The distance of a sample to itself and to its duplicates is no measure of scale: quantiles are of the others. The
    rule "slope" takes the σ at which log Σ exp(-D/σ) rises fastest with log σ. There the kernel is neither a set of
    isolated points (slope 0 for small σ) nor one blob (slope 0 for large σ).
    """
    apart = beyond_rounding(kth_smallest(D) if rule == "neighbor" else D)
    if not apart.size:
        return 0.0
    if rule == "slope":
        sigmas = sigma_grid(float(np.median(apart)))
        return steepest(sigmas, log_sums(D, sigmas))
    return float(np.quantile(apart, QUANTILES[rule]))


#: Up to so many products SciPy adds them up before numba would be imported.
FEW_PRODUCTS = 1 << 24
#: Products below this share of the largest possible join nothing: diffusion would not pass in any time.
NOTHING = 1e-9


def gram_components(grams: Grams) -> NDArray[np.int64]:
    """Landmarks of each connected component, the largest first, from the Gram matrices (m_u, m_v) of kernels u <= v."""
    from scipy.sparse.csgraph import connected_components

    K = max(v for _, v in grams) + 1
    sizes = [np.sqrt(np.diagonal(grams[v, v])) for v in range(K)]
    joined = [[None] * K for _ in range(K)]  # type: list[list[sp.csr_array | None]]
    for (u, v), G in grams.items():
        joined[u][v] = sp.csr_array(NOTHING * np.outer(sizes[u], sizes[v]) < G)
    _count, label = connected_components(sp.block_array(joined, format="csr"), directed=False)
    counts = np.bincount(label[np.concatenate(sizes) > 0])  # a landmark without a sample is no component
    return np.sort(counts[counts > 0])[::-1]


def gram(A: Kernel, B: Kernel) -> NDArray[np.float64]:
    """AᵀB in float64, dense: (m_a, m_b)."""
    product = A.T.astype(np.float64) @ B.astype(np.float64)
    return product.toarray() if sp.issparse(product) else product


def landmarks_seen(W: Kernel) -> NDArray[np.float64]:
    r"""How many landmarks each row sees, (n,): :math:`(\sum_i W_i)^2 / \sum_i W_i^2`, 1 if all its weight is on one."""
    squares = W.multiply(W) if sp.issparse(W) else W**2
    total, of_squares = (np.asarray(x.sum(axis=1), np.float64).ravel() for x in (W, squares))
    return total**2 / of_squares


def add_gram(
    G: NDArray[np.float64],
    links_a: NDArray,
    A: NDArray,
    links_b: NDArray,
    B: NDArray,
    *,
    few_products: int = FEW_PRODUCTS,
) -> None:
    """G += AᵀB, (m_a, m_b), of sparse kernels; every sum in the order of the rows.

    Columns and entries of a kernel are (n, s), with no column twice in a row. AᵀA comes out exactly symmetric: its two
    halves are the same products in the same order. More than ``few_products`` are added by compiled code, to the same
    digits.
    """
    if A.size * B.shape[1] <= few_products:
        G += gram(sparse_rows(A, links_a, G.shape[0]), sparse_rows(B, links_b, G.shape[1]))
        return
    from dlcca.numerics import compiled

    tile = max(1, min(TILE_ROWS, len(A)))
    for first in range(0, len(A), tile):
        rows = slice(first, first + tile)
        places, starts = compiled.order_by_column(np.ascontiguousarray(links_a[rows], np.int32), len(G))
        entries = A[rows].ravel()[places].astype(np.float64)
        # Unsigned, for compiled code looks twice at an index that may count from the end.
        holders, columns_b = (places // A.shape[1]).astype(np.uint32), links_b[rows].astype(np.uint32)
        compiled.add_gram(G, starts, holders, entries, columns_b, B[rows].astype(np.float64))

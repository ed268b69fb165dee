"""Alternating fusion: one diffusion step along each view in turn, so that what is private to a view is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from dlcca.numerics.affinity import Kernel, balanced, inverse_root
from dlcca.numerics.spectra import fixed_start, gram, largest_pairs


@dataclass(frozen=True)
class AlternatingSpectrum:
    """Singular values with the trivial 1 first, and each view's own reading of the common coordinates."""

    eigenvalues: NDArray[np.float64]  # (q + 1,), falling
    values: list[NDArray[np.float64]]  # per view, (m_v, q) values of the landmarks


def alternating_spectrum(kernels: Sequence[Kernel], q: int, *, solver: str = "gram") -> AlternatingSpectrum:
    r"""Coordinates of what survives a step along every view.

    A view's step is :math:`K_v = A_v A_v^T` with its balanced kernel :math:`A_v`: from a sample to its landmarks and
    back. It is symmetric and doubly stochastic, so the product :math:`K_1 K_2 \cdots K_K` has the singular value 1 with
    constant vectors, exactly; a function that some view cannot see is averaged away by that view's step. The singular
    vectors follow from the m x m matrices :math:`A_u^T A_v` alone.

    With Ψ the left singular vectors, view v reads them as :math:`K_v \Psi`: averages of landmark values under the
    view's own kernel row. So every view alone gives the coordinates of a sample, and their mean is the embedding.

    Parameters
    ----------
    kernels : K >= 2 arrays (n, m_v), dense or sparse; a row may have a factor of its own
    q : coordinates wanted
    solver : "gram" forms the m x m matrices; "lanczos" only multiplies by the kernels

    Returns
    -------
    AlternatingSpectrum; the values are scaled so that each view's reading has mean square one over the n samples
    """
    halves = [balanced(W) for W in kernels]
    A = [half for half, _ in halves]
    n = A[0].shape[0]
    if solver == "gram":
        grams = {(u, v): gram(A[u], A[v]) for u, v in gram_pairs(len(A))}
        S, onto, sizes = solve_grams(grams, q, n)
    else:
        S, onto = _by_lanczos(A, q)
        sizes = [np.sqrt(np.mean(np.asarray(half @ target) ** 2, axis=0)) for half, target in zip(A, onto, strict=True)]
    values = [landmark_values(t, C, size) for t, (_, C), size in zip(onto, halves, sizes, strict=True)]
    return AlternatingSpectrum(S, values)


def gram_pairs(K: int) -> list[tuple[int, int]]:
    """The pairs (u, v), u <= v, of views whose :math:`A_u^T A_v` the solution takes."""
    own = [(v, v) for v in range(K)]
    chain = [(v, v + 1) for v in range(K - 1)]
    to_first = [(0, v) for v in range(2, K)]
    return [*own, *chain, *to_first]


def solve_grams(grams: dict[tuple[int, int], NDArray], q: int, n: int) -> tuple[NDArray, list[NDArray], list[NDArray]]:
    r"""The spectrum from the m x m matrices of `gram_pairs`.

    Returns
    -------
    S : (q + 1,) singular values
    onto : per view, (m_v, q) :math:`A_v^T \Psi`
    sizes : per view, (q,) root mean square of its reading over the n samples
    """
    K = max(v for _, v in grams) + 1
    chain = grams[0, 1]
    for v in range(1, K - 1):
        chain = chain @ grams[v, v + 1]
    # With A_1ᵀA_1 = B Bᵀ the squares of the singular values are the eigenvalues of Bᵀ T (A_KᵀA_K) Tᵀ B, T the chain.
    B, B_inverse = _root(grams[0, 0])
    T = B.T @ chain
    squares, U = largest_pairs(T @ grams[K - 1, K - 1] @ T.T, q + 1)
    S = np.sqrt(np.maximum(squares, 0))
    # Ψ = A_1 c has orthonormal columns, because cᵀ(A_1ᵀA_1)c = UᵀU.
    c = B_inverse @ U[:, 1:]
    onto = [grams[0, v].T @ c for v in range(K)]
    sizes = [np.sqrt(np.einsum("mq,mq->q", t, grams[v, v] @ t) / n) for v, t in enumerate(onto)]
    return S, onto, sizes


def landmark_values(onto: NDArray, C: NDArray, size: NDArray) -> NDArray:
    r"""Values of a view's landmarks, from :math:`A_v^T \Psi`, such that its reading has mean square one."""
    return onto * inverse_root(C)[:, None] / np.where(size > 0, size, 1)


def _by_lanczos(A: list[Kernel], q: int) -> tuple[NDArray, list[NDArray]]:
    """The same, from products with n-vectors: Ψ are the eigenvectors of K_1 ⋯ K_K ⋯ K_1."""
    n = A[0].shape[0]
    path = [*A, *A[::-1]]

    def there_and_back(v: NDArray) -> NDArray:
        for half in path[::-1]:
            v = half @ (half.T @ v)
        return v

    squares, Psi = eigsh(
        LinearOperator((n, n), matvec=there_and_back, dtype=np.float64), k=q + 1, v0=fixed_start(n), tol=1e-13
    )
    Psi = Psi[:, ::-1][:, 1:]
    return np.sqrt(np.maximum(squares[::-1], 0)), [half.T @ Psi for half in A]


def _root(G: NDArray) -> tuple[NDArray, NDArray]:
    """B with G = B Bᵀ, and the pseudo-inverse of Bᵀ."""
    lam, V = np.linalg.eigh((G + G.T) / 2)
    keep = lam > 1e-13 * lam[-1]
    return V * np.sqrt(np.where(keep, lam, 0)), V * inverse_root(np.where(keep, lam, 0))

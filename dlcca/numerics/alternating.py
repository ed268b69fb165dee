"""Alternating fusion: one diffusion step along each view in turn, so that what is private to a view is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from dlcca.numerics.affinity import Kernel, balanced, inverse_root
from dlcca.numerics.spectra import fixed_start, gram


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
    S, onto = _by_gram(A, q) if solver == "gram" else _by_lanczos(A, q)
    values = []
    for (half, C), target in zip(halves, onto, strict=True):
        size = np.sqrt(np.mean(np.asarray(half @ target) ** 2, axis=0))
        values.append(target * inverse_root(C)[:, None] / np.where(size > 0, size, 1))
    return AlternatingSpectrum(S, values)


def _by_gram(A: list[Kernel], q: int) -> tuple[NDArray, list[NDArray]]:
    """Singular values, and A_vᵀΨ of each view."""
    chain = gram(A[0], A[1])
    for one, other in pairwise(A[1:]):
        chain = chain @ gram(one, other)
    first, last = _root(gram(A[0], A[0])), _root(gram(A[-1], A[-1]))
    U, S, _ = np.linalg.svd(first.T @ chain @ last)
    # Ψ = A_1 c has orthonormal columns, because cᵀ(A_1ᵀA_1)c = UᵀU.
    c = np.linalg.lstsq(first.T, U[:, 1 : q + 1], rcond=1e-12)[0]
    return S[: q + 1], [gram(half, A[0]) @ c for half in A]


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


def _root(G: NDArray) -> NDArray:
    """B with G = B Bᵀ."""
    lam, V = np.linalg.eigh((G + G.T) / 2)
    return V * np.sqrt(np.maximum(lam, 0))

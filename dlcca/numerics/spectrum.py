"""The diffusion eigenproblem of one kernel, solved through its landmarks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from dlcca.errors import SettingsError
from dlcca.numerics.affinity import Kernel, balanced, inverse_root, row_scaled
from dlcca.numerics.lanczos import largest_eigenpairs

#: Matrices up to this size are solved whole. Of larger ones Lanczos finds the leading eigenpairs in a tenth of the time
#: (2000 landmarks, 5 coordinates: 0.3 s against 4.4 s), unless it takes more than so many blocks.
SMALL, MOST_STEPS = 512, 60


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues with the trivial 1 first, and what a row needs to find its coordinates (see `extension`)."""

    eigenvalues: NDArray[np.float64]  # (q + 1,), falling
    weights: NDArray[np.float64]  # (m,) of the landmarks, positive
    values: NDArray[np.float64]  # (m, q) coordinates of the landmarks


def landmark_spectrum(W: Kernel, q: int, *, solver: str = "gram") -> Spectrum:
    r"""Diffusion coordinates from a kernel between n samples and m landmarks (Algorithm 2, step 4).

    :math:`M = \Omega^{-1/2} W W^T \Omega^{-1/2}` is n x n (W has a row for each sample, the transpose of the
    paper's), but with :math:`A = \Omega^{-1/2} W` its spectrum is that of the m x m matrix :math:`A^T A`: with
    eigenpairs (u, λ) of the latter, :math:`\psi = A u / \sqrt\lambda`. The coordinates are :math:`\psi_l / \psi_0`.

    Parameters
    ----------
    W : (n, m) dense or sparse
    q : coordinates wanted, at most m - 1
    solver : "gram" forms :math:`A^T A`; "lanczos" only multiplies by A

    Returns
    -------
    Spectrum; its eigenvalue 0 is 1 to rounding, which is a check of all that came before
    """
    # Not W.sum: of a sparse float32 matrix it adds in float32, whatever dtype it is given.
    s = W.T @ np.ones(W.shape[0])
    omega = W @ s
    lam, u = leading_pairs(row_scaled(W, inverse_root(omega)), q + 1, solver=solver)
    # ψ_l(j)/ψ_0(j) = Σ_i W_ji u_li/√λ_l / Σ_i W_ji u_0i, and u_0 = s/√(Σ Ω): an average with weights W_ji s_i.
    over_s = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
    values = u[:, 1:] * over_s[:, None] * np.sqrt(omega.sum()) * inverse_root(np.maximum(lam[1:], 0))
    return Spectrum(lam, s, values)


def balanced_spectrum(W: Kernel, q: int, *, solver: str = "gram") -> Spectrum:
    """The same of the balanced kernel, whose coordinates do not depend on how densely landmarks lie.

    Parameters as in `landmark_spectrum`; a row of W may carry a factor of its own.
    """
    A, C = balanced(W)
    plain = landmark_spectrum(A, q, solver=solver)
    return Spectrum(plain.eigenvalues, plain.weights * inverse_root(C), plain.values)


def leading_pairs(A: Kernel, count: int, *, solver: str) -> tuple[NDArray, NDArray]:
    """The largest eigenvalues of AᵀA, falling, with their vectors as columns (m, count)."""
    m = A.shape[1]
    if solver == "gram":
        return largest_pairs(gram(A, A), count)
    return largest_eigenpairs(lambda V: A.T @ (A @ V), m, count)


def largest_pairs(G: NDArray, count: int) -> tuple[NDArray, NDArray]:
    """The largest eigenvalues of a symmetric matrix (m, m), falling, with their vectors as columns (m, count)."""
    if len(G) > SMALL:
        with suppress(SettingsError):  # it did not converge: eigenvalues too close to each other
            return largest_eigenpairs(lambda V: G @ V, len(G), count, most_steps=MOST_STEPS)
    return largest_of_all(G, count)


def largest_of_all(G: NDArray, count: int) -> tuple[NDArray, NDArray]:
    """The same, from the whole matrix brought to tridiagonal form."""
    m = len(G)
    lam, u = scipy.linalg.eigh((G + G.T) / 2, subset_by_index=[m - count, m - 1])
    return lam[::-1], u[:, ::-1]


def gram(A: Kernel, B: Kernel) -> NDArray[np.float64]:
    """AᵀB in float64, dense: (m, m)."""
    product = A.T.astype(np.float64) @ B.astype(np.float64)
    return product.toarray() if sp.issparse(product) else product


def fixed_start(m: int) -> NDArray[np.float64]:
    """A start for Lanczos that is the same every time, and no eigenvector itself as a constant would be."""
    return np.random.default_rng(0).uniform(0.5, 1.5, m)

"""Dense n x n matrices: Gaussian kernels of all pairs of samples, and leading eigenpairs.

Eigenpairs are exact for few samples, and by Lanczos or Arnoldi for many. The matrix is given by its products:
``multiply`` takes v, (n,) or (n, any), to A v.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from dlcca.errors import DataError, SettingsError
from dlcca.numerics.distances import squared_distances
from dlcca.numerics.eigensolvers import fixed_start, largest_eigenpairs, largest_of_all
from dlcca.numerics.kernels import kernel_rows
from dlcca.settings.schema import POSITIVE

Multiply = Callable[[NDArray], NDArray]
#: Eigenvalues, falling, and vectors as columns.
Pairs = tuple[NDArray[np.float64], NDArray[np.float64]]

#: Order up to which the whole spectrum is computed: it is as quick there, and cannot fail to converge.
EXACT_UP_TO = 300
#: Eigenvalues below this are rounding (the trivial one is 1), and their vectors noise.
SMALLEST = 1e-11
#: A median below this share of the largest squared distance is rounding: most pairs of samples coincide.
COINCIDENT = 1e-12


def gaussian_kernel(X: NDArray, bandwidth: float | None) -> NDArray[np.float64]:
    r"""Affinities of all pairs of samples, :math:`W_{ij} = \exp(-|x_i - x_j|^2 / \sigma)`.

    From X (n, d), centred, and the ``bandwidth`` σ, in squared units of the view; None for the median of the squared
    distances, as in the paper.
    """
    D = squared_distances(X, X)
    if bandwidth is None:
        bandwidth = float(np.median(D))
        if bandwidth <= COINCIDENT * D.max():
            raise DataError(
                "half of all pairs of samples coincide in a view, so the median of their distances is 0. "
                "Set bandwidth, in squared units of the view, or remove repeated samples."
            )
    return kernel_rows(D, bandwidth)


def bandwidth_of_each(bandwidth: Any, K: int) -> list[float | None]:
    """The bandwidths of K views from one for all, a list with one for each (None where it is the median), or None."""
    is_list = isinstance(bandwidth, Sequence | np.ndarray) and not isinstance(bandwidth, str)
    each = list(bandwidth) if is_list else [bandwidth] * K
    if len(each) != K:
        raise SettingsError(f"bandwidth has {len(each)} entries and there are {K} views; give one for each.")
    for sigma in each:
        if sigma is not None:
            POSITIVE.check("bandwidth", sigma)
    return each


def symmetric_eigenpairs(multiply: Multiply, n: int, q: int) -> Pairs:
    """The q largest eigenvalues of a symmetric matrix (n, n) and their unit vectors (n, q)."""
    if not _is_small(n, q):
        with suppress(SettingsError):  # it did not converge: eigenvalues too close to each other
            return largest_eigenpairs(multiply, n, q)
    return largest_of_all(multiply(np.eye(n)), q)


def eigenpairs(multiply: Multiply, n: int, q: int) -> Pairs:
    """The q eigenvalues of largest modulus of a real matrix (n, n) that need not be symmetric: moduli and vectors.

    A conjugate pair, which sampling noise may make of two near real eigenvalues, gives the real and the imaginary
    part of its vector as two columns, its phase such that they are orthogonal and the real one is the longer.
    """
    found = None
    if not _is_small(n, q):
        A = LinearOperator((n, n), matvec=multiply, dtype=np.float64)
        # A large basis costs little beside products with n x n matrices, and resolves eigenvalues that crowd at 1.
        with suppress(ArpackNoConvergence):
            found = eigs(A, k=q, which="LM", v0=fixed_start(n), ncv=min(n, max(50, 4 * q)), maxiter=100)
    lam, V = np.linalg.eig(multiply(np.eye(n))) if found is None else found
    order = np.lexsort([-lam.imag, -np.abs(lam)])[:q]
    lam, V = lam[order], V[:, order]
    V = V * np.exp(-0.5j * np.angle((V**2).sum(axis=0)))
    return np.abs(lam), np.where(lam.imag < 0, V.imag, V.real)


def _is_small(n: int, q: int) -> bool:
    """Whether the whole spectrum is computed, of a matrix (n, n) of which q eigenpairs are wanted."""
    return n <= EXACT_UP_TO or 10 * q > n


def check_above_rounding(eigenvalues: NDArray) -> None:
    """Refuse coordinates whose eigenvalues are rounding, so that their vectors are noise."""
    found, q = int((eigenvalues > SMALLEST).sum()), len(eigenvalues)
    if found < q:
        raise SettingsError(
            f"n_components={q}, but only {found} coordinates have eigenvalues above rounding; "
            "ask for fewer, or set a smaller bandwidth."
        )

"""Kernel CCA, the paper's second baseline: canonical correlation after a nonlinear map of each view."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lapack, solve_triangular

from dlcca.baselines.canonical import canonical_variates
from dlcca.baselines.eigenpairs import symmetric_eigenpairs
from dlcca.baselines.inputs import check_count, check_number, in_float64, prepared
from dlcca.baselines.kernels import bandwidth_of_each, gaussian_kernel
from dlcca.baselines.result import Baseline
from dlcca.numerics.signs import signs

#: What the pivoted Cholesky factor may leave of the kernel's diagonal of ones.
LEFT_OUT = 1e-12


def kernel_cca(
    views: Any,
    n_components: int = 2,
    *,
    bandwidth: Any = None,
    ridge: float = 0.03,
) -> Baseline:
    r"""Functions in the views' Gaussian kernel spaces that correlate best (Lai & Fyfe, 2000; Hardoon et al., 2004).

    With centred kernels :math:`K_v`, the dual problem
    :math:`\max\, a_1^T K_1 K_2 a_2` subject to :math:`a_v^T (K_v^2 + \kappa_v K_v) a_v = 1` with
    :math:`\kappa_v = r\,\lambda_{max}(K_v)`. This is linear CCA, with a ridge, of features :math:`\Phi_v` such that
    :math:`K_v = \Phi_v \Phi_v^T`, and is solved so: Φ is a pivoted Cholesky factor, with few columns where the kernel
    is smooth. For more than two views it is the MAXVAR form of the same, see `canonical`.

    Dense, n x n: 8 (K + 4) n² bytes at most, and up to 10 000 samples. Time grows with the square of the kernels'
    rank p, as n p²: seconds for smooth views, and a minute for 5000 samples of noisy ones, where p = n.

    Parameters
    ----------
    views : list or dict of two or more arrays (n, d_v)
    n_components : q, coordinates wanted
    bandwidth : σ of the kernels, in squared units, one for all or a list; None for the median of squared distances
    ridge : r above 0; without a ridge the kernels of any distinct samples correlate perfectly

    Returns
    -------
    Baseline; the embedding holds the first view's canonical variates :math:`K_1 a_1` at the scale of unit variance,
    the ridge's share included, and the eigenvalues are the regularised canonical correlations
    """
    given = prepared(views, "kernel_cca", least=2, dense=True)
    check_count(n_components, given.n - 1, f"a centred kernel of {given.n} samples has rank {given.n - 1} at most")
    ridge = check_number("ridge", ridge, positive=True)
    arrays = in_float64(given)
    sigmas = bandwidth_of_each(bandwidth, len(arrays))
    # One view after the other, so that only one has its kernel and features in memory besides the scores.
    scores = [
        _whitened(kernel_features(gaussian_kernel(X, sigma)), ridge) for X, sigma in zip(arrays, sigmas, strict=True)
    ]
    variates, correlations = canonical_variates(scores, n_components)
    return Baseline(variates[0] * signs(variates[0]), correlations, "kernel_cca")


def kernel_features(K: NDArray) -> NDArray[np.float64]:
    r"""Samples in coordinates of the kernel space: Φ (n, p) with :math:`K = \Phi \Phi^T` to rounding, p its rank."""
    # K is symmetric: its transpose is what LAPACK, which counts by columns, can take without a copy.
    factor, pivots, rank, _ = lapack.dpstrf(K.T, tol=LEFT_OUT, lower=1, overwrite_a=1)
    Phi = np.empty((len(K), rank))
    Phi[pivots - 1] = np.tril(factor[:, :rank])
    return Phi


def _whitened(Phi: NDArray, ridge: float) -> NDArray[np.float64]:
    """Scores (n, p) of the features: the ridge makes their covariance safe to factor, which is cheaper than an SVD."""
    Phi = Phi - Phi.mean(axis=0)
    G = Phi.T @ Phi
    top, _ = symmetric_eigenpairs(lambda v: G @ v, len(G), 1)
    root = cholesky(G + ridge * top * np.eye(len(G)), lower=True)
    return solve_triangular(root, Phi.T, lower=True).T

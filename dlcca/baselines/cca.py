"""Linear and kernel CCA of whole recordings, and the canonical variates that both of them compute."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lapack, solve_triangular

from dlcca.baselines.dense import EXACT_UP_TO, bandwidth_of_each, gaussian_kernel, symmetric_eigenpairs
from dlcca.baselines.interface import Baseline, check_count, prepared
from dlcca.numerics.coordinates import signs
from dlcca.numerics.metrics.cca import whiten
from dlcca.settings.schema import NOT_NEGATIVE, POSITIVE

#: What the pivoted Cholesky factor may leave of the kernel's diagonal of ones.
LEFT_OUT = 1e-12


def linear_cca(views: Any, n_components: int = 2, *, ridge: float = 0.0) -> Baseline:
    r"""Linear functions of each view that correlate best over all samples (Hotelling; MAXVAR of Kettenring).

    :math:`\max\, p_1^T \Sigma_{12}\, p_2` subject to :math:`p_v^T (\Sigma_{vv} + r\lambda_v I)\, p_v = 1`, by the
    thin SVD of each view, restricted to the directions in which the view has extent. For more than two views it is the
    MAXVAR form of the same, see `canonical_variates`. Any number of samples: nothing larger than the views is held.

    Without a ridge, views of ranks r_1 + r_2 >= n correlate perfectly whatever they hold.

    Parameters
    ----------
    views : list or dict of two or more arrays (n, d_v)
    n_components : q, at most the second largest of the views' ranks
    ridge : r, as a share of the largest variance λ_v of each view

    Returns
    -------
    Baseline; the embedding is the mean of the views' canonical variates, the eigenvalues their correlations
    """
    given = prepared(views, "linear_cca", least=2, dense=False)
    channels = sorted(given.dims)[-2]
    check_count(n_components, channels, f"at most {channels} channels are in two of the views or more")
    NOT_NEGATIVE.check("ridge", ridge)
    white = [whiten(X[None], ridge=ridge) for X in given.present]
    variates, correlations = canonical_variates([w.scores[0, :, : w.rank[0]] for w in white], n_components)
    embedding = np.mean(variates, axis=0)
    return Baseline(embedding * signs(embedding), correlations, "linear_cca")


def kernel_cca(views: Any, n_components: int = 2, *, bandwidth: Any = None, ridge: float = 0.03) -> Baseline:
    r"""Functions in the views' Gaussian kernel spaces that correlate best (Lai & Fyfe, 2000; Hardoon et al., 2004).

    With centred kernels :math:`K_v`, the dual problem
    :math:`\max\, a_1^T K_1 K_2 a_2` subject to :math:`a_v^T (K_v^2 + \kappa_v K_v) a_v = 1` with
    :math:`\kappa_v = r\,\lambda_{max}(K_v)`. This is linear CCA, with a ridge, of features :math:`\Phi_v` such that
    :math:`K_v = \Phi_v \Phi_v^T`, and is solved so: Φ is a pivoted Cholesky factor, with few columns where the kernel
    is smooth. For more than two views it is the MAXVAR form of the same, see `canonical_variates`.

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
    POSITIVE.check("ridge", ridge)
    sigmas = bandwidth_of_each(bandwidth, len(given.present))
    # One view after the other, so that only one has its kernel and features in memory besides the scores.
    pairs = zip(given.present, sigmas, strict=True)
    scores = [_whitened(kernel_features(gaussian_kernel(X, sigma)), ridge) for X, sigma in pairs]
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


def canonical_variates(
    scores: Sequence[NDArray], n_components: Any
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    r"""The functions of each view that correlate best with those of the others.

    For two views the SVD of the whitened cross-covariance :math:`Z_1^T Z_2`; for more the MAXVAR eigenproblem of all
    :math:`Z_u^T Z_v` as blocks of one matrix, with identities on its diagonal, whose eigenvalues w lie in [0, K], near
    K for what is common to all. Two views are the same problem with w = 1 + ρ.

    Parameters
    ----------
    scores : K >= 2 arrays (n, p_v): centred views times a root of their inverse (regularised) covariance, divided by
        :math:`\sqrt{n-1}`; each of full rank, but for the mean
    n_components : q, at most the second largest rank: what more than one view can hold

    Returns
    -------
    variates : K arrays (n, q), of unit (regularised) variance on average over the views
    correlations : (q,), falling: ρ, or (w - 1)/(K - 1)
    """
    n, K = len(scores[0]), len(scores)
    ranks = [min(Z.shape[1], n - 1) for Z in scores]
    found = ", ".join(map(str, ranks))
    q = check_count(n_components, sorted(ranks)[-2], f"the views have ranks {found} and a variate needs two of them")
    if K == 2 and min(ranks) <= EXACT_UP_TO:
        U, correlations, Vt = np.linalg.svd(scores[0].T @ scores[1], full_matrices=False)
        parts = [U[:, :q], Vt[:q].T]
    else:
        correlations, parts = _maxvar(scores, q)
    variates = [np.sqrt(n - 1) * (Z @ part) for Z, part in zip(scores, parts, strict=True)]
    return variates, np.clip(correlations[:q], 0, 1)


def _maxvar(scores: Sequence[NDArray], q: int) -> tuple[NDArray, list[NDArray]]:
    """(w - 1)/(K - 1), and each view's part of the eigenvectors, which have length √K."""
    K, edges = len(scores), np.cumsum([0, *(Z.shape[1] for Z in scores)])
    blocks = [slice(first, last) for first, last in pairwise(edges)]

    def off_diagonal(v: NDArray) -> NDArray:
        images = [Z @ v[block] for Z, block in zip(scores, blocks, strict=True)]
        total = np.sum(images, axis=0)
        return np.concatenate([Z.T @ (total - image) for Z, image in zip(scores, images, strict=True)])

    w_less_1, V = symmetric_eigenpairs(off_diagonal, int(edges[-1]), q)
    return w_less_1 / (K - 1), [np.sqrt(K) * V[block] for block in blocks]

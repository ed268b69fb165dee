"""Local canonical correlation analysis of two views and of any number (MAXVAR), and the metric of one view alone.

Every local metric starts from whitened neighborhoods. All functions are batched: the first axis runs over m landmarks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.principal import Leading, principal

#: Directions whose standard deviation is below this share of the largest are rounding, not data.
RANK_TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-7}
#: From this ridge on neighborhoods are whitened by the decomposition of their covariance, in double precision, which
#: takes less time than that of the neighborhoods and serves the tests of what is common as well. It has less than half
#: of the digits of small variances, which such a ridge hides, and rounding up to another share.
RIDGE_OF_COVARIANCE, COVARIANCE_TOLERANCE = 1e-4, 1e-6


@dataclass(frozen=True)
class Whitened:
    r"""One view's neighborhoods in coordinates of unit variance.

    With :math:`\Sigma = V S^2 V^T` the covariance of a neighborhood and :math:`\lambda` its largest eigenvalue,
    ``unmix`` is :math:`V (S^2 + r\lambda)^{-1/2}` for the ridge r, and ``scores`` the centred samples times
    ``unmix``, divided by :math:`\sqrt{k-1}`, so that products of scores are covariances.
    """

    scores: NDArray  # (m, k, p)
    unmix: NDArray  # (m, d, p)
    rank: NDArray  # (m,) directions in which the neighborhood has any extent
    effective: NDArray  # (m,) the same, each direction counted by how little the ridge shrinks it
    principal: Leading | None = None  # the neighborhoods along their principal directions, if these were found


def whiten(X: NDArray, *, ridge: float) -> Whitened:
    """Whiten the neighborhoods of one view by thin SVDs or, with enough of a ridge, by the smaller Gram matrices.

    From X (m, k, d), the k neighbours of each of m landmarks, p = min(k, d) directions; those without extent are zero.
    The ``ridge`` is added to the covariance, as a share of its largest eigenvalue.
    """
    k, found, tolerance = X.shape[1], None, RANK_TOLERANCE[X.dtype]
    unit = np.asarray(np.sqrt(k - 1), X.dtype)
    if ridge >= RIDGE_OF_COVARIANCE:
        found, V = principal(X)
        S, V, T = (A.astype(X.dtype) for A in (np.sqrt(found.variances), V, found.scores))
        T /= unit
        tolerance = max(tolerance, COVARIANCE_TOLERANCE)
    else:
        S, V, T = _by_svd(X, unit)
    top = S[:, :1]
    alive = (S > tolerance * top) & (top > np.sqrt(np.finfo(X.dtype).tiny))  # smaller squares are 0
    scale = np.sqrt(S**2 + np.asarray(ridge, X.dtype) * top**2)
    inverse = np.divide(1, scale, out=np.zeros_like(S), where=alive)
    return Whitened(
        scores=T * inverse[:, None, :],
        unmix=V * inverse[:, None, :],
        rank=alive.sum(axis=1),
        effective=((S * inverse) ** 2).sum(axis=1),
        principal=found,
    )


def _by_svd(X: NDArray, unit: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Standard deviations, directions and scores of the neighborhoods divided by ``unit``."""
    X = X - X[:, :1]  # a constant channel is exactly zero then; less its mean alone, it could be rounding of full rank
    U, S, Vt = np.linalg.svd((X - X.mean(axis=1, keepdims=True)) / unit, full_matrices=False)
    return S, Vt.mT, U * S[:, None, :]


@dataclass(frozen=True)
class LocalMetric:
    r"""The local metric of every view at each of m landmarks, as factors: :math:`A = F F^T` is never formed."""

    factors: list[NDArray]  # one (m, d_v, r) per view
    correlations: NDArray  # (m, r), between 0 and 1, falling
    ranks: NDArray  # (m, K) rank of each view's neighborhood
    effective: NDArray  # (m, K) rank as far as the ridge leaves it
    principal: Sequence[Leading] | None = None  # each view's neighborhoods along their principal directions, if known

    @classmethod
    def of(cls, white: Sequence[Whitened], factors: list[NDArray], correlations: NDArray) -> Self:
        """With the ranks of the whitened views."""
        ranks, effective = (np.stack([getattr(w, name) for w in white], axis=1) for name in ("rank", "effective"))
        known = [w.principal for w in white if w.principal is not None]
        return cls(factors, correlations, ranks, effective, known if len(known) == len(white) else None)


def local_cca(X: NDArray, Y: NDArray, *, ridge: float) -> tuple[NDArray, NDArray, NDArray]:
    r"""Canonical directions of two views in the neighborhood of each landmark.

    The eigenproblem :math:`\Sigma_{xx}^{-1}\Sigma_{xy}\Sigma_{yy}^{-1}\Sigma_{yx}\, p = \rho^2 p` of Section III,
    solved as the SVD of the whitened cross-covariance.

    From X (m, k, d_x) and Y (m, k, d_y), the same k moments around each of m landmarks, and the ``ridge`` of `whiten`:
    P_x (m, d_x, r) and P_y (m, d_y, r), scaled to unit (regularised) variance, with r = min(k, d_x, d_y), and the
    canonical correlations ρ (m, r), falling.
    """
    return _canonical(whiten(X, ridge=ridge), whiten(Y, ridge=ridge))


def cca_metric(X: NDArray, Y: NDArray, *, ridge: float) -> LocalMetric:
    r"""The paper's local metric :math:`A = P \Lambda P^T` of both views, with :math:`F = P\,\mathrm{diag}(\rho)`."""
    wx, wy = whiten(X, ridge=ridge), whiten(Y, ridge=ridge)
    P_x, P_y, rho = _canonical(wx, wy)
    return LocalMetric.of([wx, wy], [P_x * rho[:, None, :], P_y * rho[:, None, :]], rho)


def maxvar_metric(views: Sequence[NDArray], *, ridge: float, rank: int | None = None) -> LocalMetric:
    r"""Local metric of each of K views from what all of them share.

    With the whitened neighborhoods of the views side by side, the eigenvalues w of their correlation matrix (whose
    diagonal blocks are identities) lie in [0, K]; w near K means "common to all". The factor of view v is
    :math:`F_v = \sqrt{K}\, P_v \,\mathrm{diag}((w-1)/(K-1))` with the components that have w > 1. For K = 2 this is
    local CCA: w = 1 + ρ.

    ``views`` are K arrays (m, k, d_v), the same k moments around each of m landmarks; the ``ridge`` is as in `whiten`.
    There are r components, those of the largest w: all that more than one view can hold, the sum of the views'
    min(k, d_v) less the largest, or ``rank`` if that is less.
    """
    white = [whiten(X, ridge=ridge) for X in views]
    K, sizes = len(white), [w.scores.shape[2] for w in white]
    edges = np.cumsum([0, *sizes])
    Z = np.concatenate([w.scores for w in white], axis=2)
    R = np.swapaxes(Z, 1, 2) @ Z
    for first, last in pairwise(edges):
        R[:, first:last, first:last] = np.eye(last - first, dtype=Z.dtype)
    w, V = np.linalg.eigh(R)
    r = min(sum(sizes) - max(sizes), rank or sum(sizes))
    w, V = w[:, ::-1][:, :r], V[:, :, ::-1][:, :, :r]
    correlations = np.clip((w - 1) / (K - 1), 0, 1)
    weighted = V * (np.sqrt(K) * correlations)[:, None, :].astype(Z.dtype)
    parts = zip(white, pairwise(edges), strict=True)
    return LocalMetric.of(white, [w.unmix @ weighted[:, first:last] for w, (first, last) in parts], correlations)


def mahalanobis_metric(X: NDArray, *, ridge: float) -> LocalMetric:
    r"""The metric of a single view, :math:`A = \Sigma_{xx}^{-1}` (Proposition 4)."""
    w = whiten(X, ridge=ridge)
    alive = np.arange(w.unmix.shape[2]) < w.rank[:, None]
    return LocalMetric.of([w], [w.unmix], alive.astype(X.dtype))


def _canonical(wx: Whitened, wy: Whitened) -> tuple[NDArray, NDArray, NDArray]:
    U, rho, Vt = np.linalg.svd(np.swapaxes(wx.scores, 1, 2) @ wy.scores, full_matrices=False)
    return wx.unmix @ U, wy.unmix @ np.swapaxes(Vt, 1, 2), np.clip(rho, 0, 1)

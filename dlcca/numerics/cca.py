"""Local canonical correlation analysis of two views, and the metric of one view alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.whitening import Whitened, whiten


@dataclass(frozen=True)
class LocalMetric:
    r"""The local metric of every view at each of m landmarks, as factors: :math:`A = F F^T` is never formed."""

    factors: list[NDArray]  # one (m, d_v, r) per view
    correlations: NDArray  # (m, r), between 0 and 1, falling
    ranks: NDArray  # (m, K) rank of each view's neighborhood
    effective: NDArray  # (m, K) rank as far as the ridge leaves it


def local_cca(X: NDArray, Y: NDArray, *, ridge: float) -> tuple[NDArray, NDArray, NDArray]:
    r"""Canonical directions of two views in the neighborhood of each landmark.

    The eigenproblem :math:`\Sigma_{xx}^{-1}\Sigma_{xy}\Sigma_{yy}^{-1}\Sigma_{yx}\, p = \rho^2 p` of Section III,
    solved as the SVD of the whitened cross-covariance.

    Parameters
    ----------
    X, Y : (m, k, d_x) and (m, k, d_y)
        The same k moments around each of m landmarks in both views.
    ridge : share of the top local variance added to each covariance

    Returns
    -------
    P_x, P_y : (m, d_x, r) and (m, d_y, r), scaled to unit (regularised) variance; r = min(k, d_x, d_y)
    rho : (m, r) canonical correlations, falling
    """
    return _canonical(whiten(X, ridge=ridge), whiten(Y, ridge=ridge))


def cca_metric(X: NDArray, Y: NDArray, *, ridge: float) -> LocalMetric:
    r"""The paper's local metric :math:`A = P \Lambda P^T` of both views, with :math:`F = P\,\mathrm{diag}(\rho)`."""
    wx, wy = whiten(X, ridge=ridge), whiten(Y, ridge=ridge)
    P_x, P_y, rho = _canonical(wx, wy)
    return LocalMetric(
        factors=[P_x * rho[:, None, :], P_y * rho[:, None, :]],
        correlations=rho,
        ranks=np.stack([wx.rank, wy.rank], axis=1),
        effective=np.stack([wx.effective, wy.effective], axis=1),
    )


def mahalanobis_metric(X: NDArray, *, ridge: float) -> LocalMetric:
    r"""The metric of a single view, :math:`A = \Sigma_{xx}^{-1}` (Proposition 4)."""
    w = whiten(X, ridge=ridge)
    alive = np.arange(w.unmix.shape[2]) < w.rank[:, None]
    return LocalMetric([w.unmix], alive.astype(X.dtype), w.rank[:, None], w.effective[:, None])


def _canonical(wx: Whitened, wy: Whitened) -> tuple[NDArray, NDArray, NDArray]:
    U, rho, Vt = np.linalg.svd(np.swapaxes(wx.scores, 1, 2) @ wy.scores, full_matrices=False)
    return wx.unmix @ U, wy.unmix @ np.swapaxes(Vt, 1, 2), np.clip(rho, 0, 1)

"""Whitened neighborhoods: the step that every local metric starts from.

All functions are batched: the first axis runs over m landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Directions whose standard deviation is below this share of the largest are rounding, not data.
RANK_TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-7}


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


def whiten(X: NDArray, *, ridge: float) -> Whitened:
    """Whiten the neighborhoods of one view by thin SVDs; d x d covariances are never formed.

    Parameters
    ----------
    X : (m, k, d) the k neighbours of each of m landmarks
    ridge : added to the covariance, as a share of its largest eigenvalue

    Returns
    -------
    Whitened, with p = min(k, d); directions without extent are zero
    """
    k = X.shape[1]
    X = X - X[:, :1]  # a constant channel is exactly zero then; less its mean alone, it could be rounding of full rank
    X = (X - X.mean(axis=1, keepdims=True)) / np.asarray(np.sqrt(k - 1), X.dtype)
    U, S, Vt = np.linalg.svd(X, full_matrices=False)
    top = S[:, :1]
    alive = (S > RANK_TOLERANCE[X.dtype] * top) & (top > np.sqrt(np.finfo(X.dtype).tiny))  # smaller squares are 0
    scale = np.sqrt(S**2 + np.asarray(ridge, X.dtype) * top**2)
    inverse = np.divide(1, scale, out=np.zeros_like(S), where=alive)
    shrunk = S * inverse
    return Whitened(
        scores=U * shrunk[:, None, :],
        unmix=np.swapaxes(Vt, 1, 2) * inverse[:, None, :],
        rank=alive.sum(axis=1),
        effective=(shrunk**2).sum(axis=1),
    )

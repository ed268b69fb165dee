"""Covariance features: how the channels of a window go together, in coordinates in which straight lines make sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Covariances:
    r"""The matrix logarithm of the covariance of the channels in a window (log-Euclidean coordinates).

    With :math:`C` the covariance (c, c) of the window and :math:`\rho` the ridge, the features are the upper triangle
    of :math:`\log(C + \rho \frac{\mathrm{tr}\, C}{c} I)`, entries off the diagonal times :math:`\sqrt 2`, so that the
    Euclidean distance of two rows is the Frobenius distance of the logarithms.
    """

    ridge: float = 1e-3

    def draft(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, c (c + 1) / 2): the upper triangle of C; the logarithm is left to `finished`."""
        X = X if X.dtype.kind == "f" else X.astype(np.float32)
        X = X - X.mean(axis=1, keepdims=True)
        C = np.matmul(X.transpose(0, 2, 1), X) / np.asarray(X.shape[1], X.dtype)
        i, j = np.triu_indices(X.shape[2])
        return C[:, i, j] if gain is None else C[:, i, j] * (gain[i] * gain[j]).astype(C.dtype)

    def finished(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray:
        """(w, c (c + 1) / 2): the upper triangle of C in, the features out."""
        c = len(scale)
        i, j = np.triu_indices(c)
        C = np.empty((len(F), c, c))
        C[:, i, j] = C[:, j, i] = F / (scale[i] * scale[j])
        lam, V = np.linalg.eigh(C)
        total = lam.sum(axis=1, keepdims=True) / c
        lam = np.log(np.maximum(np.maximum(lam, 0) + self.ridge * total, 1e-12))
        L = np.matmul(V * lam[:, None, :], V.transpose(0, 2, 1))
        return (L[:, i, j] * np.where(i == j, 1.0, np.sqrt(2))).astype(F.dtype)

    def columns(self, center: NDArray, scale: NDArray) -> None:
        """None: a logarithm of a matrix mixes all of its columns."""

    def width(self, channels: int) -> int:
        return channels * (channels + 1) // 2

    def names(self, channels: Sequence[str]) -> list[str]:
        pairs = [(a, b) for a in range(len(channels)) for b in range(a, len(channels))]
        return [f"log covariance of {channels[a]} and {channels[b]}" for a, b in pairs]

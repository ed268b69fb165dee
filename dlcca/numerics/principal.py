"""Principal directions of neighborhoods, batched: the first axis runs over m landmarks."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Leading:
    """One view's neighborhoods along their principal directions."""

    scores: Floats  # (m, k, p) the centred samples along the leading p; directions without extent are zero
    variances: Floats  # (m, min(k, d)) along all of them, falling

    def first(self, most: int) -> Self:
        """With the scores of the leading few alone."""
        return replace(self, scores=self.scores[:, :, :most])


def leading(X: NDArray, most: int) -> Leading:
    """The principal directions of each neighborhood (m, k, d), with scores along the leading ``most``."""
    return _decomposed(_centred(X), most)[0]


def principal(X: NDArray) -> tuple[Leading, Floats]:
    """The same for all directions, with the directions (m, d, p) of unit length; zero for those without extent."""
    X = _centred(X)
    found, V = _decomposed(X, max(X.shape[1:]))
    if V is None:  # X = scores Vᵀ
        squares = (found.variances * (X.shape[1] - 1))[:, None]
        V = np.divide(np.swapaxes(X, 1, 2) @ found.scores, squares, out=np.zeros_like(X.mT), where=squares > 0)
    return found, V


def _centred(X: NDArray) -> Floats:
    X = np.asarray(X, np.float64) - X[:, :1]  # exactly zero for a constant channel
    X -= X.mean(axis=1, keepdims=True)
    return X


def _decomposed(X: Floats, most: int) -> tuple[Leading, Floats | None]:
    """From the smaller of the two Gram matrices, in which variances are exact to 1e-16 of the largest one.

    The directions are given if they were found on the way.
    """
    k, d = X.shape[1:]
    p = min(most, k, d)
    if d <= k:
        lam, V = np.linalg.eigh(X.mT @ X)
        V = V[:, :, : -p - 1 : -1]
        return Leading(X @ V, np.maximum(lam[:, ::-1], 0) / (k - 1)), V
    lam, U = np.linalg.eigh(X @ X.mT)
    scores = U[:, :, : -p - 1 : -1] * np.sqrt(np.maximum(lam[:, None, : -p - 1 : -1], 0))
    return Leading(scores, np.maximum(lam[:, ::-1], 0) / (k - 1)), None

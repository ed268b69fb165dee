"""Neighborhoods in the joint space: samples that are near a landmark in every view at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def spread(X: NDArray) -> float:
    """Root of the total variance of a view: the unit in which its distances are measured."""
    return float(np.sqrt(np.var(X, axis=0, dtype=np.float64).sum()))


def joint_space(views: Sequence[NDArray]) -> list[NDArray]:
    """Each view centred and divided by its spread, so that no view counts for more because of its unit."""
    return [(X - X.mean(axis=0, dtype=np.float64)) / (spread(X) or 1.0) for X in views]


def squared_distances(X: NDArray, Y: NDArray) -> NDArray[np.float64]:
    """Squared Euclidean distances (n, m) between the rows of X (n, d) and of Y (m, d), never negative."""
    X, Y = np.asarray(X, np.float64), np.asarray(Y, np.float64)
    X, Y = X - Y[0], Y - Y[0]  # squares of an offset far above the spread would leave no digits for the difference
    D = (X**2).sum(axis=1)[:, None] - 2 * X @ Y.T
    D += (Y**2).sum(axis=1)
    return np.maximum(D, 0, out=D)


def smallest(D: NDArray, k: int) -> Rows:
    """Columns of the k smallest entries of each row of D, nearest first; ties go to the lower column."""
    if k >= D.shape[1]:
        return np.argsort(D, axis=1, kind="stable")
    # argpartition breaks ties anyhow it likes: the k-th value bounds the candidates, a stable order decides.
    bound = np.partition(D, k - 1, axis=1)[:, k - 1, None]
    inside = np.flatnonzero(D <= bound)
    if inside.size == len(D) * k:  # nothing beyond the k-th is equal to it
        columns = inside.reshape(len(D), k) % D.shape[1]
    else:
        columns = _first_of_tied(D, bound, k)
    order = np.argsort(np.take_along_axis(D, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def _first_of_tied(D: NDArray, bound: NDArray, k: int) -> Rows:
    """Columns of the entries below the bound, and of as many equal to it, the first ones, as make k."""
    inside = D < bound
    tied = D == bound
    room = k - inside.sum(axis=1, keepdims=True)
    keep = inside | (tied & (np.cumsum(tied, axis=1) <= room))
    return np.nonzero(keep)[1].reshape(len(D), k)


def joint_neighbors(
    views: Sequence[NDArray], landmarks: Rows, k: int, *, combine: str = "max", block: int = 256
) -> Rows:
    """The k samples nearest to each landmark in the joint space, itself included.

    Each view is divided by its spread; the distance of two samples is the largest (``"max"``) or the root of the
    sum of squares (``"l2"``) of their distances in the views.

    Parameters
    ----------
    views : K arrays (n, d_v)
    landmarks : (m,) row numbers
    k : neighbours, at most n
    block : landmarks handled at a time; bounds the memory, never changes the result

    Returns
    -------
    rows : (m, k), nearest first
    """
    scaled = joint_space(views)
    found = []
    for first in range(0, len(landmarks), block):
        some = landmarks[first : first + block]
        D = [squared_distances(X[some], X) for X in scaled]
        found.append(smallest(np.maximum.reduce(D) if combine == "max" else np.add.reduce(D), k))
    return np.concatenate(found)

"""What is the matter with coordinates: which are functions of others, and which are of a few rows only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.neighborhoods import smallest, squared_distances
from dlcca.trust.scores import at_unit_variance

#: Rows that are looked at, at most, and the neighbours that a local regression takes for each of its unknowns.
MOST_ROWS, NEIGHBORS_PER_UNKNOWN = 1000, 8
#: A coordinate of which local regression leaves less than this share of the variance is a function of the others.
FUNCTION_BELOW = 0.25
#: A coordinate of which fewer than this share of the rows carry half is of outliers.
FEWEST_CARRIERS = 0.01


def residual(E: NDArray, e: NDArray) -> float:
    r"""The share of a coordinate's variance that is no function of others: near 0 for a harmonic of them.

    :math:`\sum_i (e_i - \hat e_i)^2 / \sum_i (e_i - \bar e)^2`, where :math:`\hat e_i` is the value at i of a linear
    function fitted to the samples nearest to i, without i itself.

    Parameters
    ----------
    E : (n, p) the other coordinates
    e : (n,) the coordinate
    """
    e = e - e.mean()
    n, p = E.shape
    count = min(n - 1, NEIGHBORS_PER_UNKNOWN * (p + 1))
    if p == 0 or count <= p + 1 or not e.any():
        return 1.0
    X = at_unit_variance(E)
    D = squared_distances(X, X)
    np.fill_diagonal(D, np.inf)
    near = smallest(D, count)
    local = np.concatenate([np.ones((n, count, 1)), X[near] - X[:, None]], axis=2)
    normal = np.swapaxes(local, 1, 2) @ local
    # A touch of ridge: neighbours along a curve do not determine a plane.
    normal += 1e-6 * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(p + 1)
    fitted = np.linalg.solve(normal, np.einsum("nkp,nk->np", local, e[near])[:, :, None])[:, 0, 0]
    return float(((e - fitted) ** 2).sum() / (e**2).sum())


def independent(E: NDArray, worth: NDArray[np.bool_] | None = None) -> list[int]:
    """The coordinates of E (n, q) that are no functions of the independent ones before them.

    ``worth`` (q,) says which are looked at; all by default.
    """
    some = np.asarray(E[:: -(-len(E) // MOST_ROWS)], np.float64)
    kept: list[int] = []
    for c in range(E.shape[1]) if worth is None else np.flatnonzero(worth):
        if residual(some[:, kept], some[:, c]) >= FUNCTION_BELOW:
            kept.append(int(c))
    return kept


def carriers(E: NDArray) -> NDArray[np.float64]:
    """For each coordinate of E (n, q), the share of the rows that carry half of its variance; 0.13 if it is normal."""
    squares = -np.sort(-((E - E.mean(axis=0)) ** 2), axis=0)
    carried = np.cumsum(squares, axis=0)
    return (1 + (carried < carried[-1] / 2).sum(axis=0)) / len(E)


def told_by(E: NDArray, other: NDArray) -> NDArray[np.float64]:
    """R² (q,) of each coordinate of E (n, q) as a linear function of others (n, p), which may turn and stretch them."""
    A = np.column_stack([np.ones(len(other)), other])
    E = np.asarray(E, np.float64)
    rest = E - A @ np.linalg.lstsq(A, E, rcond=None)[0]
    total = ((E - E.mean(axis=0)) ** 2).sum(axis=0)
    return 1 - (rest**2).sum(axis=0) / np.where(total > 0, total, 1)

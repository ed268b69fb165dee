"""Which coordinates are returned: the slowest, without harmonics of a single other one and without outliers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.distances import squared_distances
from dlcca.numerics.topk import smallest
from dlcca.trust.scores import at_unit_variance

#: Coordinates that are computed beyond the requested number, as replacements.
SPARE = 2
#: A coordinate with a smaller `residual` given one other is a harmonic of it.
HARMONIC_BELOW = 0.05
#: A coordinate with a smaller `residual` given several others is a function of them.
FUNCTION_BELOW = 0.25
#: A spare coordinate replaces a harmonic only if it decays at most so many times as fast.
MUCH_FASTER = 2.0
#: Rows that are used to select coordinates, and to find which are independent.
ROWS, MOST_ROWS = 500, 1000
#: Neighbours of a local regression for each of its unknowns.
NEIGHBORS_PER_UNKNOWN = 8
#: If half of a coordinate's variance is in a smaller share of the rows than this, these rows are outliers.
FEWEST_CARRIERS = 0.01


@dataclass(frozen=True)
class Chosen:
    """Selected coordinates."""

    columns: list[int]  # their numbers, rising
    outliers: int  # slower coordinates that were left out because they are dominated by outliers


def select_coordinates(E: NDArray, eigenvalues: NDArray, q: int, *, pieces_above: float = 1.0) -> Chosen:
    r"""Select q coordinates.

    On a circle with uneven sampling, :math:`\cos 2\varphi` may decay more slowly than :math:`\sin\varphi`. Then the
    leading two coordinates are :math:`\cos\varphi` and a function of it, and the third one, which completes the circle,
    replaces the function. A coordinate dominated by outliers is replaced too.

    E (m, p) are the leading coordinates of some rows, p >= q, with their ``eigenvalues`` (p,), falling, at most 1. A
    coordinate with one above ``pieces_above`` separates connected components, and is always selected.
    """
    some = np.asarray(E[:: -(-len(E) // ROWS)], np.float64)
    chosen, decay, outlier = list(range(q)), 1 - eigenvalues, carriers(E) < FEWEST_CARRIERS
    replaceable = eigenvalues <= pieces_above
    for spare in range(q, E.shape[1]):
        if outlier[spare] or _harmonic_of(some, spare):
            continue
        outliers = [c for c in chosen if outlier[c] and replaceable[c]]
        slow_enough = [c for c in chosen if replaceable[c] and decay[spare] <= MUCH_FASTER * decay[c]]
        harmonics = [] if outliers else [c for c in slow_enough if _completes_circle(some, spare, c)]
        if outliers or harmonics:
            chosen.remove((outliers or harmonics)[-1])
            chosen.append(spare)
    return Chosen(sorted(chosen), sum(bool(outlier[c]) for c in range(q) if c not in chosen))


def _harmonic_of(E: NDArray, c: int) -> list[int]:
    """The coordinates before c of each of which alone c is a function."""
    return [a for a in range(c) if residual(E[:, [a]], E[:, c]) < HARMONIC_BELOW]


def _completes_circle(E: NDArray, spare: int, c: int) -> bool:
    """Whether c is a harmonic of a coordinate that determines the spare one up to its sign."""
    size = (E[:, spare] - E[:, spare].mean()) ** 2
    return any(residual(E[:, [a]], size) < FUNCTION_BELOW for a in _harmonic_of(E, c))


def residual(E: NDArray, e: NDArray) -> float:
    r"""The share of a coordinate's variance that is no function of others: near 0 for a harmonic of them.

    :math:`\sum_i (e_i - \hat e_i)^2 / \sum_i (e_i - \bar e)^2`, where :math:`\hat e_i` is the value at i of a linear
    function of the other coordinates E (n, p), fitted to the samples nearest to i, without i itself.
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
    # A small ridge: neighbours along a curve do not determine a plane.
    normal += 1e-6 * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(p + 1)
    fitted = np.linalg.solve(normal, np.einsum("nkp,nk->np", local, e[near])[:, :, None])[:, 0, 0]
    return float(((e - fitted) ** 2).sum() / (e**2).sum())


def independent(E: NDArray, worth: NDArray[np.bool_] | None = None) -> list[int]:
    """The coordinates of E (n, q) that are not functions of the independent ones before them.

    ``worth`` (q,) selects the coordinates that are tried; all by default.
    """
    some = np.asarray(E[:: -(-len(E) // MOST_ROWS)], np.float64)
    kept: list[int] = []
    for c in range(E.shape[1]) if worth is None else np.flatnonzero(worth):
        if residual(some[:, kept], some[:, c]) >= FUNCTION_BELOW:
            kept.append(int(c))
    return kept


def carriers(E: NDArray) -> NDArray[np.float64]:
    """The share of the rows that hold half of the variance of each coordinate of E (n, q); 0.13 if it is normal."""
    squares = -np.sort(-((E - E.mean(axis=0)) ** 2), axis=0)
    total = np.cumsum(squares, axis=0)
    return (1 + (total < total[-1] / 2).sum(axis=0)) / len(E)

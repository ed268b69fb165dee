"""How far a row lies from all landmarks, and how far the rows of the fit did: what a model has seen, and what not.

Distances are plain ones. The local metrics forget on purpose what is private to a view, so that a row unlike any that
was seen may be near a landmark under its metric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.neighborhoods import squared_distances

#: Share of the rows of the fit that lie within the reach of the landmarks.
SHARE = 0.999
#: The least reach, as a share of the landmarks' spread: copies of a landmark differ from it by rounding.
ROUNDING = 1e-6
#: Distances held at once.
TILE_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Away:
    """Rows of the fit among its landmarks: those fewer than ``apart`` rows away do not count.

    The least, 1, leaves out the landmark that a row is itself. Rows that follow each other in time are alike; new rows
    have no such landmarks beside them, so that with windows of time it is the window that is left out.
    """

    rows: NDArray[np.int64]  # (n,) row numbers
    landmarks: NDArray[np.int64]  # (m,) row numbers
    apart: int = 1

    def too_near(self, first: int, last: int) -> NDArray[np.bool_]:
        """Of some of the rows, (b, m): whether a landmark does not count."""
        return np.abs(self.rows[first:last, None] - self.landmarks) < self.apart


def nearest_distances(X: NDArray, X_L: NDArray, away: Away | None = None) -> NDArray[np.float64]:
    r"""Distance of each row to the nearest landmark, :math:`\min_i |x_j - x_i|`.

    Parameters
    ----------
    X : (n, d) rows
    X_L : (m, d) landmarks
    away : which landmarks do not count, for rows of the fit; None if all count

    Returns
    -------
    distances : (n,), infinite where no landmark counts
    """
    found = np.empty(len(X))
    tile = max(1, TILE_ENTRIES // len(X_L))
    for first in range(0, len(X), tile):
        D = squared_distances(X[first : first + tile], X_L)
        if away is not None:
            D[away.too_near(first, first + tile)] = np.inf
        found[first : first + tile] = D.min(axis=1)
    return np.sqrt(found)


def reach(distances: NDArray, X_L: NDArray) -> float:
    """How far the rows of the fit lie from the landmarks: the 99.9 % quantile of their nearest distances.

    Parameters
    ----------
    distances : (n,) from `nearest_distances`; what is not finite is left out
    X_L : (m, d) landmarks
    """
    known = distances[np.isfinite(distances)]
    spread = float(np.sqrt(np.var(X_L, axis=0, dtype=np.float64).sum()))
    return max(float(np.quantile(known, SHARE)) if known.size else 0.0, ROUNDING * spread)


def cover(views: list[NDArray], reaches: list[float], nearest: NDArray, most: int) -> NDArray[np.int64]:
    """Rows that bring all others within the reach of a landmark, the farthest first.

    Parameters
    ----------
    views : K arrays (n, d_v)
    reaches : K
    nearest : (n,) the rows' distance to the landmarks there are, the largest over the views, in units of the reach
    most : rows taken at most

    Returns
    -------
    rows : (a,), a <= most
    """
    left = np.array(nearest, dtype=np.float64)
    taken: list[int] = []
    while len(taken) < most and left.max(initial=0.0) > 1:
        row = int(np.argmax(left))
        taken.append(row)
        here = [np.sqrt(((X - X[row]) ** 2).sum(axis=1)) / unit for X, unit in zip(views, reaches, strict=True)]
        left = np.minimum(left, np.maximum.reduce(here))
    return np.array(taken, dtype=np.int64)

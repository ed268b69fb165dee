"""Landmarks: which samples become one, and how far the samples lie from them.

A local metric is fitted at each landmark. What a model has seen lies within the coverage radius of its landmarks.
Distances are plain ones here: the local metrics ignore what is private to a view, and a row unlike any that was seen
may be near a landmark under its metric.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.distances import squared_distances

Rows = NDArray[np.int64]

#: Rows among which spread-out landmarks are sought: a search over all of a long recording would find no better ones.
CANDIDATES = 20_000
#: Gaps that are held at once.
BATCH_ENTRIES = 1 << 20
#: Share of the rows of the fit that lie within the coverage radius.
SHARE = 0.999
#: The least coverage radius, as a share of the landmarks' spread: copies of a landmark differ from it by rounding.
ROUNDING = 1e-6
#: Distances held at once.
TILE_ENTRIES = 1 << 20


def evenly(n: int, m: int) -> Rows:
    """``m`` rows in the middle of ``m`` equal stretches of the recording."""
    return ((np.arange(m) + 0.5) * n / m).astype(np.int64)


def at_random(n: int, m: int, rng: np.random.Generator) -> Rows:
    """``m`` different rows, each equally likely, in rising order."""
    return np.sort(rng.choice(n, size=m, replace=False)).astype(np.int64)


def candidates(n: int, m: int, rng: np.random.Generator) -> Rows:
    """The rows among which ``m`` spread-out landmarks are sought: all of them, or a random part of many."""
    most = max(CANDIDATES, 10 * m)
    return np.arange(n) if n <= most else at_random(n, most, rng)


def farthest_points(X: NDArray, m: int, start: int) -> Rows:
    """Greedy cover: each new landmark is the sample farthest from those chosen before.

    It reaches every corner of the data, noise included; `kmeans_plus_plus` follows the density instead. Of samples
    X (n, d), the row ``start`` is the first. Rows (m,) in order of choice; fewer when the data holds fewer distinct
    samples.
    """
    space = _Space(X, start)
    chosen, gap = [start], space.gaps([start])[:, 0]
    while len(chosen) < m and gap.any():
        chosen.append(int(np.argmax(gap)))
        np.minimum(gap, space.gaps(chosen[-1:])[:, 0], out=gap)
    return np.array(chosen, dtype=np.int64)


def kmeans_plus_plus(X: NDArray, m: int, rng: np.random.Generator) -> Rows:
    """Spread-out landmarks: each is drawn with probability proportional to its squared gap to the others.

    Several are drawn at a time, so that their gaps are one matrix product. One drawn by a gap since narrowed by
    another of its batch is then kept only with the probability by which it narrowed: the same law as one at a time.

    Parameters and result as in `farthest_points`.
    """
    space = _Space(X, int(rng.integers(len(X))))
    chosen, gap = [space.start], space.gaps([space.start])[:, 0]
    most = max(1, BATCH_ENTRIES // len(X))
    while len(chosen) < m and gap.any():
        upto = np.cumsum(gap)
        batch = int(np.clip(len(chosen) // 4, 1, min(most, m - len(chosen))))
        drawn = np.searchsorted(upto, rng.random(batch) * upto[-1], side="right").clip(max=np.flatnonzero(gap)[-1])
        new = space.gaps(drawn)
        kept: list[int] = []
        for at, row in enumerate(drawn):
            narrowed = min(gap[row], new[row, kept].min(initial=np.inf))
            if narrowed > rng.random() * gap[row]:
                kept.append(at)
        np.minimum(gap, new[:, kept].min(axis=1, initial=np.inf), out=gap)
        chosen += drawn[kept].tolist()
    return np.array(chosen, dtype=np.int64)


class _Space:
    """Samples (n, d), for their squared gaps to some of them."""

    def __init__(self, X: NDArray, start: int) -> None:
        X = np.asarray(X, dtype=np.float64)
        self.start = start
        self.X = X - X[start]  # keeps digits; and not the mean, which would blur exact ties
        self.lengths = np.einsum("nd,nd->n", self.X, self.X)
        self.rounding = 1e-13 * self.lengths.max()

    def gaps(self, rows: Any) -> NDArray:
        """|x|² - 2 x·c + |c|² of every sample x and some of them c, (n, len(rows)): one pass over X."""
        new = self.X @ (-2 * self.X[rows].T)
        new += self.lengths[:, None]
        new += self.lengths[rows]
        new[new < self.rounding] = 0  # below rounding it is a duplicate, at distance 0
        return new


def nearest_distances(
    X: NDArray, X_L: NDArray, numbers: tuple[Rows, Rows] | None = None, apart: int = 1
) -> NDArray[np.float64]:
    r"""Distance (n,) of each row X (n, d) to the nearest landmark X_L (m, d), :math:`\min_i |x_j - x_i|`.

    Of rows of the fit, with the row ``numbers`` (n,) and (m,) of both, landmarks fewer than ``apart`` rows away do not
    count; the least, 1, excludes the landmark that a row is itself. Rows that follow each other in time are alike, and
    new rows have no such landmarks beside them, so that with windows of time the width of the window is excluded. Where
    no landmark counts the distance is infinite.
    """
    found = np.empty(len(X))
    tile = max(1, TILE_ENTRIES // len(X_L))
    for first in range(0, len(X), tile):
        D = squared_distances(X[first : first + tile], X_L)
        if numbers is not None:
            D[np.abs(numbers[0][first : first + tile, None] - numbers[1]) < apart] = np.inf
        found[first : first + tile] = D.min(axis=1)
    return np.sqrt(found)


def coverage_radius(distances: NDArray, X_L: NDArray) -> float:
    """How far the rows of the fit lie from the landmarks X_L (m, d): the 99.9 % quantile of their `nearest_distances`.

    What is not finite of the distances (n,) is left out.
    """
    known = distances[np.isfinite(distances)]
    spread = float(np.sqrt(np.var(X_L, axis=0, dtype=np.float64).sum()))
    return max(float(np.quantile(known, SHARE)) if known.size else 0.0, ROUNDING * spread)


def cover(views: list[NDArray], radii: list[float], nearest: NDArray, most: int) -> NDArray[np.int64]:
    """At most so many rows that bring all others within the coverage radius of a landmark, the farthest first.

    ``views`` are K arrays (n, d_v) with their K radii; ``nearest`` (n,) is the rows' distance to the landmarks there
    are, the largest over the views, in units of the radius.
    """
    left = np.array(nearest, dtype=np.float64)
    taken: list[int] = []
    while len(taken) < most and left.max(initial=0.0) > 1:
        row = int(np.argmax(left))
        taken.append(row)
        here = [np.sqrt(((X - X[row]) ** 2).sum(axis=1)) / unit for X, unit in zip(views, radii, strict=True)]
        left = np.minimum(left, np.maximum.reduce(here))
    return np.array(taken, dtype=np.int64)

"""Which samples become landmarks: the rows at which a local metric is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def evenly(n: int, m: int) -> Rows:
    """``m`` rows in the middle of ``m`` equal stretches of the recording."""
    return ((np.arange(m) + 0.5) * n / m).astype(np.int64)


def at_random(n: int, m: int, rng: np.random.Generator) -> Rows:
    """``m`` different rows, each equally likely, in rising order."""
    return np.sort(rng.choice(n, size=m, replace=False)).astype(np.int64)


#: Rows among which spread-out landmarks are sought: a search over all of a long recording would find no better ones.
CANDIDATES = 20_000
#: Gaps that are held at once.
BATCH_ENTRIES = 1 << 20


def candidates(n: int, m: int, rng: np.random.Generator) -> Rows:
    """The rows among which ``m`` spread-out landmarks are sought: all of them, or a random part of many."""
    most = max(CANDIDATES, 10 * m)
    return np.arange(n) if n <= most else at_random(n, most, rng)


def farthest_points(X: NDArray, m: int, start: int) -> Rows:
    """Greedy cover: each new landmark is the sample farthest from those chosen before.

    It reaches every corner of the data, noise included; `kmeans_plus_plus` follows the density instead.

    Parameters
    ----------
    X : (n, d) samples
    m : landmarks wanted
    start : row of the first one

    Returns
    -------
    rows : (m,) in order of choice; fewer when the data holds fewer distinct samples
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
    """Samples (n, d), as far as their squared gaps to some of them are asked for."""

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

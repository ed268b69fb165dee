"""Which samples become landmarks: the rows at which a local metric is fitted."""

from __future__ import annotations

from collections.abc import Callable

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
    return _greedy(X, m, start, pick=lambda gap: int(np.argmax(gap)))


def kmeans_plus_plus(X: NDArray, m: int, rng: np.random.Generator) -> Rows:
    """Spread-out landmarks: each is drawn with probability proportional to its squared gap to the others.

    Parameters and result as in `farthest_points`.
    """

    def draw(gap: NDArray) -> int:
        upto = np.cumsum(gap)
        return int(np.searchsorted(upto, rng.random() * upto[-1], side="right").clip(max=len(gap) - 1))

    return _greedy(X, m, int(rng.integers(len(X))), pick=draw)


def _greedy(X: NDArray, m: int, start: int, pick: Callable[[NDArray], int]) -> Rows:
    """Chosen rows, one at a time, by ``pick`` of the squared gap of every sample to the chosen ones."""
    X = np.asarray(X, dtype=np.float64)
    X = X - X[start]  # keeps digits; and not the mean, which would blur exact ties
    lengths = np.einsum("nd,nd->n", X, X)
    rounding = 1e-13 * lengths.max()
    chosen = [start]
    gap = np.full(len(X), np.inf)
    while True:
        row = chosen[-1]
        # |x|² - 2 x·c + |c|²: one pass over X. Below rounding it is a duplicate of a landmark, at distance 0.
        new = X @ (-2 * X[row])
        new += lengths
        new += lengths[row]
        new[new < rounding] = 0
        np.minimum(gap, new, out=gap)
        if len(chosen) == m or not gap.any():
            return np.array(chosen, dtype=np.int64)
        chosen.append(pick(gap))

r"""Views that repeat themselves for ever: where a shift in time leaves in common what was.

A shift by any time turns a steady oscillation by an angle. Two views that show the same oscillation still show the same
one afterwards, and shifted views are no example of views that share nothing. What tells related views from others is
then their speed: of unrelated ones no speed ratio, one among them, is better than another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dlcca.trust.components import leading
from dlcca.trust.surrogates import SURROGATES, Compared

#: A view that can be told this well (R²) a quarter of the recording ahead does not forget.
STEADY = 0.4
#: Rows that are looked at, at most, and the fewest that can tell.
MOST_ROWS, FEWEST_ROWS = 2048, 64
#: Oscillations slower than so many in a recording are drift: their speed is not known.
SLOWEST = 2.5
#: Leading components of a view, and the delays by which each is repeated, within an eighth of the recording.
COMPONENTS, FORECAST_DELAYS, DELAYS = 6, 24, 16
#: Speeds are changed by factors between these, up or down.
LEAST_CHANGE, MOST_CHANGE = 1.05, 1.35
#: Ridges of the forecast and of the canonical correlations.
FORECAST_RIDGE, RIDGE = 1e-3, 3e-3

Floats = NDArray[np.float64]


def rhythm(X: NDArray) -> Floats:
    """The leading components (n, p) of a view (n, d) without its drift, of an unbroken stretch in the middle."""
    from scipy.fft import dct, idct

    first = max(0, (len(X) - MOST_ROWS) // 2)
    X = np.asarray(X[first : first + MOST_ROWS], np.float64)
    cosines = dct(X, axis=0, norm="ortho")
    cosines[: int(2 * SLOWEST) + 1] = 0  # the j-th runs through j/2 periods
    return leading(idct(cosines, axis=0, norm="ortho")[None], COMPONENTS).scores[0]


def forecast(Z: Floats) -> float:
    r"""How well a rhythm (n, p) is told a quarter of the recording ahead: R² in the second half, learned in the first.

    A linear function of delayed values. It continues any sum of steady oscillations exactly and no noise, however
    smooth: an autoregressive process of a correlation time below the horizon has an R² of 0 or, as learned, less.
    """
    n = len(Z)
    if n < FEWEST_ROWS or not Z.any():
        return -np.inf
    ahead = n // 4
    H = delayed(Z, n // 8, FORECAST_DELAYS)
    before, after = H[:-ahead], Z[n - len(H) + ahead :]
    half = len(before) // 2
    U, s, Vt = np.linalg.svd(before[:half], full_matrices=False)
    guess = before[half:] @ (Vt.T * (s / (s**2 + FORECAST_RIDGE * s[0] ** 2)) @ (U.T @ after[:half]))
    total = float((after[half:] ** 2).sum())
    return 1 - float(((after[half:] - guess) ** 2).sum()) / total if total > 0 else -np.inf


def delayed(Z: Floats, span: int, count: int) -> Floats:
    """Values and their past, side by side: rows from ``span`` on, with ``count`` delays spread over the span."""
    delays = np.unique(np.linspace(0, span, min(count, span + 1)).astype(np.int64))
    return np.hstack([Z[span - delay : len(Z) - delay] for delay in delays])


def speed_test(rhythms: Sequence[Floats], *, count: int = SURROGATES) -> Compared:
    """Rhythms (n, p_v) of all views at their own speeds, against views slowed down or sped up against each other.

    The statistic is the mean of the two largest canonical correlations (an oscillation has a sine and a cosine) of the
    views with their past; of several pairs of views the least.
    """
    speeds = random_speeds(len(rhythms), count, np.random.default_rng(2))
    pairs = [_Pair(rhythms[u], rhythms[v], u, v) for u, v in combinations(range(len(rhythms)), 2)]
    found = np.array([min(pair.likeness(row[pair.v] / row[pair.u]) for pair in pairs) for row in speeds])
    return Compared(min(pair.likeness(1.0) for pair in pairs), found)


def random_speeds(K: int, count: int, rng: np.random.Generator) -> Floats:
    """Speeds (count, K), every two views of a row apart by a factor between `LEAST_CHANGE` and `MOST_CHANGE`."""
    least, most = np.log(LEAST_CHANGE), np.log(MOST_CHANGE)
    least = min(least, most / (2 * K))
    made = np.empty((count, K))
    for b in range(count):
        spare = np.sort(rng.uniform(0, most - (K - 1) * least, K))
        made[b] = rng.permutation(spare + least * np.arange(K))
    return np.exp(made)


class _Pair:
    """Views u and v, the first as it is and the second read at any speed: what no speed changes is made once."""

    def __init__(self, first: Floats, second: Floats, u: int, v: int) -> None:
        from scipy.interpolate import CubicSpline

        n = len(first)
        self.u, self.v, self.span = u, v, n // 8
        self.rows = int((n - 1) / MOST_CHANGE) + 1  # as many at every speed
        self.first = _white(delayed(first[: self.rows], self.span, DELAYS))
        self.second, self.between = second, CubicSpline(np.arange(n), second)

    def likeness(self, ratio: float) -> float:
        """The statistic with the second view so many times as fast, by cubic interpolation."""
        Z = self.second[: self.rows] if ratio == 1 else self.between(np.arange(self.rows) * ratio)
        B = _white(delayed(Z, self.span, DELAYS))
        return float(np.linalg.svd(self.first.T @ B, compute_uv=False)[:2].mean())


def _white(H: Floats) -> Floats:
    H = H - H.mean(axis=0)
    lam, V = np.linalg.eigh(H.T @ H)
    return H @ (V / np.sqrt(np.maximum(lam, 0) + RIDGE * lam[-1]))

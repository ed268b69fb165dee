r"""Whether views share anything at all, tested against surrogates: the same views shifted in time, or at other speeds.

A view that is shifted in time against the others is as smooth and as curved as before, but no longer aligned with
them, so that what shifted views share they share by chance. A shift only changes the phase of a steady oscillation:
views that share one share it still when they are shifted. Such views are compared with the same views at other speeds,
because no ratio of the speeds of unrelated oscillations is special, the ratio 1 neither.

Three views may share something two by two and nothing all together, so of three and more each in turn is tested against
what the *others* share.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.landmarks import evenly
from dlcca.numerics.neighbors import joint_space
from dlcca.numerics.principal import Floats, leading
from dlcca.numerics.windows import chosen, has_full_window, time_windows
from dlcca.settings.fit import Settings
from dlcca.trust.components import Basis, Tested, basis, effective_samples, first_step, n_directions
from dlcca.trust.scores import ridge_coefficients

#: Surrogates. Only a statistic above all of them is significant at 0.05: 1/39 = 0.026, and 2/39 = 0.051.
SURROGATES = 38
#: Neighborhoods that are tested: of nearest neighbours, which are searched again for every shift, and windows.
KNN_SAMPLES, WINDOW_SAMPLES = 64, 512
#: Rows among which nearest neighbours are searched, at most, and the contiguous segments that they are taken from.
MOST_ROWS, STRETCHES = 20_000, 8
#: Wider views are reduced to this number of principal components for the search.
MOST_CHANNELS = 24
#: Shifts that give the agreement of views by chance.
EDGE_SHIFTS = 6
#: Shifts are at least this share of the recording: after a small one the views are still nearly aligned.
LEAST_SHIFT = 0.05

#: A view whose forecast a quarter of the recording ahead has at least this R² is a steady oscillation.
STEADY = 0.4
#: Rows that are used for the forecast and the speed test, at most, and at least.
SPEED_ROWS, FEWEST_ROWS = 2048, 64
#: Oscillations with fewer periods in the recording are drift: their speed is not known.
SLOWEST = 2.5
#: Leading components of a view, and the numbers of delays of each, within an eighth of the recording.
COMPONENTS, FORECAST_DELAYS, DELAYS = 6, 24, 16
#: Ratios of the speeds of two views are between these, or between their inverses. The gap around 1 is about as wide as
#: that between two ratios, because unrelated views are called common if their best ratio is in it. The wider the
#: range, the more surrogates are independent; but at wider ones private speeds coincide.
LEAST_CHANGE, MOST_CHANGE = 1.015, 1.5
#: Ridges of the forecast and of the canonical correlations.
FORECAST_RIDGE, RIDGE = 1e-3, 3e-3

#: A view (n, d): an array, or an object that reads the requested rows.
Rows = Any
#: The bases of each of K views in its neighborhoods when view v is shifted by its entry of (K,) places.
Bases = Callable[[Sequence[int]], list[Basis]]


@dataclass(frozen=True)
class Compared:
    """The statistic of the views, and those of surrogates."""

    statistic: float
    surrogates: Floats  # (B,)
    samples: float = 0.0  # effective number of independent samples of a neighborhood; 0 if not known
    by_chance: float = 0.0  # mean of the largest squared correlation of surrogates

    @property
    def p(self) -> float:
        """The share of all, the views as they are included, whose statistic is at least that of the views."""
        return float((1 + (self.surrogates >= self.statistic).sum()) / (1 + len(self.surrogates)))


def compared_of(arrays: Sequence[Rows], bases: Bases, places: int) -> tuple[Compared, Compared, str]:
    """The views compared with shifted ones; with the surrogates that decide; and which these are."""
    surrogates = shift_test(bases, places, len(arrays))
    views = [without_drift(X) for X in arrays]
    if all(forecast_r2(Z) >= STEADY for Z in views):
        return surrogates, speed_test(views), "speeds"
    return surrogates, surrogates, "shifted"


# Shifts in time.


def shift_test(bases: Bases, n: int, K: int) -> Compared:
    r"""Aligned views compared with views shifted by random numbers of n places, each by another.

    The statistic is :math:`\sum_i \rho_i^2`, the mean over the neighborhoods; of several pairs of views the smallest.
    """
    statistic = statistic_of(first_step(bases([0] * K)))
    made = [first_step(bases(shifts)) for shifts in random_shifts(n, K, SURROGATES, np.random.default_rng(0))]
    if not made:
        return Compared(statistic, np.empty(0))
    by_chance = float(np.mean([test.top**2 for test in made]))
    return Compared(statistic, np.array([statistic_of(test) for test in made]), effective_samples(made), by_chance)


def statistic_of(test: Tested) -> float:
    """The mean of Σ ρ² over the neighborhoods, of the pair of views where it is smallest."""
    return float(test.shared.mean(axis=1).min())


def random_shifts(n: int, K: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Shifts (count, K) on a circle of n places, every two views of a row at least `LEAST_SHIFT` apart.

    The K views are placed on the circle in random order with random gaps; the first is not shifted.
    """
    least = max(1, min(int(np.ceil(LEAST_SHIFT * n)), n // (2 * K)))
    if K == 2:
        # One from each of equal parts: shifts that are close together give nearly the same surrogate.
        edges = np.linspace(least, n - least + 1, min(count, n - 2 * least + 1) + 1).astype(np.int64)
        drawn = rng.integers(edges[:-1], edges[1:])
        return np.column_stack([np.zeros_like(drawn), drawn])
    made = np.zeros((count, K), np.int64)
    for row in made:
        ends = np.sort(rng.integers(0, n - K * least + 1, K - 1))
        row[1:] = rng.permutation(ends + least * np.arange(1, K))
    return made


@dataclass(frozen=True)
class Recording:
    """Views of the same n rows, and their neighborhoods."""

    arrays: Sequence[Rows]
    settings: Settings
    segments: NDArray[np.int64] | None  # (n,) numbers of unbroken stretches
    given: NDArray[np.int64] | None  # (m, k) neighborhoods set by the user

    def of(self, views: Sequence[int]) -> list[Rows]:
        """Some of the views."""
        return [self.arrays[v] for v in views]

    def bases(self, views: Sequence[int], k: int) -> tuple[Bases, int]:
        """Some views in k samples each, like those of the fit, but not at its landmarks.

        These may be few, or chosen by their values.
        """
        arrays, neighborhoods = self.of(views), self.settings.neighborhoods
        if self.given is not None:
            return windows_bases(arrays, self.given)
        if neighborhoods.kind == "knn":
            among = neighborhoods.neighbor_rows
            return knn_bases(arrays, k, None if isinstance(among, str) else int(among))
        n = len(arrays[0])
        rows = np.arange(n) if self.segments is None else np.flatnonzero(has_full_window(self.segments, k))
        rows = rows[evenly(len(rows), min(len(rows), WINDOW_SAMPLES))]
        return windows_bases(arrays, time_windows(n, rows, k, self.segments))


def windows_bases(views: Sequence[NDArray], neighbors: NDArray[np.int64]) -> tuple[Bases, int]:
    """The bases of each view in neighborhoods, rows (m, k) in the order of time, such as windows; and their number.

    A shift pairs the neighborhoods of one view with later ones of another, so that each is decomposed once.
    """
    some = neighbors[np.linspace(0, len(neighbors) - 1, min(len(neighbors), WINDOW_SAMPLES)).astype(np.int64)]
    most = n_directions(some.shape[1])
    made = [basis(leading(X[some], most).scores) for X in views]
    return lambda shifts: [view.moved(s) for view, s in zip(made, shifts, strict=True)], len(some)


def knn_bases(views: Sequence[NDArray], k: int, among: int | None = None) -> tuple[Bases, int]:
    """The bases of each view in the k nearest neighbours in all views jointly, which change with the shifts.

    The neighborhoods are those of random rows, not of landmarks, which are chosen in the joint space of aligned views.
    ``among`` is the number of random rows that neighbours are searched among, as in the fit; None for all.
    """
    # Contiguous segments keep the correlation of consecutive rows.
    rows = chosen(len(views[0]), MOST_ROWS, MOST_ROWS // STRETCHES)
    scaled = joint_space([narrowed(X[rows]) for X in views])
    n = len(rows)
    k = min(k, n)
    rng = np.random.default_rng(1)
    at = np.sort(rng.choice(n, min(n, KNN_SAMPLES), replace=False))
    subset = slice(None) if among is None or among >= n else np.sort(rng.choice(n, among, replace=False))
    most = n_directions(k)

    def distances(X: NDArray) -> NDArray[np.float32]:
        """Squared ones (m, s), in single precision, which ranks neighbours well enough."""
        points, X = X[at].astype(np.float32), X[subset].astype(np.float32)
        D = points @ (-2 * X.T)
        D += np.einsum("nd,nd->n", X, X)
        D += np.einsum("nd,nd->n", points, points)[:, None]
        return D

    first = distances(scaled[0])

    def bases(shifts: Sequence[int]) -> list[Basis]:
        moved = [np.roll(X, s, axis=0) if s else X for X, s in zip(scaled, shifts, strict=True)]
        parts = [distances(moved[0]) if shifts[0] else first, *map(distances, moved[1:])]
        near = np.argpartition(np.maximum.reduce(parts), k - 1, axis=1)[:, :k]
        return [basis(leading(X[subset][near], most).scores) for X in moved]

    return bases, n


def narrowed(X: NDArray, most: int = MOST_CHANNELS) -> NDArray:
    """A view (n, d), or its leading principal components if it has many channels."""
    return X if X.shape[1] <= most else leading(X[None], most).scores[0]


# What the others share, for three and more views.


def rest_test(bases: Bases, n: int, K: int, v: int, *, count: int = SURROGATES, no_room: float = 1.0) -> Compared:
    r"""Test whether view v holds anything of what the K - 1 others share: it is shifted, they stay aligned.

    The statistic is :math:`\sum_i \max(0, t_i^2 - t_0^2)\, \|Q_v^T u_i\|^2`, the mean over the neighborhoods, with the
    components :math:`u_i` that the others agree on, their smallest correlation :math:`t_i`, and :math:`t_0` what
    shifted others reach in one neighborhood of twenty: components that agree by chance may consist of what each
    of the others shares with v. If :math:`t_0^2` is ``no_room`` or more there are no surrogates.
    """
    others = [u for u in range(K) if u != v]
    edge = _edge(bases, n, K, others)
    if edge >= no_room:
        return Compared(0.0, np.empty(0))

    def statistic(shift: int) -> float:
        made = bases([shift if u == v else 0 for u in range(K)])
        variates, least = agreed([made[u] for u in others])
        return float((np.maximum(least**2 - edge, 0) * carried(variates, made[v])).sum(axis=1).mean())

    shifts = random_shifts(n, 2, count, np.random.default_rng(0))[:, 1].tolist()
    return Compared(statistic(0), np.array([*map(statistic, shifts)]))


def _edge(bases: Bases, n: int, K: int, others: Sequence[int]) -> float:
    """The 95 % quantile over neighborhoods of the largest squared agreement of shifted views."""
    tops = []
    for row in random_shifts(n, len(others), EDGE_SHIFTS, np.random.default_rng(3)):
        shifts = np.zeros(K, np.int64)
        shifts[list(others)] = row
        made = bases(shifts.tolist())
        tops.append(agreed([made[u] for u in others])[1].max(axis=1) ** 2)
    return float(np.quantile(tops, 0.95)) if tops else 1.0


def agreed(views: Sequence[Basis]) -> tuple[Floats, Floats]:
    """The MAXVAR components of some views: variates (m, k, r) of length one, and their least correlation (m, r).

    The smallest correlation is over the pairs of views, between their parts of a component; it is near 0 for
    a component of two views of three.
    """
    sizes = [view.columns.shape[2] for view in views]
    Z = np.concatenate([view.columns for view in views], axis=2)
    _, V = np.linalg.eigh(np.swapaxes(Z, 1, 2) @ Z)
    V = V[:, :, : -min(sizes) - 1 : -1]
    parts = [
        unit(view.columns @ V[:, first:last])
        for view, (first, last) in zip(views, pairwise(np.cumsum([0, *sizes])), strict=True)
    ]
    least = np.min([np.einsum("mkr,mkr->mr", a, b) for a, b in combinations(parts, 2)], axis=0)
    return unit(np.sum(parts, axis=0)), np.maximum(least, 0)


def carried(variates: Floats, view: Basis) -> Floats:
    r"""How much of variates (m, k, r) of length one a view holds, (m, r): :math:`\|Q_v^T u\|^2`, from 0 to 1."""
    return ((np.swapaxes(view.columns, 1, 2) @ variates) ** 2).sum(axis=1)


def unit(x: Floats) -> Floats:
    """Columns (m, k, r) at length one; zero for those that are."""
    size = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, size, out=np.zeros_like(x), where=size > 1e-12)


def adjusted(tests: Sequence[Compared]) -> list[float]:
    """p-values of several tests, adjusted for the family-wise error by the largest surrogate (Westfall and Young).

    Each statistic is standardised by its own surrogates, each surrogate by the others. With one test it is its own p.
    """
    count = min(len(test.surrogates) for test in tests)
    if count < 3:
        return [1.0] * len(tests)
    null = [test.surrogates[:count] for test in tests]
    largest = np.max([_among_others(x) for x in null], axis=0)
    above = [(t.statistic - x.mean()) / max(x.std(ddof=1), 1e-300) for t, x in zip(tests, null, strict=True)]
    return [float((1 + (largest >= least).sum()) / (1 + count)) for least in above]


def _among_others(x: Floats) -> Floats:
    """Each value standardised by the mean and the standard deviation of the others."""
    mean = (x.sum() - x) / (len(x) - 1)
    spread = [np.delete(x, i).std(ddof=1) for i in range(len(x))]
    return (x - mean) / np.maximum(spread, 1e-300)


# Other speeds, for steady oscillations.


def without_drift(X: NDArray) -> Floats:
    """The leading components (n, p) of a view (n, d) without its drift, of contiguous rows in the middle."""
    from scipy.fft import dct, idct

    first = max(0, (len(X) - SPEED_ROWS) // 2)
    X = np.asarray(X[first : first + SPEED_ROWS], np.float64)
    cosines = dct(X, axis=0, norm="ortho")
    cosines[: int(2 * SLOWEST) + 1] = 0  # the j-th has j/2 periods
    return leading(idct(cosines, axis=0, norm="ortho")[None], COMPONENTS).scores[0]


def forecast_r2(Z: Floats) -> float:
    r"""R² of a forecast of components (n, p) a quarter of the recording ahead: fitted in the first half, scored later.

    The forecast is a linear function of delayed values. It continues any sum of steady oscillations exactly, and no
    noise, however smooth: for an autoregressive process whose correlation time is below the horizon R² is at most 0.
    """
    n = len(Z)
    if n < FEWEST_ROWS or not Z.any():
        return -np.inf
    ahead = n // 4
    H = delayed(Z, n // 8, FORECAST_DELAYS)
    before, after = H[:-ahead], Z[n - len(H) + ahead :]
    half = len(before) // 2
    guess = before[half:] @ ridge_coefficients(before[:half], after[:half], FORECAST_RIDGE)
    total = float((after[half:] ** 2).sum())
    return 1 - float(((after[half:] - guess) ** 2).sum()) / total if total > 0 else -np.inf


def delayed(Z: Floats, span: int, count: int) -> Floats:
    """Values and their past, side by side: rows from ``span`` on, with ``count`` delays spread over the span."""
    delays = np.unique(np.linspace(0, span, min(count, span + 1)).astype(np.int64))
    return np.hstack([Z[span - delay : len(Z) - delay] for delay in delays])


def speed_test(views: Sequence[Floats], *, count: int = SURROGATES) -> Compared:
    """Oscillations (n, p_v) of all views compared with the same views slowed down against each other.

    The statistic is the mean of the two largest canonical correlations (an oscillation has a sine and a cosine) of the
    views with their past; of several pairs of views the smallest.
    """
    from scipy.interpolate import CubicSpline

    K, t = len(views), np.arange(len(views[0]))
    splines = [CubicSpline(t, Z) for Z in views]
    white = [_white_with_past(Z) for Z in views]

    def statistic(speeds: Floats) -> float:
        found = []
        for u, v in combinations(range(K), 2):
            first, second, ratio = white[u], white[v], speeds[v] / speeds[u]
            if ratio > 1:  # one view is slowed down, so that no row is lost
                first = _white_with_past(splines[u](t / ratio))
            elif ratio < 1:
                second = _white_with_past(splines[v](t * ratio))
            found.append(float(np.linalg.svd(first.T @ second, compute_uv=False)[:2].mean()))
        return min(found)

    speeds = random_speeds(K, count, np.random.default_rng(2))
    return Compared(statistic(np.ones(K)), np.array([statistic(row) for row in speeds]))


def random_speeds(K: int, count: int, rng: np.random.Generator) -> Floats:
    """Speeds (count, K), every two views of a row apart by a factor between `LEAST_CHANGE` and `MOST_CHANGE`."""
    least, most = np.log(LEAST_CHANGE), np.log(MOST_CHANGE)
    if K == 2:
        # One from each of equal parts, to either side: ratios that are close together give nearly the same surrogate.
        sides = [np.linspace(least, most, half + 1) for half in (count // 2, count - count // 2)]
        up, down = (rng.uniform(edges[:-1], edges[1:]) for edges in sides)
        return np.exp(np.column_stack([np.zeros(count), np.concatenate([up, -down])]))
    least = min(least, most / (2 * K))
    ends = (np.sort(rng.uniform(0, most - (K - 1) * least, K)) for _ in range(count))
    return np.exp([rng.permutation(some + least * np.arange(K)) for some in ends])


def _white_with_past(Z: Floats) -> Floats:
    H = delayed(Z, len(Z) // 8, DELAYS)
    H = H - H.mean(axis=0)
    lam, V = np.linalg.eigh(H.T @ H)
    return H @ (V / np.sqrt(np.maximum(lam, 0) + RIDGE * lam[-1]))

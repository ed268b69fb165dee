r"""Lags between views: the shift in time at which two views have most in common, and the rows that belong together.

The common variable may enter each view by another function, so each view is replaced by features of its leading
components (the components, their products, and random cosine features). With these whitened, :math:`H_x` and
:math:`H_y`, the strength of a lag is :math:`S(\tau) = \| \frac{1}{n}\sum_t H_x(t)\, H_y(t+\tau)^T \|_F^2`, the sum
of the squared canonical correlations of the views shifted by it. Strengths at lags far beyond the allowed
range are the null distribution. The highest peak is then refined to a fraction of a row from the phases of the
canonical variates at it, weighted by their coherence (Hannan and Thomson): the peak of a slow variable is broad.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.numerics.principal import Floats, leading
from dlcca.settings.fit import Settings
from dlcca.trust.scores import at_unit_variance
from dlcca.views import Views, check_varies, checked

#: Leading components of a view, and random cosine features of them.
COMPONENTS, WAVES = 4, 12
#: A component with less than this share of the largest one's variance is left out.
FLOOR = 1e-3
#: Added to the variances of the features, as a share of their mean.
RIDGE = 1e-2
#: Rows that are used, at most: contiguous ones in the middle.
MOST_ROWS = 20_000
#: Parts of a range of lags, whose maxima give the null distribution; all lags far away have so many at least.
PARTS, FEWEST_PARTS = 4, 24
#: Largest p-value of a lag that is accepted.
LEVEL = 0.01
#: A recording is at least so many times as long as the largest lag.
LEAST_LENGTH = 6
#: A second peak below this share of the height of the first is ignored; if it lacks less than this it is as good.
HIGH, AS_HIGH = 0.6, 0.03
#: Blocks for standard errors, and how many of them two peaks must differ by.
BLOCKS, SURE = 8, 1.5
#: Rows of a segment of the cross-spectrum, and pairs of canonical variates that are used, at most.
SPECTRUM_ROWS, VARIATES = 1024, 3
#: Pairs after the first are used if their correlation is above this.
LEAST_CORRELATION = 0.1


@dataclass(frozen=True)
class Lag:
    """How far the second view lags behind the first, or why that could not be determined."""

    rows: float = np.nan  # positive: the second view shows at row t + rows what the first shows at t; NaN if unknown
    error: float = np.nan  # standard error in rows, from parts of the recording
    p: float = 1.0  # p-value: views that share nothing have as high a peak within the allowed lags
    strength: float = 0.0  # of the peak, less the mean of lags far away
    reason: str = ""  # why it is unknown; empty if it is known

    @property
    def known(self) -> bool:
        return not self.reason


def lag_between(X: NDArray, Y: NDArray, most: int) -> Lag:
    """The lag of the view Y (n, d_y) behind X (n, d_x), at most ``most`` rows either way."""
    n = len(X)
    if most < 1 or n < LEAST_LENGTH * most:
        return Lag(reason=f"{n} rows are too few for lags up to {most}; {LEAST_LENGTH * most} are needed")
    first = max(0, (n - MOST_ROWS) // 2)
    H_x, H_y = (described(V[first : first + MOST_ROWS]) for V in (X, Y))
    if not H_x.shape[1] or not H_y.shape[1]:
        return Lag(reason="a view does not change")
    S, far = strengths(H_x, H_y, most)
    at = int(np.argmax(S))
    lag, chance = at - most, float(far.mean())
    height, p = float(S[at] - chance), by_chance(float(S[at]), far, most)
    rival = rival_of(S, at, chance)
    if p > LEVEL:
        why = "no lag stands out: lags far away are as strong, as for views that share nothing or are periodic"
    elif abs(lag) == most:
        why = f"the views have most in common at the largest allowed lag ({lag:+d})"
    elif rival is not None and not apart(H_x, H_y, lag, rival - most, height):
        why = f"lags of {lag:+d} and {rival - most:+d} rows fit equally well, as for periodic views"
    else:
        return Lag(*sharpened(H_x, H_y, lag), p, height)
    return Lag(p=p, strength=height, reason=why)


def described(X: NDArray) -> Floats:
    """White features (n, p), but for the ridge, of the leading components of a view (n, d); none if it is constant."""
    scale = X.std(axis=0)
    made = leading((X / np.where(scale > 0, scale, 1))[None], COMPONENTS)
    alive = made.variances[0, : made.scores.shape[2]] > FLOOR * made.variances[0, 0]
    U = made.scores[0][:, alive]
    if not U.any():
        return np.empty((len(X), 0))
    U = U / U.std(axis=0)
    first, second = np.triu_indices(U.shape[1])
    rng = np.random.default_rng(0)
    bends = np.repeat([0.5, 1.0, 2.0, 3.0], WAVES // 4) / np.sqrt(U.shape[1])
    waves = np.cos(U @ (rng.standard_normal((U.shape[1], WAVES)) * bends) + rng.uniform(0, 2 * np.pi, WAVES))
    H = at_unit_variance(np.hstack([U, U[:, first] * U[:, second], waves]))
    lam, V = np.linalg.eigh(H.T @ H / len(H))
    return H @ (V / np.sqrt(np.maximum(lam, 0) + RIDGE))


def covariance(H_x: Floats, H_y: Floats, lag: int) -> Floats:
    r""":math:`\frac{1}{n}\sum_t H_x(t) H_y(t+\tau)^T` over the rows that have a partner."""
    A, B = in_step(H_x, H_y, lag)
    return A.T @ B / len(A)


def in_step(A: Floats, B: Floats, lag: int) -> tuple[Floats, Floats]:
    """The rows t of A and t + lag of B, where both exist."""
    n = len(A)
    return A[max(0, -lag) : n - max(0, lag)], B[max(0, lag) : n - max(0, -lag)]


def strengths(H_x: Floats, H_y: Floats, most: int) -> tuple[Floats, Floats]:
    """The strengths (2 most + 1,) of all allowed lags, and those of circular shifts far beyond.

    All of them by one Fourier transform of each feature. The covariance at a circular shift by s rows is the sum of
    those at the lags s and s - n.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    n = len(H_x)
    size = next_fast_len(n + n, real=True)
    F_x, F_y = (rfft(H.T, size, axis=1) for H in (H_x, H_y))
    shifts = np.arange(2 * most + 1, n - 2 * most)
    near, far = np.zeros(2 * most + 1), np.zeros(len(shifts))
    for f in F_x:
        C = irfft(np.conj(f) * F_y, size, axis=1)  # (q, size), lags below zero at the end
        near += np.square(np.concatenate([C[:, -most:], C[:, : most + 1]], axis=1)).sum(axis=0)
        far += np.square(C[:, shifts] + C[:, size - n + shifts]).sum(axis=0)
    return near / (n - np.abs(np.arange(-most, most + 1))) ** 2, far / n**2


def by_chance(highest: float, far: Floats, most: int) -> float:
    r"""p-value of the highest strength: that a range of lags far away, as wide as the allowed one, reaches it.

    There are too few such ranges to count. The maxima of parts of them follow Gumbel's distribution
    :math:`\exp(-e^{-(s - \mu)/\beta})`, and the maximum of g parts its power g.
    """
    parts = np.array_split(far, max(FEWEST_PARTS, len(far) * PARTS // (2 * most + 1)))
    tops = np.array([part.max() for part in parts if len(part)])
    beta = max(float(tops.std(ddof=1)) * np.sqrt(6) / np.pi, np.finfo(float).tiny)
    mu = float(tops.mean()) - np.euler_gamma * beta
    together = (2 * most + 1) / (len(far) / len(tops))
    return float(-np.expm1(-together * np.exp(-np.clip((highest - mu) / beta, -30, 700))))


def rival_of(S: Floats, at: int, chance: float) -> int | None:
    """The highest other peak, if it is high: beyond the lags where the strength has fallen to half of the highest."""
    low = np.flatnonzero(S < chance + (S[at] - chance) / 2)
    first = max(low[low < at], default=-1)
    last = min(low[low > at], default=len(S))
    others = np.concatenate([S[: first + 1], np.full(last - first - 1, -np.inf), S[last:]])
    rival = int(np.argmax(others))
    return rival if others[rival] > chance + HIGH * (S[at] - chance) else None


def apart(H_x: Floats, H_y: Floats, one: int, other: int, height: float) -> bool:
    r"""Whether one lag is better than another by more than the standard error over blocks of the recording.

    The prediction error of the first view at a lag is :math:`|H_x(t) - C H_y(t + \tau)|^2`, on average
    :math:`S(\tau)` below the variance. Both lags are compared on the same rows.
    """
    n = len(H_x)
    rows = np.arange(max(0, -one, -other), n - max(0, one, other))
    misses = [np.square(H_x[rows] - H_y[rows + lag] @ covariance(H_x, H_y, lag).T).sum(axis=1) for lag in (one, other)]
    gains = np.array([part.mean() for part in np.array_split(misses[1] - misses[0], BLOCKS)])
    error = gains.std(ddof=1) / np.sqrt(BLOCKS)
    return bool(gains.mean() > max(SURE * error, AS_HIGH * height))


def sharpened(H_x: Floats, H_y: Floats, lag: int) -> tuple[float, float]:
    """A lag refined to a fraction of a row, from the phases of the canonical variates at it, and its standard error.

    The error is that of a jackknife over segments of the recording.
    """
    U, rho, Vt = np.linalg.svd(covariance(H_x, H_y, lag))
    used = [i for i in range(min(VARIATES, len(rho))) if rho[i] > LEAST_CORRELATION or i == 0]
    spectra = [cross_spectra(*in_step(H_x @ U[:, i], H_y @ Vt[i], lag)) for i in used]
    whole = _by_phase(spectra, slice(None))
    count = spectra[0].shape[1]
    groups = min(BLOCKS, count)
    if groups < 3:
        return lag + whole, np.inf
    left_out = np.array([_by_phase(spectra, np.arange(count) % groups != g) for g in range(groups)])
    return lag + whole, float(np.sqrt((groups - 1) * left_out.var()))


def cross_spectra(a: Floats, b: Floats) -> NDArray[np.complex128]:
    """Spectra of two series: (3, s, f) of each and cross, of s tapered segments that overlap by half."""
    rows = min(SPECTRUM_ROWS, max(16, len(a) // 16 * 2))  # an even number, so that the last frequency is 1/2
    starts = np.arange(0, len(a) - rows + 1, rows // 2)
    taper = np.hanning(rows + 2)[1:-1]
    A, B = (np.fft.rfft(x[starts[:, None] + np.arange(rows)] * taper, axis=1) for x in (a, b))
    return np.stack([np.abs(A) ** 2 + 0j, np.abs(B) ** 2 + 0j, A * np.conj(B)])


def _by_phase(spectra: Sequence[NDArray[np.complex128]], kept: NDArray | slice) -> float:
    r"""The fraction of rows τ that maximises :math:`\sum_f w_f \cos(\arg S_{ab}(f) - 2\pi f \tau)`.

    :math:`w = \gamma^2 / (1 - \gamma^2)` with the squared coherence γ², less its expectation by chance.
    """
    tried = np.linspace(-4, 4, 161)
    total = np.zeros(len(tried))
    for made in spectra:
        aa, bb, ab = made[:, kept].sum(axis=1)[:, 1:]
        f = np.arange(1, made.shape[2]) / (2 * (made.shape[2] - 1))
        coherence = np.abs(ab) ** 2 / np.maximum((aa * bb).real, np.finfo(float).tiny)
        chance = 2 / made[:, kept].shape[1]  # half of the segments overlap
        squared = np.clip((coherence - chance) / (1 - min(chance, 0.9)), 0, 0.999)
        w = squared / (1 - squared)
        total += np.cos(np.angle(ab)[:, None] - 2 * np.pi * f[:, None] * tried).T @ w
    at = int(np.argmax(total))
    if not total.any() or at in (0, len(tried) - 1):
        return 0.0
    before, here, after = total[at - 1 : at + 2]
    bend = before - 2 * here + after
    return float(tried[at] + (0.5 * (before - after) / bend if bend else 0.0) * (tried[1] - tried[0]))


def consistent(pairs: dict[tuple[int, int], Lag], K: int) -> NDArray[np.float64]:
    r"""Lags (K,) of all views behind the first from those of pairs; NaN for views without a chain of known pairs.

    Least squares of :math:`l_v - l_u = l_{uv}` over the known pairs (u, v), weighted by their errors.
    """
    reached = {0}
    for _ in range(K):
        reached |= {v for pair, lag in pairs.items() if lag.known and reached & set(pair) for v in pair}
    free = sorted(reached - {0})
    lags, every = np.full(K, np.nan), np.eye(K)
    lags[0] = 0
    if free:
        rows = [(every[v] - every[u], lag) for (u, v), lag in pairs.items() if lag.known and {u, v} <= reached]
        weight = np.array([1 / (0.1 + min(lag.error, 1e3)) for _, lag in rows])
        A, right = np.stack([row for row, _ in rows]), np.array([lag.rows for _, lag in rows])
        lags[free] = np.linalg.lstsq(A[:, free] * weight[:, None], right * weight, rcond=None)[0]
    return lags


#: The largest lag of "auto": this share of the rows, at most so many.
SHARE_OF_ROWS, MOST_LAG = 1 / 10, 500


@dataclass(frozen=True)
class Lags:
    """Rows by which each view lags behind the first: what the first shows at row t, view v shows at t + rows[v]."""

    names: tuple[str, ...]
    rows: NDArray[np.int64]  # (K,), 0 for a view whose lag is unknown
    n: int  # rows of the views
    pairs: Mapping[tuple[int, int], Lag]  # of every pair of views, where they were estimated
    most: int = 0  # the largest allowed lag; 0 if lags were given
    known: tuple[bool, ...] = ()  # whether the lag of each view is known

    @property
    def why(self) -> str:
        return "as given" if not self.most else f"estimated, up to {self.most} rows either way"

    @property
    def measures(self) -> dict[str, Any]:
        """Plain values, for `quality_`: rows and whether they are known by view, and each pair with its evidence."""
        return {
            "rows": dict(zip(self.names, self.rows.tolist(), strict=True)),
            "known": dict(zip(self.names, self.known, strict=True)),
            "max_lag": self.most,
            "pairs": [
                {
                    "views": [self.names[u], self.names[v]],
                    **{name: x if np.isfinite(x) else None for name, x in vars(lag).items() if name != "reason"},
                    "reason": lag.reason,
                }
                for (u, v), lag in self.pairs.items()
            ],
        }

    @property
    def notes(self) -> list[str]:
        """A sentence for every view whose lag is unknown, and for pairs that contradict the lags."""
        made = []
        for view in np.flatnonzero(np.logical_not(self.known)):
            reasons = dict.fromkeys(lag.reason for pair, lag in self.pairs.items() if view in pair and lag.reason)
            name, why = self.names[view], "; ".join(reasons)
            made.append(f"the lag of view {name!r} is not determined and is taken as 0: {why}.")
        for (u, v), lag in self.pairs.items():
            apart = abs(lag.rows - (self.rows[v] - self.rows[u])) if lag.known else 0
            if apart > 1 + 3 * (lag.error if np.isfinite(lag.error) else 0):
                said = f"views {self.names[u]!r} and {self.names[v]!r} alone have a lag of {lag.rows:+.1f} rows"
                made.append(f"{said}, which the other pairs contradict.")
        return made

    def __str__(self) -> str:
        return "\n".join([*lag_lines({"lags": self.measures}), *self.notes])


def lags(views: Any, max_lag: int | None = None) -> Lags:
    """How far each view lags behind the first, in rows: ``rows`` (K,), and the evidence of every pair in ``pairs``.

    Parameters
    ----------
    views : a list or dict of K arrays (n, d_v) in memory
    max_lag : the largest allowed lag; None for a tenth of the rows, at most 500
    """
    views = checked(views)
    check_varies(views)
    n, K = views.n, len(views.present)
    most = max(1, min(int(n * SHARE_OF_ROWS), MOST_LAG)) if max_lag is None else int(max_lag)
    if max_lag is not None and n < LEAST_LENGTH * most:
        raise SettingsError(f"max_lag={max_lag}, but the views have {n} samples; set at most {n // LEAST_LENGTH}.")
    pairs = {(u, v): lag_between(views.present[u], views.present[v], most) for u, v in combinations(range(K), 2)}
    found = consistent(pairs, K)
    known = np.isfinite(found)
    rows = np.rint(np.where(known, found, 0)).astype(np.int64)
    return Lags(views.names, rows, n, pairs, most, tuple(known.tolist()))


def settled_lags(views: Views, settings: Settings) -> Lags:
    """The lags given by the settings, or estimated if they are "auto"."""
    chosen = settings.neighborhoods
    if not isinstance(chosen.kind, str) or not isinstance(settings.landmarks.count, str | int | np.integer):
        raise SettingsError(
            "lags cannot be used with landmarks or neighborhoods given by row numbers; set a count, 'time' or 'knn'."
        )
    if isinstance(chosen.lags, str):
        return lags(views, chosen.max_lag)
    rows = np.asarray(chosen.lags)
    K = len(views.names)
    if rows.shape != (K,) or rows.dtype.kind not in "iu" or rows[0] != 0:
        raise SettingsError(
            f"lags={chosen.lags!r}; {K} whole numbers of rows are needed, one for each view, 0 for the first."
        )
    return Lags(views.names, rows.astype(np.int64), views.n, {}, 0, (True,) * K)


def paired(
    views: Views, rows: NDArray[np.int64], segments: NDArray[np.int64] | None = None
) -> tuple[Views, NDArray[np.int64], NDArray[np.int64] | None]:
    """Views with row t of the first paired with row t + lag of each; the rows t for which all exist; their segments.

    ``segments`` (n,) number contiguous parts of a recording: paired rows lie in the same one.
    """
    n = views.n
    first = np.arange(max(0, -int(rows.min())), n - max(0, int(rows.max())))
    if segments is not None and len(first):
        first = first[np.logical_and.reduce([segments[first + lag] == segments[first] for lag in rows])]
    if len(first) < 2:
        raise DataError(f"lags of {rows.tolist()} rows leave {len(first)} of {n} samples in all views; 2 are needed.")
    arrays = tuple(None if X is None else X[first + lag] for X, lag in zip(views.arrays, rows, strict=True))
    return Views(arrays, views.names), first, None if segments is None else segments[first]


def spread(X: NDArray, rows: NDArray[np.int64], n: int) -> NDArray:
    """An array of some rows expanded to all n, NaN for the others."""
    if len(rows) == n:
        return X
    made = np.full((n, *X.shape[1:]), np.nan, X.dtype)
    made[rows] = X
    return made


def lag_lines(quality: Mapping[str, Any]) -> list[str]:
    """A sentence for each view: how far it lags behind the first, or leads it."""
    if (found := quality.get("lags")) is None:
        return []
    (first, _), *others = found["rows"].items()
    return [
        f"View {name!r} runs {abs(rows)} row{'s' * (abs(rows) != 1)} {'behind' if rows > 0 else 'before'} {first!r}."
        if rows
        else f"View {name!r} is in step with {first!r}."
        for name, rows in others
        if found["known"][name]
    ]

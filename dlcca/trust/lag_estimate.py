r"""How far one view runs behind another: the shift in time at which two views have most in common.

What is common may be bent differently in each view, so both are described by a few functions of their leading
components (the components, their products, and random waves). With these whitened, :math:`H_x` and :math:`H_y`, the
strength of a lag is :math:`S(\tau) = \| \frac{1}{n}\sum_t H_x(t)\, H_y(t+\tau)^T \|_F^2`, the sum of the squared
canonical correlations of the views shifted by it. What lags far beyond those asked about reach is chance. The highest
place is then sharpened along the canonical variates found there, frequency by frequency, each with the weight that its
coherence deserves (Hannan and Thomson), because what is common may be slow and its peak broad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.trust.components import leading

Floats = NDArray[np.float64]

#: Leading components of a view, and the random waves over them, by which it is described.
COMPONENTS, WAVES = 4, 12
#: A component of less than this share of the largest one's variance is not looked at.
FLOOR = 1e-3
#: Added to the variances of the functions, as a share of their mean.
RIDGE = 1e-2
#: Rows that are looked at, at most: an unbroken stretch in the middle.
MOST_ROWS = 20_000
#: Parts of a window of lags whose highest strengths tell what chance reaches; all lags far away have so many at least.
PARTS, FEWEST_PARTS = 4, 24
#: A lag is claimed if chance would reach its strength this rarely.
LEVEL = 0.01
#: A recording is at least so many times as long as the largest lag.
LEAST_LENGTH = 6
#: A second peak of less than this share of the height of the first is none; one that lacks less than this is as good.
HIGH, AS_HIGH = 0.6, 0.03
#: Blocks whose disagreement tells how sure a lag is, and a difference of peaks in its standard errors.
BLOCKS, SURE = 8, 1.5
#: Rows of a segment of the cross-spectrum, and pairs of canonical variates that it is taken of, at most.
SPECTRUM_ROWS, VARIATES = 1024, 3
#: A further pair counts if its correlation is above this.
LEAST_CORRELATION = 0.1


@dataclass(frozen=True)
class Lag:
    """How far the second view runs behind the first, or why that cannot be told."""

    rows: float  # positive: the second view shows at row t + rows what the first shows at t; NaN if it cannot be told
    error: float  # standard error in rows, from the disagreement of parts of the recording
    p: float  # the chance that views which share nothing have as high a peak within the lags looked at
    strength: float  # of the peak, beyond what lags far away reach
    reason: str = ""  # why it cannot be told; empty if it can

    @property
    def known(self) -> bool:
        return not self.reason


def lag_between(X: NDArray, Y: NDArray, most: int) -> Lag:
    """The lag of Y behind X, at most ``most`` rows either way.

    Parameters
    ----------
    X, Y : (n, d_x) and (n, d_y) the same rows of both views
    most : the largest lag looked at
    """
    n = len(X)
    if most < 1 or n < LEAST_LENGTH * most:
        return _unknown(f"{n} rows are too few to look for lags up to {most}; {LEAST_LENGTH * most} are needed")
    first = max(0, (n - MOST_ROWS) // 2)
    H_x, H_y = (described(V[first : first + MOST_ROWS]) for V in (X, Y))
    if not H_x.shape[1] or not H_y.shape[1]:
        return _unknown("a view does not change")
    S, far = strengths(H_x, H_y, most)
    at = int(np.argmax(S))
    lag, chance = at - most, float(far.mean())
    height = float(S[at] - chance)
    p = by_chance(float(S[at]), far, most)
    if p > LEVEL:
        return _unknown(
            "no lag stands out: others far beyond do as well, as of views that share nothing or repeat themselves",
            p,
            height,
        )
    if abs(lag) == most:
        return _unknown(f"the views have most in common at the largest lag looked at ({lag:+d})", p, height)
    rival = rival_of(S, at, chance)
    if rival is not None and not apart(H_x, H_y, lag, rival - most, height):
        text = f"lags of {lag:+d} and {rival - most:+d} rows fit equally well, as of views that repeat themselves"
        return _unknown(text, p, height)
    return Lag(*sharpened(H_x, H_y, lag), p, height)


def _unknown(reason: str, p: float = 1.0, strength: float = 0.0) -> Lag:
    return Lag(np.nan, np.nan, p, strength, reason)


def described(X: NDArray) -> Floats:
    """A view (n, d) by white functions (n, p) of its leading components; none if nothing in it changes."""
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
    return whitened(np.hstack([U, U[:, first] * U[:, second], waves]))


def whitened(H: Floats) -> Floats:
    """Functions (n, p) of mean zero whose covariance is the identity but for the ridge."""
    H = H - H.mean(axis=0)
    scale = H.std(axis=0)
    H = H[:, scale > 0] / scale[scale > 0]
    lam, V = np.linalg.eigh(H.T @ H / len(H))
    return H @ (V / np.sqrt(np.maximum(lam, 0) + RIDGE))


def covariance(H_x: Floats, H_y: Floats, lag: int) -> Floats:
    r""":math:`\frac{1}{n}\sum_t H_x(t) H_y(t+\tau)^T` over the rows that have a partner."""
    A, B = in_step(H_x, H_y, lag)
    made: Floats = A.T @ B / len(A)
    return made


def in_step(A: Floats, B: Floats, lag: int) -> tuple[Floats, Floats]:
    """The rows t of A and t + lag of B, where both are there."""
    n = len(A)
    return A[max(0, -lag) : n - max(0, lag)], B[max(0, lag) : n - max(0, -lag)]


def strength(H_x: Floats, H_y: Floats, lag: int) -> float:
    """The sum of the squared correlations at a lag."""
    return float(np.square(covariance(H_x, H_y, lag)).sum())


def strengths(H_x: Floats, H_y: Floats, most: int) -> tuple[Floats, Floats]:
    """The strengths (2 most + 1,) of all lags up to the largest, and those of views turned around by far more.

    All of them by one Fourier transform of each function: of views turned around by s rows, what falls off the end is
    put first, so that their covariance is that of the lag s and that of s - n together.
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
    r"""How likely a window of lags far away, as wide as the one looked at, reaches the highest strength found.

    There are too few such windows to count those that do. Their parts, a few in each, have highest strengths of their
    own, which follow Gumbel's distribution :math:`\exp(-e^{-(s - \mu)/\beta})`; g parts together that to the power g.
    """
    parts = np.array_split(far, max(FEWEST_PARTS, len(far) * PARTS // (2 * most + 1)))
    tops = np.array([part.max() for part in parts if len(part)])
    beta = max(float(tops.std(ddof=1)) * np.sqrt(6) / np.pi, np.finfo(float).tiny)
    mu = float(tops.mean()) - np.euler_gamma * beta
    together = (2 * most + 1) / (len(far) / len(tops))
    return float(-np.expm1(-together * np.exp(-np.clip((highest - mu) / beta, -30, 700))))


def rival_of(S: Floats, at: int, chance: float) -> int | None:
    """The highest other peak, if it is high: beyond where the strengths have fallen to half of the highest."""
    low = np.flatnonzero(S < chance + (S[at] - chance) / 2)
    first = max(low[low < at], default=-1)
    last = min(low[low > at], default=len(S))
    others = np.concatenate([S[: first + 1], np.full(last - first - 1, -np.inf), S[last:]])
    rival = int(np.argmax(others))
    return rival if others[rival] > chance + HIGH * (S[at] - chance) else None


def apart(H_x: Floats, H_y: Floats, one: int, other: int, height: float) -> bool:
    r"""Whether one lag is better than another beyond the disagreement of blocks of the recording.

    How well a lag tells the first view by the second is :math:`|H_x(t) - C H_y(t + \tau)|^2`, which is less by
    :math:`S(\tau)` in the mean than that of a view told by nothing. Both lags are asked about the same rows.
    """
    n = len(H_x)
    rows = np.arange(max(0, -one, -other), n - max(0, one, other))
    misses = [np.square(H_x[rows] - H_y[rows + lag] @ covariance(H_x, H_y, lag).T).sum(axis=1) for lag in (one, other)]
    gains = np.array([part.mean() for part in np.array_split(misses[1] - misses[0], BLOCKS)])
    error = gains.std(ddof=1) / np.sqrt(BLOCKS)
    return bool(gains.mean() > max(SURE * error, AS_HIGH * height))


def sharpened(H_x: Floats, H_y: Floats, lag: int) -> tuple[float, float]:
    """A lag to a fraction of a row, from the phases of the canonical variates at it, and its standard error.

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
    """Spectra of two series: (3, s, f) own, own and cross, of s tapered segments that overlap by half."""
    rows = min(SPECTRUM_ROWS, max(16, len(a) // 8))
    starts = np.arange(0, len(a) - rows + 1, rows // 2)
    taper = np.hanning(rows + 2)[1:-1]
    A, B = (np.fft.rfft(x[starts[:, None] + np.arange(rows)] * taper, axis=1) for x in (a, b))
    return np.stack([np.abs(A) ** 2 + 0j, np.abs(B) ** 2 + 0j, A * np.conj(B)])


def _by_phase(spectra: Sequence[NDArray[np.complex128]], kept: NDArray | slice) -> float:
    r"""The fraction of rows τ that maximises :math:`\sum_f w_f \cos(\arg S_{ab}(f) - 2\pi f \tau)`.

    :math:`w = \gamma^2 / (1 - \gamma^2)` with the squared coherence γ², less what chance would give it.
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
    r"""Lags (K,) of all views behind the first from those of pairs; NaN for views that nothing known leads to.

    Least squares of :math:`l_v - l_u = l_{uv}` over the pairs (u, v) that are known, each with the weight of its error.
    """
    known = {pair: lag for pair, lag in pairs.items() if lag.known}
    reached = {0}
    for _ in range(K):
        reached |= {v for pair in known if reached & set(pair) for v in pair}
    free = sorted(reached - {0})
    lags = np.full(K, np.nan)
    lags[0] = 0
    if free:
        rows = [(pair, lag) for pair, lag in known.items() if set(pair) <= reached]
        A = np.zeros((len(rows), K))
        for i, ((u, v), _) in enumerate(rows):
            A[i, u], A[i, v] = -1, 1
        weight = np.array([1 / (0.1 + min(lag.error, 1e3)) for _, lag in rows])
        right = np.array([lag.rows for _, lag in rows])
        lags[free] = np.linalg.lstsq(A[:, free] * weight[:, None], right * weight, rcond=None)[0]
    return lags

"""One clock for sensors of different rates: which samples belong to a window of time.

Sample i of a stretch was taken at ``start_s + i * period_s``. Window t covers the seconds from ``t * step_s`` to
``t * step_s + window_s``; in a channel of nominal rate r it has s = window_s r samples, that belong to the moments
``t * step_s + j / r`` (j = 0, ..., s - 1).
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

#: Samples by which a place may lie outside and still count as inside: rounding of times.
SLACK = 1e-4


def places(
    windows: NDArray[np.int64], step_s: float, samples: int, rate: float, start_s: float, period_s: float
) -> NDArray[np.float64]:
    """Where the moments of some windows lie in a stretch, in samples and their parts, (w, samples)."""
    moments = (windows * step_s - start_s)[:, None] + np.arange(samples) / rate
    return moments / period_s


def ends(
    windows: NDArray[np.int64], step_s: float, samples: int, rate: float, start_s: float, period_s: float
) -> NDArray[np.float64]:
    """The first and the last column of `places`, (w, 2)."""
    first = windows * step_s - start_s
    return np.stack([first, first + (samples - 1) / rate], axis=1) / period_s


def nearest(place: NDArray) -> NDArray[np.int64]:
    """The nearest sample; halfway the later one, always, so that rounding does not make windows tremble."""
    return np.floor(place + 0.5 + SLACK).astype(np.int64)


def inside(place: NDArray, n: int, *, between: bool) -> NDArray[np.bool_]:
    """Which windows lie within a stretch of n samples, (w,); ``between`` if values between samples are asked for."""
    if between:
        return (place[:, 0] >= -SLACK) & (place[:, -1] <= n - 1 + SLACK)
    whole = nearest(place[:, [0, -1]])
    return (whole[:, 0] >= 0) & (whole[:, 1] <= n - 1)


def strided(X: NDArray, end: NDArray[np.int64], samples: int) -> NDArray | None:
    """Windows of X (n, c) as a view (w, samples, c), without a copy; None if they are not equally far apart.

    ``end`` (w, 2) are the first and the last sample of each window. If the nearest samples to moments one period apart
    reach from one to the other, without one too many or too few, they are all of those between.
    """
    first = end[:, 0]
    step = int(first[1] - first[0]) if len(first) > 1 else samples
    if (end[:, 1] - first != samples - 1).any() or (np.diff(first) != step).any():
        return None
    row, item = X.strides
    part = X[first[0] : end[-1, 1] + 1]
    return np.lib.stride_tricks.as_strided(
        part, (len(first), samples, X.shape[1]), (step * row, row, item), writeable=False
    )


def taken(X: NDArray, place: NDArray, *, between: bool) -> NDArray:
    """Samples (w, s, c) of X (n, c) at some places (w, s): the nearest, or on the line between two neighbours."""
    if not between:
        return X[nearest(place)]
    place = np.clip(place, 0, len(X) - 1)
    left = np.minimum(place.astype(np.int64), max(len(X) - 2, 0))
    part = (place - left)[..., None].astype(X.dtype)
    return X[left] * (1 - part) + X[np.minimum(left + 1, len(X) - 1)] * part


def exact(number: float) -> Fraction:
    """The number that was meant by a float: 0.1 is a tenth, 29.97 is 2997/100."""
    return Fraction(number).limit_denominator(1_000_000)


def fits(seconds: float, rate: float) -> bool:
    """Whether a time is a whole number of samples, at least one."""
    samples = seconds * rate
    return samples > 0.5 and abs(samples - round(samples)) <= 1e-6 * max(1.0, samples)


def common_period(rates: list[float]) -> Fraction:
    """The shortest time that is a whole number of samples at every rate."""
    periods = [1 / exact(rate) for rate in rates]
    above, below = periods[0].numerator, periods[0].denominator
    for period in periods[1:]:
        above, below = lcm(above, period.numerator), gcd(below, period.denominator)
    return Fraction(above, below)


def fitting(seconds: float, rates: list[float]) -> list[float]:
    """The nearest times, below and above, that are whole numbers of samples at every rate."""
    period = common_period(rates)
    below = int(exact(seconds) / period)
    return [float(count * period) for count in (below, below + 1) if count > 0]

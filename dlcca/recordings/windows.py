"""Windows of time on one clock: how long they are, and which samples of sensors of different rates belong to them.

Sample i of a piece was taken at ``start_s + i * period_s``. Window t covers the seconds from ``t * step_s`` to
``t * step_s + window_s``; in a channel of nominal rate r it has s = window_s r samples, taken at the times
``t * step_s + j / r`` (j = 0, ..., s - 1).
"""

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dlcca.errors import SettingsError
from dlcca.recordings.timeline import View

#: Samples by which a position may lie outside and still count as inside: rounding of times.
SLACK = 1e-4
#: The default length of a window is about a second, and at most this.
DEFAULT_S, LONGEST_DEFAULT_S = 1.0, 10.0


def samples_of(window_s: float, rate: float) -> int:
    """Samples of a window: those whose whole period lies in it."""
    return max(1, int(window_s * rate * (1 + 1e-9) + 1e-6))


def positions(
    windows: NDArray[np.int64], step_s: float, samples: ArrayLike, rate: float, start_s: float, period_s: float
) -> NDArray[np.float64]:
    """Positions in a piece of some samples of each window, in samples and fractions of one, (w, len(samples))."""
    times = (windows * step_s - start_s)[:, None] + np.asarray(samples) / rate
    return times / period_s


def nearest(position: NDArray) -> NDArray[np.int64]:
    """The nearest sample; halfway always the later one, so that rounding does not move windows back and forth."""
    return np.floor(position + 0.5 + SLACK).astype(np.int64)


def spans_of(ends: NDArray, n: int, *, between: bool) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which windows lie within n samples, (w,), by the positions of their first and last samples, (w, 2).

    And the samples of those that do, (., 2): from, to (not included). ``between`` if values are interpolated between
    samples.
    """
    if between:
        here = (ends[:, 0] >= -SLACK) & (ends[:, 1] <= n - 1 + SLACK)
        spans = np.stack([np.floor(ends[:, 0] + SLACK), np.floor(ends[:, 1]) + 2], axis=1).astype(np.int64)
    else:
        spans = nearest(ends) + np.array([0, 1])
        here = (spans[:, 0] >= 0) & (spans[:, 1] <= n)
    return here, np.clip(spans[here], 0, n)


def strided(X: NDArray, end: NDArray[np.int64], samples: int) -> NDArray | None:
    """Windows of X (n, c) as a view (w, samples, c), without a copy; None if they are not equally far apart.

    ``end`` (w, 2) are the first and the last sample of each window. If there are exactly ``samples`` of them from the
    first to the last, they are the ones nearest to its times.
    """
    first = end[:, 0]
    step = int(first[1] - first[0]) if len(first) > 1 else samples
    if step < 1 or (end[:, 1] - first != samples - 1).any() or (np.diff(first) != step).any():
        return None
    every = np.lib.stride_tricks.sliding_window_view(X[first[0] : end[-1, 1] + 1], samples, axis=0)
    return every[::step].swapaxes(1, 2)


def taken(X: NDArray, position: NDArray, *, between: bool) -> NDArray:
    """Samples (w, s, c) of X (n, c) at positions (w, s): the nearest, or linearly interpolated."""
    if not between:
        return X[nearest(position)]
    position = np.clip(position, 0, len(X) - 1)
    left = np.minimum(position.astype(np.int64), max(len(X) - 2, 0))
    part = (position - left)[..., None].astype(X.dtype)
    return X[left] * (1 - part) + X[np.minimum(left + 1, len(X) - 1)] * part


def exact(number: float) -> Fraction:
    """The fraction nearest to a float: 0.1 is a tenth, 29.97 is 2997/100."""
    return Fraction(number).limit_denominator(1_000_000)


def fits(seconds: float, rate: float) -> bool:
    """Whether a duration is a whole number of samples, at least one."""
    samples = seconds * rate
    return samples > 0.5 and abs(samples - round(samples)) <= 1e-6 * max(1.0, samples)


def common_period(rates: list[float]) -> Fraction:
    """The shortest duration that is a whole number of samples at every rate."""
    periods = [1 / exact(rate) for rate in rates]
    return Fraction(lcm(*(period.numerator for period in periods)), gcd(*(period.denominator for period in periods)))


def fitting(seconds: float, rates: list[float]) -> list[float]:
    """The nearest durations, below and above, that are whole numbers of samples at every rate."""
    period = common_period(rates)
    below = int(exact(seconds) / period)
    return [float(count * period) for count in (below, below + 1) if count > 0]


def rates_of(views: Sequence[View]) -> list[float]:
    return [track.rate for view in views for track in view.tracks]


def window_and_step(views: Sequence[View]) -> tuple[float, float]:
    """Length and step of the windows of all views, given or by default; an error if a rate does not fit them."""
    window_s, step_s = _agreed(views, "window_s"), _agreed(views, "step_s")
    exact = [(view.name, track.rate) for view in views for track in view.tracks if view.recipe.resample == "exact"]
    rates = [rate for _, rate in exact]
    if window_s is None:
        window_s = _default_window(views, rates) if step_s is None else step_s
    step_s = window_s if step_s is None else step_s
    for option, seconds in (("window_s", window_s), ("step_s", step_s)):
        for name, rate in exact:
            if fits(seconds, rate):
                continue
            here = " or ".join(f"{fit:.9g}" for fit in fitting(seconds, [rate]))
            every = [f"{fit:.9g}" for fit in fitting(seconds, rates) if fit <= LONGEST_DEFAULT_S * max(1.0, seconds)]
            both = f" ({' or '.join(every)} would fit all of {_listed(rates)})" if every and len(set(rates)) > 1 else ""
            raise SettingsError(
                f"view {name!r}: {option} = {seconds:g} is {seconds * rate:.6g} samples at {rate:g} Hz; a whole number "
                f"is needed. {option} = {here} would fit{both}; or set resample = 'nearest' or 'linear' in this view."
            )
    return float(window_s), float(step_s)


def _agreed(views: Sequence[View], option: str) -> float | None:
    """What the recipes say of an option, which must be the same in all of them."""
    given = {view.name: getattr(view.recipe, option) for view in views if getattr(view.recipe, option) is not None}
    if len(set(given.values())) > 1:
        each = ", ".join(f"{seconds:g} in {name!r}" for name, seconds in given.items())
        raise SettingsError(f"{option} differs between the views ({each}); row by row they must be of the same time.")
    return next(iter(given.values()), None)


def _default_window(views: Sequence[View], rates: list[float]) -> float:
    """About a second, or an eighth of a short recording, in whole samples of all rates."""
    target, every = min(DEFAULT_S, min(view.span[1] - view.span[0] for view in views) / 8), rates_of(views)
    period = common_period(rates or every)
    seconds = float(max(1, int(target / period + 1e-6)) * period)
    if seconds > max(LONGEST_DEFAULT_S, 1 / min(every)):
        if not rates:
            return max(target, 1 / min(every))
        raise SettingsError(
            f"no short window is a whole number of samples at {_listed(rates)}; give window_s and step_s, and "
            "resample = 'nearest' or 'linear' in the views that do not fit them."
        )
    return seconds


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in sorted(set(rates))) + " Hz"

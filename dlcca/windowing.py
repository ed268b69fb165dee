"""``window="auto"``: the length of time windows, chosen by what they gain over views shifted against each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.cca import LocalMetric
from dlcca.numerics.landmarks import evenly
from dlcca.numerics.windows import time_windows

CANDIDATES = (8, 15, 31, 61, 121, 241)
LANDMARKS = 100

Fit = Callable[[list[NDArray], NDArray[np.int64]], LocalMetric]


def gains(arrays: list[NDArray], fit_metric: Fit) -> dict[int, float]:
    """For each candidate length, the mean top correlation less that of views shifted in time.

    Shifted views share nothing, but are as smooth as before: what they reach is what smoothness alone gives.
    """
    n, K = len(arrays[0]), len(arrays)
    rows = evenly(n, min(n, LANDMARKS))
    shifted = [np.roll(X, v * n // (K + 1), axis=0) for v, X in enumerate(arrays)]
    found = {}
    for width in CANDIDATES:
        if width <= max(CANDIDATES[0], n // 4) and width <= n:
            windows = time_windows(n, rows, width)
            top = [fit_metric(views, windows).correlations[:, 0].mean() for views in (arrays, shifted)]
            found[width] = float(top[0] - top[1])
    return found


def auto_window(arrays: list[NDArray], fit_metric: Fit) -> tuple[int, str]:
    """The candidate that gains most, and why."""
    n = len(arrays[0])
    found = gains(arrays, fit_metric) if len(arrays) > 1 else {}
    if not found:
        return min(n, CANDIDATES[0]), "the usual length; there is nothing to compare it by"
    best = max(found, key=lambda width: found[width])
    curve = ", ".join(f"{width}: {gain:.2f}" for width, gain in found.items())
    return best, f"the largest gain of correlation over shifted views ({curve})"

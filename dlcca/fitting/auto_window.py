"""``window="auto"``: the shortest window of time whose first coordinate each view alone can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.numerics.landmarks import evenly
from dlcca.numerics.windows import roomy, time_windows
from dlcca.trust.components import leading
from dlcca.trust.predictability import FEWEST_ROWS, told_alone
from dlcca.views import in_range

CANDIDATES = (8, 15, 31, 61, 121, 241)
#: A window is at most this share of a stretch: all landmarks would have the same one.
LONGEST = 5 / 6
#: Rows that are looked at, in how many stretches spread over a longer recording, and landmarks among them.
ROWS, STRETCHES, LANDMARKS = 2048, 4, 200
#: Components of a view that the small fits see: those with at least this share of the largest one's variance.
COMPONENTS, LEAST_VARIANCE = 32, 1e-4
#: A shorter window is taken if it leaves at most so many times as much of its coordinate untold as the best, and this
#: much besides: the shorter, the more local is the metric.
TIMES_UNTOLD, BESIDES = 2.0, 0.03

Rows = NDArray[np.int64]
#: The first coordinate (n,) of some views, from the windows (m, k) of some landmarks (m,).
Embed = Callable[[list[NDArray], Rows, Rows], NDArray]


def rows_to_choose_by(n: int, segments: NDArray | None = None) -> tuple[Rows, Rows]:
    """The rows by which a window is chosen, and the number of the unbroken stretch that each lies in."""
    stretch = np.zeros(n, np.int64) if segments is None else np.asarray(segments, np.int64)
    if n <= ROWS:
        return np.arange(n), stretch
    each = ROWS // STRETCHES
    first = np.linspace(0, n - each, STRETCHES).astype(np.int64)
    rows = (first[:, None] + np.arange(each)).ravel()
    breaks = (np.diff(stretch[rows]) != 0) | (np.diff(rows) != 1)
    return rows, np.concatenate([[0], np.cumsum(breaks)])


def auto_window(arrays: Sequence[NDArray], segments: NDArray, embed: Embed) -> tuple[int, str]:
    """The length for views (n, d_v) of which `rows_to_choose_by` has chosen the rows, and why."""
    usual = min(len(segments), CANDIDATES[0])
    sound = len(arrays) > 1 and all(in_range(X) for X in arrays)  # what is not is refused with its rows, later
    told = told_by_each([main_components(X) for X in arrays], segments, embed) if sound else {}
    if not told:
        return usual, "the usual length; there is nothing to compare it by"
    curve = ", ".join(f"{width}: {score:.2f}" for width, score in told.items())
    best = max(told.values())
    if best <= 0:
        return usual, f"the usual length; of none does each view alone tell the first coordinate (R² {curve})"
    enough = 1 - TIMES_UNTOLD * (1 - best) - BESIDES
    shortest = next(width for width, score in told.items() if score >= enough)
    return shortest, f"the shortest whose first coordinate each view alone tells nearly best (R² {curve})"


def told_by_each(parts: list[NDArray], segments: NDArray, embed: Embed) -> dict[int, float]:
    """For each candidate length, how well the first coordinate is told by that view which tells it worst."""
    found = {}
    for width in CANDIDATES:
        room = np.flatnonzero(roomy(segments, int(np.ceil(width / LONGEST))))
        if 2 * len(room) < len(segments) or len(room) < FEWEST_ROWS:
            break
        landmarks = room[evenly(len(room), min(len(room), LANDMARKS))]
        try:
            coordinate = embed(parts, landmarks, time_windows(len(segments), landmarks, width, segments))
        except DataError:  # the metrics of such windows see no change
            continue
        score = min(told_alone(Z, coordinate, segments) for Z in parts)
        if np.isfinite(score):
            found[width] = score
    return found


def main_components(X: NDArray) -> NDArray:
    """The components (n, p) of a view in which it mostly lies: rotating a view changes no metric, and few are quick."""
    of = leading(X[None], COMPONENTS)
    kept = of.variances[0, : of.scores.shape[2]] > LEAST_VARIANCE * of.variances[0, 0]
    return of.scores[0][:, kept | (np.arange(len(kept)) == 0)]

"""``window="auto"``: the shortest window of time whose first coordinate each view alone predicts well."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.fitting.embed import fitted
from dlcca.fitting.job import Job, Source, make_job, memory_job
from dlcca.numerics.landmarks import evenly
from dlcca.numerics.principal import leading
from dlcca.numerics.windows import has_full_window, time_windows
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.trust.scores import FEWEST_ROWS, filter_r2
from dlcca.views import in_range

CANDIDATES = (8, 15, 31, 61, 121, 241)
#: A window is at most this share of a stretch: all landmarks would have the same one.
LONGEST = 5 / 6
#: Rows that are used, in how many stretches spread over a longer recording, and landmarks among them.
ROWS, STRETCHES, LANDMARKS = 2048, 4, 200
#: Components of a view that the small fits see: those with at least this share of the largest one's variance.
COMPONENTS, LEAST_VARIANCE = 32, 1e-4
#: A shorter window is taken if it leaves at most so many times as much of its coordinate unexplained as the best does,
#: and this much besides: the shorter, the more local is the metric.
TIMES_UNEXPLAINED, BESIDES = 2.0, 0.03

Rows = NDArray[np.int64]


def rows_to_choose_by(n: int, segments: NDArray | None = None) -> tuple[Rows, Rows]:
    """The rows by which a window is chosen, and the number of the unbroken stretch that each lies in."""
    stretch = np.zeros(n, np.int64) if segments is None else np.asarray(segments, np.int64)
    if n <= ROWS:
        return np.arange(n), stretch
    each = ROWS // STRETCHES
    rows = (np.linspace(0, n - each, STRETCHES).astype(np.int64)[:, None] + np.arange(each)).ravel()
    breaks = (np.diff(stretch[rows]) != 0) | (np.diff(rows) != 1)
    return rows, np.concatenate([[0], np.cumsum(breaks)])


def auto_window(arrays: Sequence[NDArray], segments: NDArray, settings: Settings) -> tuple[int, str]:
    """The length for views (n, d_v) of which `rows_to_choose_by` has chosen the rows, and why."""
    usual = min(len(segments), CANDIDATES[0])
    sound = len(arrays) > 1 and all(in_range(X) for X in arrays)  # what is not is refused with its rows, later
    found = r2_by_window([main_components(X) for X in arrays], segments, settings) if sound else {}
    if not found:
        return usual, "the usual length; there is nothing to compare it by"
    curve = ", ".join(f"{width}: {score:.2f}" for width, score in found.items())
    best = max(found.values())
    if best <= 0:
        why = "the usual length; for none of them does each view alone predict the first coordinate"
        return usual, f"{why} (R² {curve})"
    enough = 1 - TIMES_UNEXPLAINED * (1 - best) - BESIDES
    shortest = next(width for width, score in found.items() if score >= enough)
    return shortest, f"the shortest whose first coordinate each view alone predicts nearly best (R² {curve})"


def r2_by_window(parts: list[NDArray], segments: NDArray, settings: Settings) -> dict[int, float]:
    """For each candidate length, R² of the first coordinate predicted from one view, the lowest of all views."""
    found = {}
    for width in CANDIDATES:
        room = np.flatnonzero(has_full_window(segments, int(np.ceil(width / LONGEST))))
        if 2 * len(room) < len(segments) or len(room) < FEWEST_ROWS:
            break
        landmarks = room[evenly(len(room), min(len(room), LANDMARKS))]
        try:
            windows = time_windows(len(segments), landmarks, width, segments)
            coordinate = first_coordinate(settings, parts, landmarks, windows)
        except DataError:  # the metrics of such windows see no change
            continue
        score = min(filter_r2(Z, coordinate, segments) for Z in parts)
        if np.isfinite(score):
            found[width] = score
    return found


def main_components(X: NDArray) -> NDArray:
    """The components (n, p) of a view in which it mostly lies: rotating a view changes no metric, and few are quick."""
    of = leading(X[None], COMPONENTS)
    kept = of.variances[0, : of.scores.shape[2]] > LEAST_VARIANCE * of.variances[0, 0]
    return of.scores[0][:, kept | (np.arange(len(kept)) == 0)]


def with_window(
    choices: Choices, n: int, read: Callable[[NDArray[np.int64]], list[NDArray]], segments: NDArray | None = None
) -> Choices:
    """The choices with a window too, if it was "auto"; ``read`` gives some rows of all views."""
    settings = choices.settings
    kind = settings.neighborhoods.kind
    if settings.neighborhoods.window != "auto":
        return choices
    if not isinstance(kind, str) or kind != "time":
        return replace(choices, settings=settings.with_options(window=8))  # not used
    rows, stretches = rows_to_choose_by(n, segments)
    small = settings.with_options(n_components=1, kernel="dense", solver="gram")
    window, why = auto_window(read(rows), stretches, small)
    return replace(choices, settings=settings.with_options(window=window), reasons={**choices.reasons, "window": why})


def first_coordinate(
    settings: Settings, arrays: list[NDArray], rows: NDArray[np.int64], neighbors: NDArray[np.int64]
) -> NDArray:
    """The first coordinate (n,) of views (n, d_v) by the neighborhoods (m, k) of some landmarks."""
    given = settings.with_options(landmarks=rows, neighborhoods=neighbors)
    names = [f"view {v + 1}" for v in range(len(arrays))]
    return fitted(memory_job(arrays, names, given)).coordinates(arrays)[:, 0]


def chosen_job(
    address: str, sources: tuple[Source, ...], choices: Choices, seed: int, clock: str = ""
) -> tuple[Job, Choices]:
    """The job of these choices (see `make_job`), and the choices with a window too, if it was "auto"."""
    if choices.settings.neighborhoods.window != "auto":
        return make_job(address, sources, choices.settings, seed, clock), choices
    # Any window does for a job that only reads: the shortest fits every recording.
    job = make_job(address, sources, choices.settings.with_options(window=2), seed, clock)
    settled = with_window(choices, job.n, lambda rows: [job.read(v, rows) for v in range(job.K)], job.segments)
    return replace(job, settings=settled.settings), settled

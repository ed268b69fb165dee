"""Stretches of consecutive rows: windows of time around landmarks, and rows spread over a recording."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def time_windows(n: int, landmarks: Rows, width: int, segments: NDArray | None = None) -> Rows:
    """Rows (m, width) of the window of consecutive samples around each landmark, (m,) of n rows.

    A window of 8 reaches from i-3 to i+4, as in Section VII-B of the paper. At the ends of the recording, and at gaps
    in it, it is shifted inwards, so that every landmark has ``width`` different rows of one unbroken stretch.

    ``segments`` (n,) are the numbers of the unbroken stretches that rows belong to, never falling; one if not given.
    Landmarks in a stretch of fewer than ``width`` rows are refused: see `has_full_window`.
    """
    if not 1 <= width <= n:
        raise ValueError(f"a window of {width} samples does not fit a recording of {n}")
    landmarks = np.asarray(landmarks)
    begin, end = np.zeros_like(landmarks), np.full_like(landmarks, n)
    if segments is not None:
        begin, end = (np.searchsorted(segments, segments[landmarks], side=side) for side in ("left", "right"))
        if (end - begin < width).any():
            short = int(landmarks[np.argmin(end - begin)])
            raise ValueError(f"a window of {width} samples does not fit the stretch of row {short}, which is shorter")
    first = np.clip(landmarks - (width - 1) // 2, begin, end - width)
    return first[:, None] + np.arange(width)


def has_full_window(segments: NDArray, width: int) -> NDArray[np.bool_]:
    """Which rows lie in a stretch of at least ``width`` rows, (n,); segments as in `time_windows`."""
    _, where, counts = np.unique(segments, return_inverse=True, return_counts=True)
    return counts[where] >= width


def chosen(n: int, most: int, stretch: int) -> Rows:
    """At most ``most`` of n rows, in order: all of them, or stretches of ``stretch`` rows spread evenly over them.

    A window of time needs rows that follow each other; neighbours in state need none, and ``stretch`` is 1.
    """
    if n <= most:
        return np.arange(n)
    stretch = min(stretch, most)
    starts = np.linspace(0, n - stretch, most // stretch).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(stretch))


def unbroken(rows: Sequence[Rows], segments: NDArray[np.int64] | None) -> Rows:
    """The unbroken stretch, (m,), that each row of the compared views is in: in every view it follows the one before.

    ``segments`` (n,) are those of the recording itself, if it has gaps.
    """
    breaks = np.zeros(len(rows[0]), bool)
    for some in rows:
        breaks[1:] |= np.diff(some) != 1
        if segments is not None:
            breaks[1:] |= np.diff(segments[some]) != 0
    return np.cumsum(breaks)

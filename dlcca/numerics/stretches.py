"""Some rows of a recording, spread over it: stretches of rows that follow each other, and where they break."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


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

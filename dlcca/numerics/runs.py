"""Long runs of one and the same value in a channel: a sensor that is off, or one at the end of its range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: (first, one after the last) sample of a run.
Run = tuple[int, int]
#: Numbers that are compared with as many others at a time.
WIDE = 1152


def long_runs(x: NDArray, least: int) -> list[Run]:
    """The runs of at least ``least`` equal samples in a channel (n,), which must be 2 or more."""
    if len(x) < least:
        return []
    changes = np.flatnonzero(x[1:] != x[:-1]) + 1  # NaN differs from all, itself included
    edges = np.concatenate([[0], changes, [len(x)]])
    long = np.flatnonzero(np.diff(edges) >= least)
    return [(int(edges[i]), int(edges[i + 1])) for i in long]


def channels_with_runs(X: NDArray, least: int) -> NDArray[np.int64]:
    """The channels of X (n, c) that may have a run of ``least`` equal samples.

    Of every ``least // 4``-th sample such a run holds at least four in a row; so few are looked at that it costs next
    to nothing, and a channel without four equal ones in a row has no run. With two in a row, whole numbers such as
    those of a converter would be suspected too often.
    """
    apart = max(1, least // 4)
    equal = X[apart::apart] == X[:-apart:apart]
    together = min(3, least // apart - 1)
    for _ in range(together - 1):
        equal = equal[1:] & equal[:-1]
    return np.flatnonzero(equal.any(axis=0))


def extremes(X: NDArray) -> tuple[NDArray, NDArray]:
    """The largest and the smallest value of each channel of X (n, c), n > 0; no finite numbers if a channel holds one.

    Many samples are put side by side first: rows as short as a few channels would take three times as long.
    """
    n, c = X.shape
    wide = max(1, WIDE // c)
    body = X[: n - n % wide].reshape(-1, wide * c) if X.flags.c_contiguous and n >= wide else X[:0]
    rest = X[n - n % wide :] if len(body) else X
    found = []
    with np.errstate(invalid="ignore"):
        for reduce in (np.maximum.reduce, np.minimum.reduce):
            parts = [reduce(body, axis=0).reshape(-1, c)] if len(body) else []
            found.append(reduce(np.concatenate([*parts, rest]), axis=0))
    return found[0], found[1]


def ends_of_runs(X: NDArray, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many samples at the beginning and at the end of X (n, c), n > 0, are equal, up to ``most``; (c,) each.

    A channel that begins, or ends, with NaN has a run of none there.
    """
    lengths = []
    for part in (X[:most], X[: -most - 1 : -1]):
        equal = part == part[0]
        lengths.append(np.where(equal.all(axis=0), len(part), equal.argmin(axis=0)))
    return lengths[0], lengths[1]

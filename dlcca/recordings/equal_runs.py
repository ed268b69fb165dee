"""Long runs of one and the same value in a channel: a sensor that is off, or one at the end of its range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: (first, one after the last) sample of a run.
Run = tuple[int, int]
#: Numbers that are compared with as many others at a time; and bytes of samples that the cache holds for a second look.
WIDE, CACHED_BYTES = 1152, 1 << 18


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

    Of every ``least // 2``-th sample such a run holds two in a row; so few are looked at that it costs next to nothing.
    Two whole numbers, such as those of a converter, are often equal by chance: then some between them count too.
    """
    apart = max(1, least // 2)
    rows, channels = np.divmod(np.flatnonzero(X[apart::apart] == X[:-apart:apart]), X.shape[1])  # quicker than nonzero
    first = X[rows * apart, channels]
    for part in {apart // 4, apart // 2, 3 * apart // 4} - {0}:
        same = X[rows * apart + part, channels] == first
        rows, channels, first = rows[same], channels[same], first[same]
    return np.unique(channels)


def extremes(X: NDArray) -> tuple[NDArray, NDArray]:
    """The largest and the smallest value of each channel of X (n, c), n > 0; no finite numbers if a channel holds one.

    Many samples are put side by side first: rows as short as a few channels would take three times as long.
    """
    n, c = X.shape
    wide = max(1, WIDE // c)
    body = X[: n - n % wide].reshape(-1, wide * c) if X.flags.c_contiguous and n >= wide else X[:0]
    rest = X[n - n % wide :] if len(body) else X
    batch = max(1, CACHED_BYTES // (wide * c * X.itemsize))
    tops, bottoms = [rest], [rest]
    with np.errstate(invalid="ignore"):
        for some in (body[i : i + batch] for i in range(0, len(body), batch)):
            tops.append(np.maximum.reduce(some, axis=0).reshape(-1, c))
            bottoms.append(np.minimum.reduce(some, axis=0).reshape(-1, c))
        return np.maximum.reduce(np.concatenate(tops), axis=0), np.minimum.reduce(np.concatenate(bottoms), axis=0)


def ends_of_runs(X: NDArray, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many samples at the beginning and at the end of X (n, c), n > 0, are equal, up to ``most``; (c,) each.

    A channel that begins, or ends, with NaN has a run of none there.
    """
    lengths = []
    for part in (X[:most], X[: -most - 1 : -1]):
        equal = part == part[0]
        lengths.append(np.where(equal.all(axis=0), len(part), equal.argmin(axis=0)))
    return lengths[0], lengths[1]

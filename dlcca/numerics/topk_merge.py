"""The nearest so far, kept in order: distances made one at a time, for searches that look at few pairs.

Where all pairs are looked at (`near`), distances come from matrix products. A tree or an index names a few candidates,
and their distances are made here, channel by channel and in float64. Compiled by numba at the first call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.topk import Nearest


def stacked(views: Sequence[NDArray]) -> NDArray:
    """The views side by side, (b, d_1 + ... + d_K)."""
    return np.ascontiguousarray(np.hstack(views))


def edges_of(views: Sequence[NDArray]) -> NDArray[np.int64]:
    """The K + 1 channels at which a view begins or ends, when they are side by side."""
    return np.cumsum([0, *(X.shape[1] for X in views)])


def scales(spreads: Sequence[float]) -> NDArray[np.float64]:
    """What the views' squared distances are multiplied by before the largest is taken; 1 for a view without spread."""
    return np.array([1 / s**2 if s > 0 else 1.0 for s in spreads])


def rank(
    points: Sequence[NDArray],
    samples: NDArray,
    spreads: Sequence[float],
    candidates: NDArray[np.integer],
    nearest: Nearest,
    first_row: int = 0,
) -> None:
    """Give each point its nearest among its candidates, by the largest of the views' squared distances.

    Parameters
    ----------
    points : K arrays (m, d_v)
    samples : (b, d_1 + ... + d_K), the views side by side
    spreads : K, unit of the views' distances
    candidates : (m, c) samples in any order; negative ones are none, and one that comes twice counts once
    nearest : updated in place
    first_row : number of the first sample
    """
    edges, scale = edges_of(points), scales(spreads)
    _rank(stacked(points), samples, edges, scale, candidates, nearest.distances, nearest.rows, first_row)


def add(nearest: Nearest, part: Nearest) -> None:
    """Take the neighbours found elsewhere into ``nearest``, in place; equal distances go to the lower row.

    The order is total, so that parts may be added in any order and grouping.
    """
    _add(nearest.distances, nearest.rows, part.distances, part.rows)


@numba.njit(cache=True, nogil=True)
def joint_distance(x, p, edges, scale):  # type: ignore[no-untyped-def]
    """The largest of the views' squared distances, each in its unit."""
    largest = 0.0
    for v in range(len(scale)):
        total = 0.0
        for c in range(edges[v], edges[v + 1]):
            total += (np.float64(x[c]) - np.float64(p[c])) ** 2
        largest = max(largest, total * scale[v])
    return largest


@numba.njit(cache=True, nogil=True)
def insert(distances, rows, d, row):  # type: ignore[no-untyped-def]
    """Put a row where it belongs among the nearest, if it does: by distance, and then by number."""
    at = len(distances) - 1
    if d > distances[at] or (d == distances[at] and row > rows[at]):
        return
    while at > 0 and (distances[at - 1] > d or (distances[at - 1] == d and rows[at - 1] > row)):
        distances[at] = distances[at - 1]
        rows[at] = rows[at - 1]
        at -= 1
    distances[at] = d
    rows[at] = row


@numba.njit(cache=True, nogil=True)
def _rank(P, X, edges, scale, candidates, distances, rows, first_row):  # type: ignore[no-untyped-def]
    for i in range(len(P)):
        for c in candidates[i]:
            if c >= 0 and not (rows[i] == first_row + c).any():
                insert(distances[i], rows[i], joint_distance(P[i], X[c], edges, scale), first_row + c)


@numba.njit(cache=True, nogil=True)
def _add(distances, rows, more_distances, more_rows):  # type: ignore[no-untyped-def]
    k = distances.shape[1]
    for i in range(len(distances)):
        for c in range(more_distances.shape[1]):
            if more_rows[i, c] < 0 or more_distances[i, c] > distances[i, k - 1]:
                break  # they come nearest first
            insert(distances[i], rows[i], more_distances[i, c], more_rows[i, c])

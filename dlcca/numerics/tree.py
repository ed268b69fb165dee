"""Exact nearest neighbours by a tree of boxes: for views of few channels, where it looks at a few hundred pairs of n.

A tree of SciPy's knows Minkowski distances only, and ours is the largest of the views' Euclidean ones. In a box of
samples each view's distance is bounded from below, and so is the largest of them: boxes that lie farther than the
neighbours found are passed over. Compiled by numba at the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.topk import Nearest
from dlcca.numerics.topk_merge import edges_of, insert, joint_distance, scales, stacked

#: Samples of a box that is not divided any more: fewer make more boxes, more make more distances.
LEAF = 16


@dataclass(frozen=True)
class Tree:
    """b samples, halved again and again along the channel in which they lie widest.

    Box i is divided into 2i + 1 and 2i + 2. All boxes of a level have the same number of samples but for one.
    """

    X: NDArray[np.float64]  # (b, d) in the order of the boxes
    rows: NDArray[np.int64]  # (b,) the number of each
    edges: NDArray[np.int64]  # (K + 1,) channels of the views
    scale: NDArray[np.float64]  # (K,)
    stretches: NDArray[np.int64]  # (boxes, 2) first sample of a box, and the one after its last
    low: NDArray[np.float64]  # (boxes, d)
    high: NDArray[np.float64]  # (boxes, d)
    first: NDArray[np.int64]  # (boxes,) lowest number of a box

    @classmethod
    def of(cls, views: Sequence[NDArray], spreads: Sequence[float], first_row: int = 0) -> Tree:
        """A tree of K views (b, d_v), which are numbered from ``first_row``."""
        X, edges, scale = stacked(views).astype(np.float64), edges_of(views), scales(spreads)
        levels = max(0, int(np.ceil(np.log2(max(1, len(X)) / LEAF))))
        width = np.sqrt(np.repeat(scale, np.diff(edges)))  # of a channel, in units of the joint distance
        order, stretches, low, high, first = _divide(X, width, levels)
        return cls(X[order], first_row + order, edges, scale, stretches, low, high, first_row + first)

    def nearest(self, points: Sequence[NDArray], k: int) -> Nearest:
        """The k samples nearest to each of m points, K arrays (m, d_v); ties go to the lower number."""
        P = stacked(points).astype(np.float64)
        found = Nearest.none(len(P), k)
        _search(
            P, self.X, self.rows, self.edges, self.scale, self.stretches, self.low, self.high, self.first,
            found.distances, found.rows,
        )  # fmt: skip
        return found


@numba.njit(cache=True, nogil=True)
def _divide(X, width, levels):  # type: ignore[no-untyped-def]
    """The order of the samples, and every box: its stretch of that order, its bounds, its lowest number."""
    n, d = X.shape
    boxes = 2 ** (levels + 1) - 1
    order = np.arange(n)
    stretches = np.zeros((boxes, 2), dtype=np.int64)
    stretches[0, 1] = n
    low, high = np.empty((boxes, d)), np.empty((boxes, d))
    first = np.empty(boxes, dtype=np.int64)
    for box in range(boxes):
        a, b = stretches[box]
        low[box], high[box], first[box] = np.inf, -np.inf, n
        for j in order[a:b]:
            first[box] = min(first[box], j)
            for c in range(d):
                low[box, c] = min(low[box, c], X[j, c])
                high[box, c] = max(high[box, c], X[j, c])
        if box >= boxes // 2:
            continue
        middle = (a + b) // 2
        if a < middle:
            widest = np.argmax((high[box] - low[box]) * width)
            some = order[a:b].copy()
            order[a:b] = some[np.argpartition(X[some, widest], middle - a)]
        stretches[2 * box + 1] = a, middle
        stretches[2 * box + 2] = middle, b
    return order, stretches, low, high, first


@numba.njit(cache=True, nogil=True)
def _bound(p, low, high, edges, scale):  # type: ignore[no-untyped-def]
    """No sample of a box is nearer than this; to the last digit, because it is rounded as the distances are."""
    largest = 0.0
    for v in range(len(scale)):
        total = 0.0
        for c in range(edges[v], edges[v + 1]):
            gap = max(low[c] - p[c], p[c] - high[c], 0.0)
            total += gap**2
        largest = max(largest, total * scale[v])
    return largest


@numba.njit(cache=True, nogil=True)
def _search(P, X, rows, edges, scale, stretches, low, high, first, distances, found):  # type: ignore[no-untyped-def]
    k, inner = distances.shape[1], len(stretches) // 2
    waiting, bounds = np.empty(64, dtype=np.int64), np.empty(64)
    for i in range(len(P)):
        p, D, at = P[i], distances[i], found[i]
        waiting[0], bounds[0], count = 0, 0.0, 1
        while count > 0:
            count -= 1
            box = waiting[count]
            if bounds[count] > D[k - 1] or (bounds[count] == D[k - 1] and first[box] > at[k - 1] >= 0):
                continue
            if box >= inner:
                for j in range(stretches[box, 0], stretches[box, 1]):
                    d = joint_distance(X[j], p, edges, scale)
                    if d <= D[k - 1]:
                        insert(D, at, d, rows[j])
                continue
            near, far = 2 * box + 1, 2 * box + 2
            near_bound = _bound(p, low[near], high[near], edges, scale)
            far_bound = _bound(p, low[far], high[far], edges, scale)
            if far_bound < near_bound:
                near, far, near_bound, far_bound = far, near, far_bound, near_bound
            waiting[count], bounds[count] = far, far_bound
            waiting[count + 1], bounds[count + 1] = near, near_bound  # looked at first
            count += 2

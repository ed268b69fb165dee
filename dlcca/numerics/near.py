"""Compiled selection: which landmarks are near a sample, and which samples are near a landmark, in one pass.

Selecting by NumPy passes over every distance several times; here each distance is looked at once, while it is in the
cache. Compiled by numba at the first call and kept in its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

#: Rows of distances made at a time: 512 x 2000 landmarks in float32 stay in the cache of a core.
TILE = 512


@dataclass
class Nearest:
    """The k samples nearest to each of m landmarks so far, nearest first."""

    distances: NDArray  # (m, k), infinite where fewer have been seen
    rows: NDArray[np.int64]  # (m, k), -1 where fewer have been seen

    @classmethod
    def none(cls, m: int, k: int) -> Nearest:
        return cls(np.full((m, k), np.inf), np.full((m, k), -1, dtype=np.int64))


def near_both_ways(
    views: Sequence[NDArray],
    points: Sequence[NDArray],
    spreads: Sequence[float],
    *,
    n_links: int,
    first_row: int,
    nearest: Nearest | None,
) -> list[NDArray[np.int32]]:
    """Links of a block of samples in every view, and the block's part in the landmarks' neighborhoods.

    Parameters
    ----------
    views : K arrays (b, d_v), a block of samples
    points : K arrays (m, d_v), the landmarks
    spreads : K, unit of the views' distances in the joint space
    n_links : nearest landmarks of a sample wanted in each view; 0 for none
    first_row : row number of the block's first sample
    nearest : updated in place with the block's samples, by the largest of the views' distances; None for no search

    Returns
    -------
    links : K arrays (b, n_links), nearest first
    """
    K, b, m = len(views), len(views[0]), len(points[0])
    dtype = np.result_type(*views)
    shrink = [_shrinking(s, dtype) for s in spreads]
    centres = [_centre(P, float(f)).astype(dtype) for P, f in zip(points, shrink, strict=True)]
    near_zero = [(P - c) * f for P, c, f in zip(points, centres, shrink, strict=True)]
    minus_two = [np.ascontiguousarray(-2 * P.T, dtype=dtype) for P in near_zero]
    lengths = np.stack([(P**2).sum(axis=1) for P in near_zero]).astype(dtype)
    scale = np.array([1 / (float(f) * s) ** 2 if s > 0 else 1 for f, s in zip(shrink, spreads, strict=True)], dtype)
    links = np.empty((K, b, n_links), dtype=np.int32)
    seen = nearest if nearest is not None else Nearest.none(m, 0)
    products = np.empty((K, TILE, m), dtype=dtype)
    sizes = np.empty((K, TILE), dtype=dtype)
    for start in range(0, b, TILE):
        stop = min(b, start + TILE)
        for v in range(K):
            X = (views[v][start:stop] - centres[v]) * shrink[v]
            np.matmul(X, minus_two[v], out=products[v, : stop - start])
            np.einsum("bd,bd->b", X, X, out=sizes[v, : stop - start])
        # Whole arrays, not slices of them: of a slice the compiler does not know that its entries lie side by side.
        _select(stop - start, products, sizes, lengths, scale, links, start, seen.distances, seen.rows, first_row)
    return list(links)


def _shrinking(spread: float, dtype: np.dtype) -> np.floating:
    """The power of two that brings a view near 1: squares of 1e20 or 1e-20 have no place in float32.

    No other factor would do: this one changes no digit, so that ties stay ties.
    """
    kind = np.finfo(dtype)
    return np.ldexp(dtype.type(1), -int(np.clip(np.frexp(spread)[1], kind.minexp + 2, kind.maxexp - 2)))


def _centre(P: NDArray, shrink: float) -> NDArray[np.float64]:
    """The mean of the landmarks, in so few digits that whole numbers less it have exact squares, and ties stay ties."""
    steps = shrink * 2.0 ** np.ceil(np.log2(2 * np.sqrt(P.shape[1])))  # fine enough to lie well within the spread
    return np.rint(P.mean(axis=0, dtype=np.float64) * steps) / steps


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _select(b, products, sizes, lengths, scale, links, start, distances, rows, first_row):  # type: ignore[no-untyped-def]
    """One tile: update every sample's links and every landmark's nearest samples.

    Distances of a sample are made in a loop without branches, which the compiler turns into vector instructions; the
    loops that select then only compare, and seldom find anything to do.
    """
    K, _tile, m = products.shape
    s, k = links.shape[2], distances.shape[1]
    zero, far = products.dtype.type(0), products.dtype.type(np.inf)
    near = np.empty(max(s, 1), dtype=products.dtype)
    joint = np.empty(m, dtype=products.dtype)
    # The bound of each landmark side by side: in `distances` they lie k entries apart.
    worst = np.empty(m, dtype=np.float64)
    for i in range(m):
        worst[i] = distances[i, k - 1] if k > 0 else -np.inf
    for j in range(b):
        for i in range(m):
            joint[i] = zero
        for v in range(K):
            D = products[v, j]
            size, factor = sizes[v, j], scale[v]
            for i in range(m):
                D[i] = max(D[i] + lengths[v, i] + size, zero)
                joint[i] = max(joint[i], D[i] * factor)
            if s > 0:
                near[:] = far
                bound = far
                chosen = links[v, start + j]
                for i in range(m):
                    if D[i] < bound:
                        d = D[i]
                        at = s - 1
                        while at > 0 and near[at - 1] > d:
                            near[at] = near[at - 1]
                            chosen[at] = chosen[at - 1]
                            at -= 1
                        near[at] = d
                        chosen[at] = i
                        bound = near[s - 1]
        if k > 0:
            for i in range(m):
                if joint[i] < worst[i]:
                    d = joint[i]
                    at = k - 1
                    while at > 0 and distances[i, at - 1] > d:
                        distances[i, at] = distances[i, at - 1]
                        rows[i, at] = rows[i, at - 1]
                        at -= 1
                    distances[i, at] = d
                    rows[i, at] = first_row + start + j
                    worst[i] = distances[i, k - 1]


def merged(parts: Sequence[Nearest]) -> Nearest:
    """The nearest of several blocks together; equal distances go to the lower row."""
    distances = np.concatenate([p.distances for p in parts], axis=1)
    rows = np.concatenate([p.rows for p in parts], axis=1)
    k = parts[0].distances.shape[1]
    order = np.lexsort((rows, distances), axis=1)[:, :k]
    return Nearest(np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1))

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

#: Distances made at a time: 512 rows to 2000 landmarks in float32 stay in the cache of a core.
TILE_ENTRIES = 1 << 20
#: Steps by which the bound of a selection is found: to a thousandth of the spread of what it is sought among.
HALVINGS = 10
#: Entries of a stack, among which one is the least.
HEIGHT = 8
#: Landmarks that are compared at a time before any of them is looked at alone.
STRETCH = 64


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
    k = nearest.rows.shape[1] if nearest is not None else 0
    found = np.full((m, k), np.inf, dtype), np.full((m, k), -1, np.int32)  # small, to stay in the cache
    tile = int(np.clip(TILE_ENTRIES // m, 1, b))
    products = np.empty((K, tile, m), dtype=dtype)
    sizes = np.empty((K, tile), dtype=dtype)
    for start in range(0, b, tile):
        stop = min(b, start + tile)
        for v in range(K):
            X = (views[v][start:stop] - centres[v]) * shrink[v]
            np.matmul(X, minus_two[v], out=products[v, : stop - start])
            np.einsum("bd,bd->b", X, X, out=sizes[v, : stop - start])
        # Whole arrays, not slices of them: of a slice the compiler does not know that its entries lie side by side.
        _select(stop - start, products, sizes, lengths, scale, links, start, *found)
    if nearest is not None:
        here = Nearest(found[0].astype(np.float64), np.where(found[1] < 0, -1, first_row + found[1].astype(np.int64)))
        everywhere = merged([nearest, here])
        nearest.distances[:], nearest.rows[:] = everywhere.distances, everywhere.rows
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
def _select(b, products, sizes, lengths, scale, links, start, distances, rows):  # type: ignore[no-untyped-def]
    """One tile: update every sample's links and every landmark's nearest samples.

    The loops that make distances and bounds have no branches and write where they do not read, so that the compiler
    turns them into vector instructions; the loops that select seldom find anything to do.
    """
    K, _tile, m = products.shape
    s, k = links.shape[2], distances.shape[1]
    dtype = products.dtype.type
    stacks = -(-m // HEIGHT)
    D = np.full(HEIGHT * stacks, dtype(np.inf))
    least = np.empty(stacks, dtype=products.dtype)
    near = np.empty(max(s, 1), dtype=products.dtype)
    joint = np.zeros((2, m), dtype=products.dtype)
    # The bound of each landmark side by side: in `distances` they lie k entries apart.
    worst = np.empty(m, dtype=products.dtype)
    for i in range(m):
        worst[i] = distances[i, k - 1] if k > 0 else -np.inf
    for j in range(b):
        joint[0] = dtype(0)
        for v in range(K):
            _complete(products[v, j], lengths[v], sizes[v, j], D)
            if s > 0:
                _smallest(D, m, least, near, links[v, start + j])
            if k > 0:
                _larger(joint[v % 2], D, scale[v], joint[(v + 1) % 2])
        if k > 0:
            _keep(joint[K % 2], worst, distances, rows, start + j)


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _complete(product, lengths, size, D):  # type: ignore[no-untyped-def]
    """D = |x|² - 2 x·p + |p|², of which the product is known."""
    for i in range(len(product)):
        D[i] = max(product[i] + lengths[i] + size, product.dtype.type(0))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _larger(A, B, factor, out):  # type: ignore[no-untyped-def]
    for i in range(len(A)):
        out[i] = max(A[i], B[i] * factor)


@numba.njit(cache=True, nogil=True)
def _smallest(D, m, least, near, chosen):  # type: ignore[no-untyped-def]
    """The places of the smallest of m entries of D, smallest first and equal ones in their order.

    D is taken as stacks of entries that lie len(least) apart. The s-th smallest of the stacks' least entries bounds the
    s-th smallest entry from above, and closely: few entries are left to be sorted, and most stacks need no look.
    """
    stacks, s = len(least), len(chosen)
    bound = np.inf
    if stacks >= s:
        _tops(D.reshape(HEIGHT, stacks), least)
        bound = _bound(least, s)
    else:
        least[:] = -np.inf
    found = 0
    for g in range(stacks):
        if least[g] <= bound:
            for i in range(g, m, stacks):
                d = D[i]
                if d <= bound:
                    if found < s:
                        at = found
                        found += 1
                    elif d < near[s - 1] or (d == near[s - 1] and i < chosen[s - 1]):
                        at = s - 1
                    else:
                        continue
                    while at > 0 and (near[at - 1] > d or (near[at - 1] == d and chosen[at - 1] > i)):
                        near[at] = near[at - 1]
                        chosen[at] = chosen[at - 1]
                        at -= 1
                    near[at] = d
                    chosen[at] = i


@numba.njit(cache=True, nogil=True)
def _tops(E, least):  # type: ignore[no-untyped-def]
    """The least entry of every stack; written out, because a loop over its height would not become vector code."""
    for g in range(len(least)):
        a, b = min(E[0, g], E[1, g]), min(E[2, g], E[3, g])
        c, d = min(E[4, g], E[5, g]), min(E[6, g], E[7, g])
        least[g] = min(min(a, b), min(c, d))


@numba.njit(cache=True, nogil=True)
def _bound(values, s):  # type: ignore[no-untyped-def]
    """A number that at least s of the values do not exceed, and not many more, by halving: counting needs no branch."""
    low, high = values.min(), values.max()
    if high == np.inf:  # a stack of nothing but filling; or distances beyond all numbers
        return high
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        count = 0
        for g in range(len(values)):
            count += values[g] <= middle
        if count >= s:
            high = middle
        else:
            low = middle
    return high


@numba.njit(cache=True, nogil=True)
def _keep(joint, worst, distances, rows, row):  # type: ignore[no-untyped-def]
    """Take a sample into the neighborhoods of the landmarks that it is nearer to than their farthest neighbour."""
    m, k = distances.shape
    for first in range(0, m, STRETCH):
        here, bounds = joint[first : first + STRETCH], worst[first : first + STRETCH]
        nearer = 0
        for i in range(len(here)):
            nearer += here[i] < bounds[i]
        if nearer == 0:
            continue
        for i in range(first, first + len(here)):
            if joint[i] < worst[i]:
                d = joint[i]
                at = k - 1
                while at > 0 and distances[i, at - 1] > d:
                    distances[i, at] = distances[i, at - 1]
                    rows[i, at] = rows[i, at - 1]
                    at -= 1
                distances[i, at] = d
                rows[i, at] = row
                worst[i] = distances[i, k - 1]


def merged(parts: Sequence[Nearest]) -> Nearest:
    """The nearest of several blocks together; equal distances go to the lower row."""
    distances = np.concatenate([p.distances for p in parts], axis=1)
    rows = np.concatenate([p.rows for p in parts], axis=1)
    k = parts[0].distances.shape[1]
    order = np.lexsort((rows, distances), axis=1)[:, :k]
    return Nearest(np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1))

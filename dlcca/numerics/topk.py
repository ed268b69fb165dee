"""Selection of the nearest: landmarks of a sample, samples of a landmark, the smallest entries of a matrix.

Ties go to the lower number everywhere, so that results do not depend on blocks. Where all pairs are compared, distances
come from matrix products; the candidates of a tree or an index are compared one by one, channel by channel and in
float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.distances import Axes, project, squared_distances

Rows = NDArray[np.int64]

#: Pairs of samples and landmarks that NumPy compares before numba, which is faster, has been imported.
FEW_PAIRS = 1 << 25
#: Distances made at a time: 512 rows to 2000 landmarks in float32 stay in the cache of a core.
TILE_ENTRIES = 1 << 20


def smallest(D: NDArray, k: int) -> Rows:
    """Columns of the k smallest entries of each row of D, nearest first; ties go to the lower column."""
    if k >= D.shape[1]:
        return np.argsort(D, axis=1, kind="stable")
    # argpartition breaks ties anyhow it likes: the k-th value bounds the candidates, a stable order decides.
    bound = np.partition(D, k - 1, axis=1)[:, k - 1, None]
    inside = np.flatnonzero(D <= bound)
    if inside.size > len(D) * k:  # of the entries that are equal to the k-th, the first ones that make k
        below, tied = D < bound, D == bound
        room = k - below.sum(axis=1, keepdims=True)
        inside = np.flatnonzero(below | (tied & (np.cumsum(tied, axis=1) <= room)))
    columns = inside.reshape(len(D), k) % D.shape[1]
    order = np.argsort(np.take_along_axis(D, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def nearest_links(X: NDArray, X_L: NDArray, s: int, axes: Axes | None = None, *, block: int = 512) -> Rows:
    """The s landmarks nearest to each sample by distance along a view's axes, nearest first: (n, s).

    The links of ``alternating`` fusion: each view's kernel stays within the view's own neighborhoods, where the
    local metrics are valid, and the product of the views carries it far.
    """
    X_L = project(X_L, axes)
    blocks = (project(X[first : first + block], axes) for first in range(0, len(X), block))
    return np.concatenate([smallest(squared_distances(some, X_L), s) for some in blocks])


def closest_links(D: NDArray, s: int) -> tuple[Rows, NDArray]:
    """The s smallest distances of each row of D and their columns: (n, s) each.

    The links of ``view`` and ``average`` fusion. Neighbours in the raw view would let its private part back in.
    """
    links = smallest(D, s)
    return links, np.take_along_axis(D, links, axis=1)


def jointly_nearest(
    points: Sequence[NDArray], samples: Sequence[NDArray], spreads: Sequence[float], k: int, *, block: int = 256
) -> tuple[Rows, NDArray]:
    """The k rows of ``samples`` nearest to each point, (m, k), and their squared distances: the largest of the views'.

    From K arrays (m, d_v) and (n, d_v), and the ``spreads`` in units of which the views' distances are measured.
    ``block`` points are handled at a time, which bounds the memory.
    """
    found, known = [], list(zip(scales(spreads), points, samples, strict=True))
    for i in range(0, len(points[0]), block):
        D = [scale * squared_distances(P[i : i + block], X) for scale, P, X in known]
        found.append(closest_links(np.maximum.reduce(D), k))
    rows, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, distances


@dataclass
class Nearest:
    """The k samples nearest to each of m landmarks among those seen, nearest first."""

    distances: NDArray  # (m, k), infinite where fewer have been seen
    rows: NDArray[np.int64]  # (m, k), -1 where fewer have been seen

    @classmethod
    def none(cls, m: int, k: int) -> Self:
        return cls(np.full((m, k), np.inf), np.full((m, k), -1, dtype=np.int64))


def block_links(
    views: Sequence[NDArray], points: Sequence[NDArray], spreads: Sequence[float], s: int, *, few_pairs: int = 0
) -> list[NDArray[np.int32]]:
    """Links of a block of samples in every view, K arrays (b, s): the nearest landmarks, nearest first.

    Of K ``views`` (b, d_v), the block, and ``points`` (m, d_v), the landmarks; the ``spreads`` are about those of the
    views. Up to ``few_pairs`` pairs of a sample and a landmark NumPy sorts distances, without importing numba.
    """
    if len(views[0]) * len(points[0]) <= few_pairs:
        return [nearest_links(X, P, s).astype(np.int32) for X, P in zip(views, points, strict=True)]
    return _by_compiled(views, points, spreads, s, 0)[0]


def block_neighbors(
    views: Sequence[NDArray],
    points: Sequence[NDArray],
    spreads: Sequence[float],
    k: int,
    *,
    first_row: int = 0,
    few_pairs: int = 0,
) -> Nearest:
    """The part of a block of samples, numbered from ``first_row``, in the landmarks' neighborhoods.

    The k samples nearest to each landmark, by the largest of the views' distances in units of their ``spreads``; the
    rest as in `block_links`.
    """
    if len(views[0]) * len(points[0]) <= few_pairs:
        rows, distances = jointly_nearest(points, views, spreads, k)
    else:
        _, distances, rows = _by_compiled(views, points, spreads, 0, k)
    nearest, found = Nearest.none(len(points[0]), k), slice(rows.shape[1])  # fewer where the block has fewer samples
    nearest.distances[:, found] = distances
    nearest.rows[:, found] = np.where(rows < 0, -1, first_row + rows.astype(np.int64))
    return nearest


def _by_compiled(
    views: Sequence[NDArray], points: Sequence[NDArray], spreads: Sequence[float], n_links: int, k: int
) -> tuple[list[NDArray[np.int32]], NDArray, NDArray]:
    """By matrix products of tiles that stay in the cache, and compiled selection.

    The links of every view, and the distances and places in the block of each landmark's k nearest samples, (m, k).
    """
    from dlcca.numerics import compiled

    K, b, m = len(views), len(views[0]), len(points[0])
    dtype = np.result_type(*views)
    shrink = [_shrinking(s, dtype) for s in spreads]
    centres = [_centre(P, float(f)).astype(dtype) for P, f in zip(points, shrink, strict=True)]
    near_zero = [(P - c) * f for P, c, f in zip(points, centres, shrink, strict=True)]
    minus_two = [np.ascontiguousarray(-2 * P.T, dtype=dtype) for P in near_zero]
    lengths = np.stack([(P**2).sum(axis=1) for P in near_zero]).astype(dtype)
    scale = np.array([1 / (float(f) * s) ** 2 if s > 0 else 1 for f, s in zip(shrink, spreads, strict=True)], dtype)
    links = np.empty((K, b, n_links), dtype=np.int32)
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
        compiled.select_tile(stop - start, products, sizes, lengths, scale, links, start, *found)
    return list(links), *found


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
    """Give each point its nearest among its candidates, by the largest of the views' squared distances, in place.

    ``points`` are K arrays (m, d_v), ``samples`` (b, d_1 + ... + d_K) the views side by side, numbered from
    ``first_row``, and ``spreads`` the units of the views' distances. ``candidates`` (m, c) are samples in any order;
    negative ones are none, and one that comes twice counts once.
    """
    from dlcca.numerics import compiled

    found = nearest.distances, nearest.rows
    compiled.rank_candidates(stacked(points), samples, edges_of(points), scales(spreads), candidates, *found, first_row)


def add(nearest: Nearest, part: Nearest) -> None:
    """Take the neighbours found elsewhere into ``nearest``, in place; equal distances go to the lower row.

    The order is total, so that parts may be added in any order and grouping.
    """
    from dlcca.numerics import compiled

    compiled.merge_nearest(nearest.distances, nearest.rows, part.distances, part.rows)

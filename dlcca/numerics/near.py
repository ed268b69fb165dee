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
    centres = [P.mean(axis=0, dtype=np.float64).astype(dtype) for P in points]
    minus_two = [np.ascontiguousarray(-2 * (P - c).T, dtype=dtype) for P, c in zip(points, centres, strict=True)]
    lengths = np.stack([((P - c) ** 2).sum(axis=1) for P, c in zip(points, centres, strict=True)]).astype(dtype)
    scale = np.array([1 / max(s, np.finfo(np.float64).tiny) ** 2 for s in spreads]).astype(dtype)
    links = np.empty((K, b, n_links), dtype=np.int32)
    seen = nearest if nearest is not None else Nearest.none(m, 0)
    products = np.empty((K, TILE, m), dtype=dtype)
    sizes = np.empty((K, TILE), dtype=dtype)
    for start in range(0, b, TILE):
        stop = min(b, start + TILE)
        for v in range(K):
            X = views[v][start:stop] - centres[v]
            np.matmul(X, minus_two[v], out=products[v, : stop - start])
            np.einsum("bd,bd->b", X, X, out=sizes[v, : stop - start])
        _select(
            products[:, : stop - start],
            sizes[:, : stop - start],
            lengths,
            scale,
            links[:, start:stop],
            seen.distances,
            seen.rows,
            first_row + start,
        )
    return list(links)


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _select(products, sizes, lengths, scale, links, distances, rows, first_row):  # type: ignore[no-untyped-def]
    """One tile: update every sample's links and every landmark's nearest samples."""
    K, b, m = products.shape
    s, k = links.shape[2], distances.shape[1]
    near = np.empty(max(s, 1), dtype=products.dtype)
    joint = np.empty(m, dtype=products.dtype)
    for j in range(b):
        joint[:] = 0
        for v in range(K):
            if s > 0:
                near[:] = np.inf
                bound = products.dtype.type(np.inf)
            for i in range(m):
                d = max(products[v, j, i] + lengths[v, i] + sizes[v, j], products.dtype.type(0))
                joint[i] = max(joint[i], d * scale[v])
                if s > 0 and d < bound:
                    at = s - 1
                    while at > 0 and near[at - 1] > d:
                        near[at] = near[at - 1]
                        links[v, j, at] = links[v, j, at - 1]
                        at -= 1
                    near[at] = d
                    links[v, j, at] = i
                    bound = near[s - 1]
        if k > 0:
            for i in range(m):
                d = joint[i]
                if d < distances[i, k - 1]:
                    at = k - 1
                    while at > 0 and distances[i, at - 1] > d:
                        distances[i, at] = distances[i, at - 1]
                        rows[i, at] = rows[i, at - 1]
                        at -= 1
                    distances[i, at] = d
                    rows[i, at] = first_row + j


def merged(parts: Sequence[Nearest]) -> Nearest:
    """The nearest of several blocks together; equal distances go to the lower row."""
    distances = np.concatenate([p.distances for p in parts], axis=1)
    rows = np.concatenate([p.rows for p in parts], axis=1)
    k = parts[0].distances.shape[1]
    order = np.lexsort((rows, distances), axis=1)[:, :k]
    return Nearest(np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1))

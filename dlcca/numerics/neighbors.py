"""Neighborhoods in the joint space: the samples that are near a landmark in every view at once.

`joint_neighbors` compares all pairs. `Tree` is exact too, for views of few channels; `Index` is approximate, by
pynndescent, which is imported and compiled (a minute or more) when the first index is made in a process.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.topk import Nearest, Rows, edges_of, jointly_nearest, rank, scales, stacked

#: Samples of a box that is not divided any more: fewer make more boxes, more make more distances.
LEAF = 16
#: Candidates queried, as a multiple of the neighbours wanted. A ball of the largest distance lies in a Euclidean one
#: that holds twice as many samples where two views have two dimensions each, and four times as many at eight each.
CANDIDATES = 2
#: How far beyond the candidates found the search looks on; pynndescent's own default is 0.1.
EPSILON = 0.15
#: So few samples are all candidates: no index is needed.
FEW = 1024
#: Samples of a shard, each with an index of its own. A sample takes its channels (4 or 8 bytes each), twice 4 bytes for
#: each in the index, and some 1.2 kB of links: a shard of 128 channels in float32 takes 0.35 GB.
SHARD = 1 << 17
#: The same index for the same samples, in every process.
SEED = 0
#: numba's threads may be used by one thread of a process at a time.
_NUMBA_THREADS = threading.Lock()
#: Landmarks at which an approximate search is compared with the exact one.
CHECKED = 200


def spread(X: NDArray) -> float:
    """Root of the total variance of a view: the unit in which its distances are measured."""
    return float(np.sqrt(np.var(X, axis=0, dtype=np.float64).sum()))


def joint_space(views: Sequence[NDArray]) -> list[NDArray]:
    """Each view centred and divided by its spread, so that no view counts for more because of its unit."""
    return [(X - X.mean(axis=0, dtype=np.float64)) / (spread(X) or 1.0) for X in views]


def joint_neighbors(views: Sequence[NDArray], landmarks: Rows, k: int, *, block: int = 256) -> Rows:
    """The k rows (m, k) nearest to each landmark in the joint space, nearest first, itself included.

    Each of the K views (n, d_v) is divided by its spread; the distance of two samples is the largest of their distances
    in the views. ``landmarks`` (m,) are rows; ``block`` of them are handled at a time, which bounds the memory.
    """
    return jointly_nearest([X[landmarks] for X in views], views, [*map(spread, views)], k, block=block)[0]


@dataclass(frozen=True)
class Tree:
    """b samples, halved again and again along the channel in which they lie widest: for exact nearest neighbours.

    A tree of SciPy's knows Minkowski distances only, and ours is the largest of the views' Euclidean ones. In a box of
    samples each view's distance is bounded from below, and so is the largest of them: boxes that lie farther than the
    neighbours found are passed over. With few channels it compares a few hundred pairs of n.

    Box i is divided into 2i + 1 and 2i + 2. All boxes of a level have the same number of samples but for one.
    """

    X: NDArray[np.float64]  # (b, d) in the order of the boxes
    rows: NDArray[np.int64]  # (b,) the number of each
    edges: NDArray[np.int64]  # (K + 1,) channels of the views
    scale: NDArray[np.float64]  # (K,)
    boxes: tuple[NDArray, NDArray, NDArray, NDArray]  # first and last samples, lower and upper bounds, lowest numbers

    @classmethod
    def of(cls, views: Sequence[NDArray], spreads: Sequence[float], first_row: int = 0) -> Self:
        """A tree of K views (b, d_v), which are numbered from ``first_row``."""
        from dlcca.numerics import compiled

        X, edges, scale = stacked(views).astype(np.float64), edges_of(views), scales(spreads)
        levels = max(0, int(np.ceil(np.log2(max(1, len(X)) / LEAF))))
        width = np.sqrt(np.repeat(scale, np.diff(edges)))  # of a channel, in units of the joint distance
        order, ends, low, high, first = compiled.divide_boxes(X, width, levels)
        return cls(X[order], first_row + order, edges, scale, (ends, low, high, first_row + first))

    def nearest(self, points: Sequence[NDArray], k: int) -> Nearest:
        """The k samples nearest to each of m points, K arrays (m, d_v); ties go to the lower number."""
        from dlcca.numerics import compiled

        P = stacked(points).astype(np.float64)
        found = Nearest.none(len(P), k)
        tree = self.X, self.rows, self.edges, self.scale, *self.boxes
        compiled.search_boxes(P, *tree, found.distances, found.rows)
        return found


@dataclass(frozen=True)
class Index:
    """An index over b samples of K views, for approximate nearest neighbours that are ranked by exact distances.

    The index is Euclidean, over the views side by side, each in units of its spread. It is queried for more candidates
    than neighbours are wanted, and the candidates are ranked by the distance that counts, the largest of the views'.
    What is missed was no candidate; `recall` measures how much that is.
    """

    samples: NDArray  # (b, d_1 + ... + d_K) as they are, for the exact distances
    spreads: list[float]
    first_row: int
    graph: Any  # NNDescent; None where all samples are candidates

    @classmethod
    def of(cls, views: Sequence[NDArray], spreads: Sequence[float], first_row: int = 0) -> Self:
        """An index over K views (b, d_v), which are numbered from ``first_row``."""
        found = cls(stacked(views), list(spreads), first_row, None)
        if len(found.samples) <= FEW:
            return found
        from pynndescent import NNDescent

        with _NUMBA_THREADS:
            graph = NNDescent(found._joint(views), random_state=SEED, n_jobs=1)
            graph.prepare()
        return replace(found, graph=graph)

    def nearest(self, points: Sequence[NDArray], k: int) -> Nearest:
        """The k samples found nearest to each of m points, K arrays (m, d_v)."""
        b = len(self.samples)
        found = Nearest.none(len(points[0]), k)
        if self.graph is None:
            candidates = np.broadcast_to(np.arange(b), (len(points[0]), b))
        else:
            with _NUMBA_THREADS:
                rows, _ = self.graph.query(self._joint(points), k=min(b, CANDIDATES * k), epsilon=EPSILON)
                candidates = np.array(rows)  # its own: the next query may write over it
        rank(points, self.samples, self.spreads, candidates, found, self.first_row)
        return found

    def _joint(self, points: Sequence[NDArray]) -> NDArray[np.float32]:
        """Points (m, d) in the space of the index: each view from its first sample, in units of its spread.

        Of the unit two digits are enough, and rounding in it, which comes with the chunks, makes no other index.
        """
        units = [float(f"{s:.2g}") if s > 0 else 1.0 for s in self.spreads]
        X = stacked(points) - self.samples[0]
        return np.ascontiguousarray(X / np.repeat(units, np.diff(edges_of(points))), dtype=np.float32)


def shards(n: int) -> list[tuple[int, int]]:
    """Stretches of n samples, of equal length and at most `SHARD`: first row, and the row after the last."""
    count = -(-n // SHARD)
    return list(pairwise(n * i // count for i in range(count + 1)))


def recall(found: NDArray, exact: NDArray) -> float:
    """Share of the neighbours found that are as near as the exact ones: distances (m, k) of both.

    Samples at one distance are as good as each other, so that it is distances and not rows that are compared.
    """
    farthest = exact.max(axis=1, keepdims=True)
    return float((found <= farthest * (1 + 1e-9)).mean())


def compile_pynndescent() -> None:
    """Have pynndescent compiled in this process, by a small index."""
    X = np.random.default_rng(0).standard_normal((FEW + 1, 2))
    Index.of([X], [1.0]).nearest([X[:10]], 5)


def checked_landmarks(m: int) -> Rows:
    """Numbers of the landmarks at which a search is compared with the exact one: some of m, in rising order."""
    return np.sort(np.random.default_rng(m).permutation(m)[:CHECKED])

"""Approximate nearest neighbours by pynndescent, ranked by exact distances.

The index is Euclidean, over the views side by side, each in units of its spread. It is asked for more candidates than
neighbours are wanted, and the candidates are ranked by the distance that counts, the largest of the views'. Whatever is
missed was no candidate; `recall` says how much that is.

pynndescent is imported, and compiled for a minute or more, when the first index is made in a process.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.topk import Nearest
from dlcca.numerics.topk_merge import edges_of, rank, stacked

#: Candidates asked for, as a multiple of the neighbours wanted. A ball of the largest distance lies in a Euclidean one
#: that holds twice as many samples where two views have two dimensions each, and four times as many at eight each.
CANDIDATES = 2
#: How far beyond the candidates found the search looks on; pynndescent's own default is 0.1.
EPSILON = 0.15
#: So few samples are all candidates: no index is needed.
FEW = 1024
#: Samples of a shard, each with an index of its own. A sample takes its channels (4 or 8 bytes each), twice 4 bytes for
#: each in the index, and some 1.2 kB of links: a shard of 128 channels in float32 takes 0.35 GB.
SHARD = 1 << 17
#: The same index for the same samples, whoever asks for it.
SEED = 0

#: numba's threads may be used by one thread of a process at a time.
_ALONE = threading.Lock()


@dataclass(frozen=True)
class Index:
    """An index over b samples of K views."""

    samples: NDArray  # (b, d_1 + ... + d_K) as they are, for the exact distances
    spreads: list[float]
    first_row: int
    graph: Any  # NNDescent; None where all samples are candidates

    @classmethod
    def of(cls, views: Sequence[NDArray], spreads: Sequence[float], first_row: int = 0) -> Index:
        """An index over K views (b, d_v), which are numbered from ``first_row``."""
        found = cls(stacked(views), list(spreads), first_row, None)
        if len(found.samples) <= FEW:
            return found
        from pynndescent import NNDescent

        with _ALONE:
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
            with _ALONE:
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
    edges = [n * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def recall(found: NDArray, exact: NDArray) -> float:
    """Share of the neighbours found that are as near as the exact ones: distances (m, k) of both.

    Samples at one distance are as good as each other, so that it is distances and not rows that are compared.
    """
    farthest = exact.max(axis=1, keepdims=True)
    return float((found <= farthest * (1 + 1e-9)).mean())


def warm() -> None:
    """Have pynndescent compiled in this process."""
    X = np.random.default_rng(0).standard_normal((FEW + 1, 2))
    Index.of([X], [1.0]).nearest([X[:10]], 5)

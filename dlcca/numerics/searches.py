"""Neighbours of landmarks in arrays in memory, for more landmarks than can be compared with every sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.approximate import Index, recall, shards
from dlcca.numerics.neighborhoods import Rows, joint_neighbors, spread
from dlcca.numerics.topk import Nearest
from dlcca.numerics.topk_merge import add, rank, stacked
from dlcca.numerics.tree import Tree

#: Landmarks that ask an index at a time; bounds the memory.
ASKED = 8192
#: Landmarks at which an approximate search is held against the exact one.
CHECKED = 200


def tree_neighbors(views: Sequence[NDArray], landmarks: Rows, k: int) -> Rows:
    """What `joint_neighbors` gives, found by a tree: rows (m, k), nearest first."""
    return Tree.of(views, [spread(X) for X in views]).nearest([X[landmarks] for X in views], k).rows


def index_neighbors(views: Sequence[NDArray], landmarks: Rows, k: int) -> Rows:
    """Nearly what `joint_neighbors` gives, found by pynndescent, shard by shard: rows (m, k), nearest first."""
    spreads = [spread(X) for X in views]
    found = Nearest.none(len(landmarks), k)
    for first, last in shards(len(views[0])):
        index = Index.of([X[first:last] for X in views], spreads, first)
        for start in range(0, len(landmarks), ASKED):
            some = slice(start, start + ASKED)
            part = index.nearest([X[landmarks[some]] for X in views], k)
            add(Nearest(found.distances[some], found.rows[some]), part)
    return found.rows


def checked_landmarks(m: int) -> Rows:
    """Numbers of the landmarks at which a search is held against the exact one: some of m, in rising order."""
    return np.sort(np.random.default_rng(m).permutation(m)[:CHECKED])


def neighbor_recall(views: Sequence[NDArray], landmarks: Rows, neighbors: Rows) -> float:
    """Share of the true neighbours among those found, (m, k), at some of the landmarks."""
    some = checked_landmarks(len(landmarks))
    exact = joint_neighbors(views, landmarks[some], neighbors.shape[1], block=16)
    points, spreads = [X[landmarks[some]] for X in views], [spread(X) for X in views]
    samples, distances = stacked(views), []
    for rows in (neighbors[some], exact):
        ranked = Nearest.none(*rows.shape)
        rank(points, samples, spreads, rows, ranked)
        distances.append(ranked.distances)
    return recall(*distances)

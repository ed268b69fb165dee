"""Neighbours by a tree, and candidates ranked and merged, against loops over all pairs."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics import neighbors
from dlcca.numerics.neighbors import Tree, joint_neighbors
from dlcca.numerics.topk import Nearest, add, nearest_links, rank, stacked
from tests.numerics.cases import merged, quick, seeds, tree_neighbors
from tests.reference import neighborhoods as literal


def recording(rng, n, dims, levels, dtype=np.float64):
    """Views (n, d_v) of whole numbers below ``levels``, whose ties are ties to the last digit, or of any (None)."""
    draw = rng.standard_normal if levels is None else lambda shape: rng.integers(0, levels, shape)
    return [draw((n, d)).astype(dtype) for d in dims]


def literal_nearest(views, spreads, i, k):
    """The k rows nearest to row i and their distances, by a loop: ties to the lower row, row i no exception."""
    views = [X.astype(float) for X in views]
    everything = [(literal.joint_squared_distance(views, spreads, i, j), j) for j in range(len(views[0]))]
    return np.array(sorted(everything)[:k]).T


@quick
@given(data=st.data(), seed=seeds, levels=st.sampled_from([1, 2, 4, 50, None]), leaf=st.sampled_from([1, 3, 16]))
def test_a_tree_finds_the_literal_neighbors_with_ties_to_the_lower_row(data, seed, levels, leaf):
    rng = np.random.default_rng(seed)
    n = data.draw(st.integers(1, 40))
    views = recording(rng, n, data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)), levels)
    spreads = [2.0 ** rng.integers(-3, 4) for _ in views]  # division by a power of two is exact
    k = data.draw(st.integers(1, n))
    some = rng.permutation(n)[: data.draw(st.integers(1, n))]
    with patch.object(neighbors, "LEAF", leaf):
        found = Tree.of(views, spreads).nearest([X[some] for X in views], k)
    for i, row in enumerate(some):
        distances, rows = literal_nearest(views, spreads, row, k)
        if levels is not None:
            np.testing.assert_array_equal(found.rows[i], rows)
        np.testing.assert_allclose(found.distances[i], distances, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dims", [(3, 3), (1, 4), (5,), (2, 2, 2)])
def test_a_tree_of_many_samples_finds_what_all_pairs_give(dims, dtype):
    rng = np.random.default_rng(0)
    views = recording(rng, 3000, dims, None, dtype)
    landmarks = rng.permutation(3000)[:200]
    np.testing.assert_array_equal(tree_neighbors(views, landmarks, 40), joint_neighbors(views, landmarks, 40))


def test_a_tree_of_landmarks_gives_the_links_of_samples():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((700, 3))
    points = X[rng.permutation(700)[:90]]
    np.testing.assert_array_equal(Tree.of([points], [1.0]).nearest([X], 12).rows, nearest_links(X, points, 12))


def test_rows_are_numbered_from_the_first_and_places_without_a_sample_stay_open():
    X = np.array([[0.0], [2.0], [1.0]])
    found = Tree.of([X], [1.0], first_row=7).nearest([X[:1]], 5)
    np.testing.assert_array_equal(found.rows, [[7, 9, 8, -1, -1]])
    np.testing.assert_array_equal(found.distances, [[0, 1, 4, np.inf, np.inf]])


def test_a_tree_of_one_sample_again_and_again_gives_the_lowest_rows():
    X = np.full((5000, 2), 3.5)
    np.testing.assert_array_equal(Tree.of([X], [1.0]).nearest([X[:3]], 4).rows, np.tile(np.arange(4), (3, 1)))


def test_points_far_from_all_samples_find_the_nearest_too():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((500, 3))
    P = 1e6 * rng.standard_normal((20, 3))
    exact = np.argsort(((P[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :5]
    np.testing.assert_array_equal(Tree.of([X], [1.0]).nearest([P], 5).rows, exact)


def test_candidates_are_ranked_by_the_largest_of_the_views_distances_whatever_their_order():
    rng = np.random.default_rng(3)
    views, spreads = recording(rng, 60, (2, 3), 4), [2.0, 1.0]
    everything = np.array([rng.permutation(60) for _ in range(60)])
    found = Nearest.none(60, 9)
    rank(views, stacked(views), spreads, everything, found, first_row=100)
    exact = [literal_nearest(views, spreads, i, 9)[1] for i in range(60)]
    np.testing.assert_array_equal(found.rows - 100, exact)


def test_a_candidate_that_comes_twice_counts_once_and_a_negative_one_is_none():
    X = np.array([[0.0], [5.0], [1.0], [3.0]])
    found = Nearest.none(1, 4)
    rank([X[:1]], X, [1.0], np.array([[3, 2, -1, 2, 3, 2]]), found)
    np.testing.assert_array_equal(found.rows, [[2, 3, -1, -1]])


def test_parts_may_be_added_in_any_order_and_grouping():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, (40, 2)).astype(float)  # many ties
    parts = [Tree.of([X[first : first + 8]], [1.0], first).nearest([X[:6]], 11) for first in range(0, 40, 8)]
    whole = Tree.of([X], [1.0]).nearest([X[:6]], 11)
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        found = Nearest.none(6, 11)
        for part in order:
            add(found, parts[part])
        np.testing.assert_array_equal(found.rows, whole.rows)
        np.testing.assert_array_equal(found.distances, whole.distances)
    np.testing.assert_array_equal(merged(parts).rows, whole.rows)

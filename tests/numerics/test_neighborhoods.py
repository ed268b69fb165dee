"""Joint neighborhoods and the selection of the smallest, against loops and stable sorts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.distances import squared_distances
from dlcca.numerics.neighbors import joint_neighbors, joint_space, spread
from dlcca.numerics.topk import smallest
from tests.numerics.cases import quick, seeds
from tests.reference import neighborhoods as literal


def joint_distances(views, i):
    spreads = [literal.spread(X) for X in views]
    n = len(views[0])
    return np.array([literal.joint_squared_distance(views, spreads, i, j) for j in range(n)])


@st.composite
def recordings(draw, *, duplicates):
    """K views (n, d_v) in different units, some constant; with `duplicates`, moments that come back."""
    rng = np.random.default_rng(draw(seeds))
    n, K = draw(st.integers(2, 20)), draw(st.integers(1, 4))
    rows = rng.integers(0, max(1, n // 2), n) if duplicates else np.arange(n)
    views = []
    for v in range(K):
        d, unit = draw(st.integers(1, 3)), draw(st.sampled_from([1e-3, 1.0, 1e4]))
        still = v > 0 and draw(st.booleans())
        X = np.full((n, d), 0.1) if still else rng.standard_normal((n, d))[rows]
        views.append(unit * (X + rng.uniform(-3, 3)))
    return views


@quick
@given(seed=seeds, n=st.integers(1, 8), m=st.integers(1, 30), levels=st.sampled_from([1, 2, 5, 10**6]))
def test_smallest_equals_a_stable_sort_however_many_ties(seed, n, m, levels):
    D = np.random.default_rng(seed).integers(0, levels, (n, m)).astype(float)
    for k in sorted({1, m // 2 + 1, m, m + 3}):
        expected = np.argsort(D, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(smallest(D, k), expected)
        np.testing.assert_array_equal(smallest(D.astype(np.float32), k), expected)


def test_smallest_takes_infinite_distances_last():
    D = np.array([[np.inf, 1.0, np.inf, 0.0], [np.inf, np.inf, np.inf, 2.0]])
    np.testing.assert_array_equal(smallest(D, 3), [[3, 1, 0], [3, 0, 1]])


@quick
@given(views=recordings(duplicates=False))
def test_joint_neighbors_equal_the_literal_ones(views):
    n = len(views[0])
    for k in sorted({1, n // 2 + 1, n}):
        expected = [literal.joint_neighbors(views, i, k) for i in range(n)]
        np.testing.assert_array_equal(joint_neighbors(views, np.arange(n), k), expected)


@quick
@given(views=recordings(duplicates=True))
def test_joint_neighbors_are_as_near_as_the_literal_ones_where_moments_come_back(views):
    # Which of several equal samples is taken is open; how far those taken are is not.
    n = len(views[0])
    for k in sorted({1, n // 2 + 1, n}):
        found = joint_neighbors(views, np.arange(n), k)
        for i in range(n):
            D = joint_distances(views, i)
            np.testing.assert_allclose(D[found[i]], D[literal.joint_neighbors(views, i, k)], atol=1e-12)
            assert len(set(found[i])) == k


@quick
@given(views=recordings(duplicates=False), seed=seeds)
def test_joint_neighbors_depend_on_neither_the_block_nor_the_units(views, seed):
    n = len(views[0])
    rng = np.random.default_rng(seed)
    landmarks = rng.permutation(n)[: n // 2 + 1]
    k = n // 2 + 1
    found = joint_neighbors(views, landmarks, k)
    np.testing.assert_array_equal(found, joint_neighbors(views, landmarks, k, block=3))
    other = [X * scale + 5 for X, scale in zip(views, rng.uniform(0.1, 10, len(views)), strict=True)]
    np.testing.assert_array_equal(found, joint_neighbors(other, landmarks, k))


@quick
@given(views=recordings(duplicates=False))
def test_views_in_the_joint_space_are_centred_and_have_unit_spread(views):
    for X, scaled in zip(views, joint_space(views), strict=True):
        assert spread(X) == pytest.approx(literal.spread(X), rel=1e-9, abs=1e-11)
        if np.ptp(X) > 0:
            assert spread(scaled) == pytest.approx(1)
            np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-9)


@quick
@given(seed=seeds, n=st.integers(1, 9), m=st.integers(1, 9), d=st.integers(1, 5))
def test_squared_distances_equal_those_of_a_loop(seed, n, m, d):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    expected = [[np.sum((x - y) ** 2) for y in Y] for x in X]
    np.testing.assert_allclose(squared_distances(X, Y), expected, atol=1e-12)
    single = squared_distances(X.astype(np.float32), Y.astype(np.float32))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, expected, atol=1e-5)


def test_squared_distances_survive_an_offset_far_above_the_spread():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, (30, 3)).astype(float)
    np.testing.assert_array_equal(squared_distances(X + 1e10, X[:7] + 1e10), squared_distances(X, X[:7]))


def test_squared_distances_are_never_negative():
    X = np.random.default_rng(0).standard_normal((200, 7))
    assert (squared_distances(X, X) >= 0).all()

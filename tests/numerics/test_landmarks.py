"""The choice of landmarks against its twin, and what random choices promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.landmarks import CANDIDATES, at_random, candidates, evenly, farthest_points, kmeans_plus_plus
from tests.numerics.cases import quick, seeds
from tests.reference import landmarks as literal


def points_on_a_grid(seed, n, d, levels):
    """Integer points, so that ties are ties to the last digit; with few levels many rows are equal."""
    return np.random.default_rng(seed).integers(0, levels, (n, d)).astype(float)


@pytest.mark.parametrize("n", [1, 2, 5, 17, 1000])
def test_even_landmarks_equal_the_literal_ones(n):
    for m in sorted({1, 2, n // 3 + 1, n}):
        if m <= n:
            np.testing.assert_array_equal(evenly(n, m), literal.evenly(n, m))


@quick
@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_even_landmarks_are_different_rows_in_rising_order(n, share):
    m = max(1, round(share * n))
    rows = evenly(n, m)
    assert len(rows) == m
    assert (np.diff(rows) > 0).all()
    assert rows[0] >= 0
    assert rows[-1] < n


@quick
@given(n=st.integers(1, 60), share=st.floats(0, 1), seed=seeds)
def test_random_landmarks_are_different_rows_the_same_for_a_seed(n, share, seed):
    m = max(1, round(share * n))
    rows = at_random(n, m, np.random.default_rng(seed))
    assert len(rows) == m
    assert (np.diff(rows) > 0).all()
    assert rows[0] >= 0
    assert rows[-1] < n
    np.testing.assert_array_equal(rows, at_random(n, m, np.random.default_rng(seed)))


def test_landmarks_of_a_long_recording_are_sought_in_a_part_of_it():
    np.testing.assert_array_equal(candidates(CANDIDATES, 5, np.random.default_rng(0)), np.arange(CANDIDATES))
    for m, most in ((5, CANDIDATES), (CANDIDATES, 10 * CANDIDATES)):
        rows = candidates(10**6, m, np.random.default_rng(0))
        assert len(rows) == most
        assert (np.diff(rows) > 0).all()
        assert rows[-1] < 10**6


@quick
@given(seed=seeds, n=st.integers(2, 25), d=st.integers(1, 3), levels=st.sampled_from([2, 4, 1000]))
def test_farthest_points_equal_the_literal_ones_until_all_that_is_left_are_duplicates(seed, n, d, levels):
    X = points_on_a_grid(seed, n, d, levels)
    distinct = len(np.unique(X, axis=0))
    for m in (1, distinct // 2 + 1, distinct, n):
        found = farthest_points(X, m, start=seed % n)
        assert len(found) == min(m, distinct)
        np.testing.assert_array_equal(found, literal.farthest_points(X, min(m, distinct), seed % n))


@quick
@given(seed=seeds, n=st.integers(1, 40), d=st.integers(1, 3), levels=st.sampled_from([1, 2, 4, 1000]))
def test_kmeans_plus_plus_takes_distinct_points_and_stops_when_there_are_no_more(seed, n, d, levels):
    X = points_on_a_grid(seed, n, d, levels)
    distinct = len(np.unique(X, axis=0))
    for m in (1, distinct // 2 + 1, n):
        rows = kmeans_plus_plus(X, m, np.random.default_rng(seed))
        assert len(rows) == min(m, distinct)
        assert len(np.unique(X[rows], axis=0)) == len(rows)
        np.testing.assert_array_equal(rows, kmeans_plus_plus(X, m, np.random.default_rng(seed)))


def test_kmeans_plus_plus_draws_in_proportion_to_the_squared_gap():
    X = np.array([[0.0], [1.0], [3.0]])
    second = {0: [], 1: [], 2: []}
    rng = np.random.default_rng(0)
    for _ in range(6000):
        first, other = kmeans_plus_plus(X, 2, rng)
        second[int(first)].append(other)
    shares = {first: np.bincount(others, minlength=3) / len(others) for first, others in second.items()}
    np.testing.assert_allclose(shares[0], [0, 0.1, 0.9], atol=0.03)
    np.testing.assert_allclose(shares[1], [0.2, 0, 0.8], atol=0.03)
    np.testing.assert_allclose(shares[2], [9 / 13, 4 / 13, 0], atol=0.03)
    np.testing.assert_allclose([len(second[i]) / 6000 for i in range(3)], 1 / 3, atol=0.03)


@pytest.mark.parametrize("drawn", [0.0, 0.5, np.nextafter(1, 0)])
def test_kmeans_plus_plus_never_draws_a_point_that_it_has_already(drawn):
    class Rigged:
        def integers(self, n):
            return 0

        def random(self, count=None):
            return drawn if count is None else np.full(count, drawn)

    X = np.array([[0.0], [0.0], [2.0], [5.0], [5.0], [0.0]])
    assert sorted(X[kmeans_plus_plus(X, 6, Rigged()), 0]) == [0, 2, 5]


def one_at_a_time(apart, m, rng):
    """k-means++ as it is defined, of points that are so far apart: squared distances (n, n)."""
    chosen = [int(rng.integers(len(apart)))]
    while len(chosen) < m:
        gap = apart[:, chosen].min(axis=1)
        chosen.append(int(rng.choice(len(apart), p=gap / gap.sum())))
    return chosen


def test_kmeans_plus_plus_in_batches_follows_the_law_of_one_at_a_time():
    X = np.random.default_rng(3).exponential(size=(24, 2))
    apart = np.array([[(x - c) @ (x - c) for c in X] for x in X])
    m, times = 14, 1500  # the last batches are of two and three
    rng = np.random.default_rng(0)
    shares = [
        np.bincount(np.concatenate([draw(of, m, rng) for _ in range(times)]), minlength=24) / times
        for draw, of in ((kmeans_plus_plus, X), (one_at_a_time, apart))
    ]
    np.testing.assert_allclose(*shares, atol=4 * np.sqrt(2 * 0.25 / times))


def test_farthest_points_cover_better_than_chance():
    X = np.random.default_rng(0).standard_normal((500, 2))
    radius = [
        np.min(((X[:, None] - X[rows]) ** 2).sum(axis=2), axis=1).max()
        for rows in (farthest_points(X, 30, 0), at_random(500, 30, np.random.default_rng(0)))
    ]
    assert radius[0] < radius[1] / 2

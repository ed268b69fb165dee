"""Distances under local metrics against the pair-by-pair formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics import distances
from dlcca.numerics.distances import end_distances, landmark_distances, linked_distances, middle_distances
from tests.numerics.cases import TOLERANCE, assert_close, metrics, quick, seeds
from tests.reference import distances as literal


@st.composite
def samples(draw, dtypes=(np.float64, np.float32)):
    """X (n, d), row numbers of landmarks, their factors F (m, d, r) and the tolerance of the dtype."""
    rng = np.random.default_rng(draw(seeds))
    n, d, r = draw(st.integers(1, 20)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    m = draw(st.integers(1, n))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    X = (rng.standard_normal((n, d)) + rng.uniform(-2, 2)).astype(dtype)
    F = rng.standard_normal((m, d, r)).astype(dtype)
    if draw(st.booleans()):
        F[0] = 0  # a landmark that saw no change
    return X, rng.permutation(n)[:m], F, TOLERANCE[dtype] / 10


@quick
@given(given_samples=samples())
def test_landmark_distances_equal_the_literal_ones(given_samples):
    X, rows, F, tolerance = given_samples
    D = landmark_distances(X, X[rows], F)
    assert D.dtype == X.dtype
    assert (D >= 0).all()
    assert_close(D, literal.landmark_distances(X.astype(float), rows, metrics(F)), tolerance, floor=1)


@quick
@given(given_samples=samples(), seed=seeds, s=st.integers(1, 6))
def test_linked_distances_are_those_of_the_links(given_samples, seed, s):
    X, rows, F, tolerance = given_samples
    links = np.random.default_rng(seed).integers(0, len(rows), (len(X), s))  # some twice, some never
    D = linked_distances(X, X[rows], F, links)
    assert D.dtype == X.dtype
    expected = literal.landmark_distances(X.astype(float), rows, metrics(F))
    assert_close(D, np.take_along_axis(expected, links, axis=1), tolerance, floor=1)


@quick
@given(given_samples=samples(dtypes=(np.float64,)), seed=seeds)
def test_middle_distances_equal_the_literal_ones(given_samples, seed):
    X, _, F, tolerance = given_samples
    bend = np.random.default_rng(seed).standard_normal(X.shape[1])

    def factor_at(points):
        return F[0] * np.cosh(points @ bend)[:, None, None] + F[-1]

    def metric_at(point):
        return metrics(factor_at(point[None]))[0]

    D = middle_distances(X, factor_at)
    assert_close(D, literal.middle_distances(X, metric_at), tolerance)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diag(D), 0)


@quick
@given(given_samples=samples())
def test_end_distances_equal_the_literal_ones(given_samples):
    X, rows, F, tolerance = given_samples
    X = X[rows]
    Q = end_distances(X, F)
    assert_close(Q, literal.end_distances(X, metrics(F)), tolerance, floor=1)
    np.testing.assert_array_equal(Q, Q.T)


@quick
@given(given_samples=samples(dtypes=(np.float64,)))
def test_one_metric_for_all_makes_every_kind_of_distance_the_same(given_samples):
    X, _, F, tolerance = given_samples
    same = np.broadcast_to(F[-1], (len(X), *F[-1].shape))
    middle = middle_distances(X, lambda points: np.broadcast_to(F[-1], (len(points), *F[-1].shape)))
    assert_close(landmark_distances(X, X, same), middle, tolerance, floor=1)
    assert_close(end_distances(X, same), middle, tolerance, floor=1)


@pytest.mark.parametrize("entries", [1, 17, 60])
def test_distances_do_not_depend_on_the_block(entries, monkeypatch):
    rng = np.random.default_rng(0)
    X, F = rng.standard_normal((23, 3)), rng.standard_normal((5, 3, 2))
    whole = landmark_distances(X, X[:5], F)
    monkeypatch.setattr(distances, "BLOCK_ENTRIES", entries)
    np.testing.assert_allclose(landmark_distances(X, X[:5], F), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 4, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distances_do_not_depend_on_how_many_landmarks_are_multiplied_at_once(columns, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X, F = rng.standard_normal((23, 3)).astype(dtype), rng.standard_normal((5, 3, 2)).astype(dtype)
    exact = literal.landmark_distances(X.astype(float), range(5), metrics(F))
    monkeypatch.setattr(distances, "PANEL_COLUMNS", columns)
    monkeypatch.setattr(distances, "BLOCK_ENTRIES", 40)
    assert_close(landmark_distances(X, X[:5], F), exact, TOLERANCE[np.dtype(dtype)] / 10)


def test_the_distances_of_views_and_metrics_in_different_precision_are_in_the_higher():
    rng = np.random.default_rng(0)
    X, F = rng.standard_normal((9, 3)).astype(np.float32), rng.standard_normal((4, 3, 2))
    D = landmark_distances(X, X[:4], F)
    assert D.dtype == np.float64
    assert_close(D, literal.landmark_distances(X.astype(float), range(4), metrics(F)), 1e-6)


def test_linked_distances_to_all_landmarks_are_the_landmark_distances():
    rng = np.random.default_rng(0)
    X, F = rng.standard_normal((40, 3)), rng.standard_normal((7, 3, 2))
    links = np.broadcast_to(np.arange(7), (40, 7))
    np.testing.assert_allclose(linked_distances(X, X[:7], F, links), landmark_distances(X, X[:7], F), atol=1e-12)


@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e3), (np.float64, 1e8)])
def test_an_offset_far_above_the_spread_costs_only_the_digits_it_takes_in_the_data(dtype, offset):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((40, 3)) + offset).astype(dtype)
    F = rng.standard_normal((7, 3, 2)).astype(dtype)
    exact = literal.landmark_distances(X, range(7), metrics(F))
    assert_close(landmark_distances(X, X[:7], F), exact, 1e-5)
    links = np.broadcast_to(np.arange(7), (40, 7))
    assert_close(linked_distances(X, X[:7], F, links), exact, 1e-5)


def test_no_samples_have_no_distances():
    F = np.ones((2, 3, 1))
    assert landmark_distances(np.empty((0, 3)), np.zeros((2, 3)), F).shape == (0, 2)
    assert linked_distances(np.empty((0, 3)), np.zeros((2, 3)), F, np.empty((0, 2), np.int64)).shape == (0, 2)

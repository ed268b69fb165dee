"""Axes along which links are nearest, against the literal ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.distances import LEAST_SPREAD, MOST_CHANNELS, equalized, project
from dlcca.numerics.topk import nearest_links
from tests.numerics.cases import quick, seeds
from tests.reference import axes as literal


def points(seed, m=40, d=4, widest=30.0):
    """Landmarks that are much wider along some directions than along others, far from the origin."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return 100 + rng.standard_normal((m, d)) * np.geomspace(1, widest, d) @ turn


@quick
@given(seed=seeds, d=st.integers(1, 6), widest=st.floats(1, 1000))
def test_they_equal_the_literal_ones(seed, d, widest):
    P = points(seed, d=d, widest=widest)
    np.testing.assert_allclose(equalized([P]).of(P), literal.equalized(P, LEAST_SPREAD), atol=1e-7)


@quick
@given(seed=seeds, cut=st.integers(1, 39))
def test_landmarks_in_groups_have_the_axes_of_all(seed, cut):
    P = points(seed)
    whole, parted = equalized([P]), equalized([P[:cut], P[cut:]])
    np.testing.assert_allclose(parted.centre, whole.centre, rtol=1e-12)
    np.testing.assert_allclose(parted.turn, whole.turn, rtol=1e-9, atol=1e-12)


@quick
@given(seed=seeds)
def test_spreads_become_their_roots_and_add_up_to_one(seed):
    P = points(seed, m=400, widest=5)
    before, after = (np.linalg.eigvalsh(np.cov(Y.T, bias=True)) for Y in (P, equalized([P]).of(P)))
    assert after.sum() == pytest.approx(1)
    np.testing.assert_allclose(after / after[-1], np.sqrt(before / before[-1]), rtol=0.01)  # but for the least spread


@quick
@given(seed=seeds, scale=st.sampled_from([1e-15, 1e-3, 7.0, 1e15]))
def test_units_and_turns_of_the_channels_change_no_distance(seed, scale):
    P = points(seed)
    turn, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))
    Q = scale * P @ turn
    Y, Z = equalized([P]).of(P), equalized([Q]).of(Q)
    np.testing.assert_allclose(Z @ Z.T, Y @ Y.T, atol=1e-6)


def test_links_are_nearest_along_them_and_not_along_a_loud_channel():
    rng = np.random.default_rng(0)
    quiet, loud = rng.uniform(size=500), 10 * rng.uniform(size=500)
    X = np.stack([quiet, loud], axis=1)
    apart = [np.abs(quiet[nearest_links(X, X, 20, axes)] - quiet[:, None]).mean() for axes in (None, equalized([X]))]
    assert apart[1] < apart[0] / 1.5


def test_a_direction_without_extent_is_not_blown_up():
    P = points(0)
    flat = np.column_stack([P, np.full(len(P), 3.0)])
    axes = equalized([flat])
    off = flat[:1].copy()
    off[0, 4] += 1e-6
    assert np.abs(axes.of(off) - axes.of(flat[:1])).max() < 1e-4


def test_float32_stays_float32():
    P = points(1).astype(np.float32)
    assert equalized([P]).of(P).dtype == np.float32


def test_views_that_never_change_or_are_too_wide_have_none():
    assert equalized([np.ones((5, 3))]) is None
    assert equalized([np.zeros((2, MOST_CHANNELS + 1))]) is None
    X = points(2)
    assert project(X, None) is X

"""The sequential test at each landmark: against its twin, under chance, and on curves that are bent."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from dlcca import simulate
from dlcca.numerics.neighbors import joint_neighbors
from dlcca.numerics.principal import leading
from dlcca.numerics.windows import time_windows
from dlcca.trust.components import (
    FLOOR,
    all_steps,
    basis,
    chance,
    discoveries,
    effective_samples,
    first_step,
    n_directions,
    n_significant,
    p_values,
)
from tests.numerics.cases import quick
from tests.reference import common as literal


def neighborhoods(seed, m=6, k=60, shared=2, channels=(5, 7), noise=0.5):
    """Two views of m neighborhoods with some directions in common, one of them bent into another."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((m, k, shared))
    bent = np.concatenate([z, z[:, :, :1] ** 2], axis=2)
    return [
        bent @ rng.standard_normal((shared + 1, d)) + noise * rng.standard_normal((m, k, d)) + 3.0 for d in channels
    ]


def counts(views, rows, k, samples=None, level=0.05):
    near = joint_neighbors(views, rows, k)
    test = all_steps([leading(X[near], n_directions(k)).scores for X in views])
    return n_significant(p_values(test, k if samples is None else samples), level)


@pytest.mark.parametrize(("seed", "channels"), [(0, (5, 7)), (1, (2, 3)), (2, (4, 90))])
def test_every_step_is_that_of_the_literal_twin(seed, channels):
    views = neighborhoods(seed, channels=channels)
    most = n_directions(60)
    test = all_steps([leading(X, most).scores for X in views])
    for i in range(len(views[0])):
        for step, (statistic, freedom, penalty, rho) in enumerate(literal.steps(*(X[i] for X in views), most, FLOOR)):
            if freedom == 0:  # nothing is left of one of the views
                assert test.freedom[0, i, step] == 0
                break
            if test.freedom[0, i, step] == 0:  # given up, because the step before was far from significant
                before = [x[0, i, step - 1] for x in (test.statistic, test.freedom, test.penalty)]
                assert literal.chance(*before, 60) > 0.2
                break
            np.testing.assert_allclose(test.statistic[0, i, step], statistic, rtol=1e-6)
            assert test.freedom[0, i, step] == freedom
            assert test.penalty[0, i, step] == penalty
            if step == 0:
                np.testing.assert_allclose([test.top[0, i], test.shared[0, i]], [rho[0], (rho**2).sum()], rtol=1e-8)
        assert step >= 1


def test_the_chance_is_that_of_the_literal_twin():
    rng = np.random.default_rng(0)
    T, f, g = rng.uniform(0, 3, 50), rng.integers(0, 9, 50).astype(float), rng.uniform(1, 9, 50)
    for samples in (0.0, 4.0, 60.0):
        expected = [literal.chance(*row, samples) for row in zip(T, f, g, strict=True)]
        np.testing.assert_allclose(chance(T, f, g, samples), expected, rtol=1e-8)


def test_discoveries_are_those_of_benjamini_and_hochberg_step_by_step():
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 1, (80, 3)) ** np.array([6, 4, 1])
    expected, left = np.zeros(80, int), np.arange(80)
    for step in range(3):
        left = left[literal.discoveries(p[left, step], 0.05)]
        expected[left] += 1
    assert set(expected) >= {0, 1, 2}
    np.testing.assert_array_equal(n_significant(p, 0.05), expected)


@quick
@given(p=st.lists(st.sampled_from([0.0, 1e-9, 0.001, 0.01, 0.04, 0.05, 0.2, 1.0]) | st.floats(0, 1), min_size=1))
def test_discoveries_are_those_of_scipy(p):
    expected = scipy.stats.false_discovery_control(p) <= 0.05
    np.testing.assert_array_equal(discoveries(np.array(p), 0.05), expected)


def test_independent_neighborhoods_are_significant_as_often_as_the_level_says():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((600, 64, d)) for d in (3, 9)]
    test = first_step([basis(leading(X, n_directions(64)).scores) for X in views])
    p = p_values(test, 64)[:, 0]
    for level in (0.05, 0.2, 0.5):
        assert abs((p < level).mean() - level) < 3.5 * np.sqrt(level * (1 - level) / 600)
    assert n_significant(p[:, None], 0.05).sum() <= 2


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("n_common", [0, 1, 2, 3])
def test_common_dimensions_of_linear_views_are_counted(n_common, noise):
    views, _truth = simulate.linear(5000, n_common=n_common, noise=noise, random_state=3)
    found = counts(views, np.arange(0, 5000, 100), 64)
    assert (found == n_common).mean() >= 0.9


@pytest.mark.parametrize("problem", [simulate.swiss_roll, simulate.spiral])
def test_a_bent_curve_is_one_dimension(problem):
    views, _truth = problem(5000, random_state=0)
    found = counts(views, np.arange(0, 5000, 100), 64)
    assert np.median(found) == 1
    assert (found == 2).mean() < 0.1


def test_a_circle_is_one_dimension_where_neighborhoods_are_small_and_two_where_they_hold_half_of_it():
    views, _truth = simulate.torus(20_000, random_state=0)
    rows = np.arange(0, 20_000, 400)
    assert np.median(counts(views, rows, 48)) == 1
    assert np.median(counts([X[:2000] for X in views], rows[rows < 2000], 64)) == 2


def test_of_three_views_only_what_all_share_counts():
    rng = np.random.default_rng(0)
    z, w = rng.uniform(-1, 1, (2, 4000, 1))
    private = rng.uniform(-1, 1, (3, 4000, 1))
    all_of_them = [np.hstack([z, e]) for e in private]
    rows = np.arange(0, 4000, 100)
    assert (counts(all_of_them, rows, 64) == 1).mean() > 0.9
    pair_only = [np.hstack([w, private[0]]), np.hstack([w, private[1]]), np.hstack([z, private[2]])]
    assert (counts(pair_only, rows, 64) == 0).mean() > 0.9


def test_samples_that_follow_each_other_are_worth_fewer_and_the_test_is_right_with_these():
    """The formula with the effective samples against the circular shift, window by window."""
    views, _truth = simulate.independent(3000, smoothness=0.9, n_channels=2, random_state=0)
    windows = time_windows(3000, np.arange(50, 2950, 60), 40)
    most = n_directions(40)
    made = [basis(leading(X[windows], most).scores) for X in views]
    shifted = [first_step([made[0], made[1].moved(s)]) for s in range(4, 44, 2)]
    samples = effective_samples(shifted)
    assert samples < 20
    test = first_step(made)
    p = p_values(test, samples)[:, 0]
    shifts = np.arange(200, 2800, 53)
    some = range(0, len(windows), 4)
    reference = [literal.window_p_value(*views, windows[i], shifts, most, FLOOR) for i in some]
    assert np.corrcoef(np.argsort(np.argsort(p[some])), np.argsort(np.argsort(reference)))[0, 1] > 0.8
    assert abs(np.mean(p[some] < 0.3) - np.mean(np.array(reference) < 0.3)) <= 0.25
    assert (p_values(test, 40)[:, 0] < 0.05).mean() > 0.3  # without the correction smoothness passes for likeness
    assert (p < 0.05).mean() < 0.15


def test_independent_samples_are_worth_what_they_are():
    rng = np.random.default_rng(0)
    made = [basis(leading(rng.standard_normal((400, 50, 3)), 6).scores) for _ in range(2)]
    assert abs(effective_samples([first_step([made[0], made[1].moved(s)]) for s in range(1, 9)]) - 50) < 3


def test_a_view_that_does_not_change_shares_nothing():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((3, 40, 4)), np.full((3, 40, 2), 0.1)]
    test = all_steps([leading(X, 5).scores for X in views])
    assert not test.statistic.any()
    np.testing.assert_array_equal(p_values(test, 40), 1.0)
    assert effective_samples([test]) == 0.0

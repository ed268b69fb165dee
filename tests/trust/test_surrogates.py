"""Shifted views as examples of chance, and views at other speeds where shifts are none."""

import numpy as np
import pytest

from benchmarks.trust import oscillations as unrelated_oscillations
from dlcca import simulate
from dlcca.numerics.neighbors import joint_space
from dlcca.numerics.windows import chosen, time_windows
from dlcca.trust import surrogates
from dlcca.trust.components import FLOOR, first_step, n_directions
from dlcca.trust.surrogates import (
    KNN_SAMPLES,
    MOST_ROWS,
    STRETCHES,
    SURROGATES,
    knn_bases,
    random_shifts,
    shift_test,
    statistic_of,
    windows_bases,
)
from tests.reference import common as literal


@pytest.mark.parametrize("K", [2, 3, 6])
def test_no_two_views_are_shifted_alike(K):
    shifts = random_shifts(200, K, 50, np.random.default_rng(0))
    assert shifts.shape == (50, K)
    assert not shifts[:, 0].any()
    apart = (shifts[:, :, None] - shifts[:, None]) % 200
    least = apart[:, ~np.eye(K, dtype=bool)].min()
    assert least >= min(10, 200 // (2 * K))
    assert len(np.unique(shifts, axis=0)) > 45


def test_two_views_are_never_shifted_twice_by_the_same():
    assert sorted(random_shifts(30, 2, 100, np.random.default_rng(0))[:, 1]) == list(range(2, 29))


def test_the_statistic_of_nearest_neighbours_is_that_of_the_literal_twin():
    views = simulate.torus(300, noise=0.1, random_state=0)[0]
    bases, places = knn_bases(views, 40)
    assert places == 300
    at = np.sort(np.random.default_rng(1).choice(300, KNN_SAMPLES, replace=False))
    X, Y = joint_space(views)
    for shift in (0, 77):
        expected = literal.joint_statistic(X, np.roll(Y, shift, axis=0), at, 40, n_directions(40), FLOOR)
        assert statistic_of(first_step(bases([0, shift]))) == pytest.approx(
            expected, rel=1e-3
        )  # float32 may swap a neighbour


def test_a_shift_of_windows_pairs_those_of_one_view_with_others_of_the_second():
    X, Y = simulate.independent(400, smoothness=0.8, random_state=0)[0]
    windows = time_windows(400, np.arange(10, 390, 20), 20)
    bases, places = windows_bases([X, Y], windows)
    assert places == len(windows)
    expected = np.mean(
        [literal.shared(X[windows[i]], Y[windows[i - 3]], n_directions(20), FLOOR) for i in range(places)]
    )
    assert statistic_of(first_step(bases([0, 3]))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("problem", [simulate.torus, simulate.spiral, simulate.swiss_roll, simulate.linear])
def test_what_static_views_share_is_beyond_all_shifted_views(problem):
    views = problem(1000, random_state=5)[0]
    found = shift_test(*knn_bases(views, 64), 2)
    assert len(found.surrogates) == SURROGATES
    assert found.p == 1 / (SURROGATES + 1)
    assert found.samples > 50


def test_independent_views_are_beyond_shifted_ones_as_often_as_chance_says():
    p = []
    for seed in range(40):
        views = simulate.independent(250, smoothness=0.8, random_state=seed)[0]
        p.append(shift_test(*windows_bases(views, time_windows(250, np.arange(250), 20)), 2).p)
    assert np.mean(np.array(p) <= 0.05) <= 0.15
    assert 0.3 < np.mean(p) < 0.7


def test_long_recordings_are_sampled_by_stretches():
    rows = chosen(10**6, MOST_ROWS, MOST_ROWS // STRETCHES)
    assert len(rows) == len(np.unique(rows)) == 20_000
    assert (rows.min(), rows.max()) == (0, 10**6 - 1)
    assert (np.diff(rows) == 1).mean() > 0.99


def test_too_few_rows_have_no_surrogates():
    views = [np.arange(4.0).reshape(2, 2), np.ones((2, 2))]
    found = shift_test(*windows_bases(views, np.array([[0, 1]])), 2)
    assert found.p == 1.0
    assert len(found.surrogates) == 0


# Views that repeat themselves.


def oscillations(cycles, n=400, seed=0):
    """A bent curve (n, 12) that oscillations of so many cycles drive."""
    rng = np.random.default_rng(seed)
    u = np.cos(2 * np.pi * np.outer(np.arange(n) / n, cycles) + rng.uniform(0, 6, len(cycles)))
    return np.tanh(u @ rng.standard_normal((len(cycles), 12)))


def test_oscillations_are_told_ahead_and_smooth_noise_is_not():
    assert surrogates.forecast_r2(surrogates.without_drift(oscillations([5.0, 8.3]))) > 0.9
    for smoothness in (0.0, 0.9, 0.99, 0.999):
        told = [
            min(
                surrogates.forecast_r2(surrogates.without_drift(X))
                for X in simulate.independent(n, smoothness=smoothness)[0]
            )
            for n in (200, 1000)
        ]
        assert max(told) < surrogates.STEADY


def test_a_drift_does_not_hide_an_oscillation():
    X = oscillations([5.0, 8.3])
    X += 5 * np.sin(np.linspace(0, np.pi, 400))[:, None]
    assert surrogates.forecast_r2(surrogates.without_drift(X)) > surrogates.STEADY


def test_common_oscillations_are_found_whatever_their_phases_and_others_are_not():
    one = surrogates.without_drift(oscillations([5.0, 8.3, 11.7], seed=1))
    other = surrogates.without_drift(oscillations([5.0, 8.3, 14.1], seed=51))
    assert surrogates.speed_test([one, other]).p < 0.05
    unrelated = surrogates.without_drift(oscillations([6.1, 9.7, 14.1], seed=3))
    assert surrogates.speed_test([one, unrelated]).p > 0.05


@pytest.mark.slow
def test_oscillations_of_random_speeds_are_called_common_in_at_most_one_of_twenty_runs():
    runs = 200
    views = ([surrogates.without_drift(X) for X in unrelated_oscillations(seed)] for seed in range(200, 200 + runs))
    assert sum(surrogates.speed_test(pair).p <= 0.05 for pair in views) / runs <= 0.05


@pytest.mark.parametrize("K", [2, 3, 5])
def test_no_two_views_keep_their_ratio_of_speeds(K):
    speeds = np.log(surrogates.random_speeds(K, 60, np.random.default_rng(0)))
    apart = np.abs(speeds[:, :, None] - speeds[:, None])[:, ~np.eye(K, dtype=bool)]
    assert apart.min() >= min(np.log(surrogates.LEAST_CHANGE), np.log(surrogates.MOST_CHANGE) / (2 * K)) - 1e-12
    assert apart.max() <= np.log(surrogates.MOST_CHANGE) + 1e-12


def test_a_recording_too_short_to_tell_is_taken_to_forget():
    assert surrogates.forecast_r2(surrogates.without_drift(oscillations([5.0], n=40))) == -np.inf
    assert surrogates.forecast_r2(surrogates.without_drift(np.ones((200, 2)))) == -np.inf

"""Which samples belong to a window: by the definition, sample by sample."""

import numpy as np
import pytest

from dlcca.recordings import windows


@pytest.mark.parametrize(
    ("rate", "start_s", "drift_ppm"), [(256.0, 0.4, 50.0), (100.0, 0.0, 0.0), (29.97, -3.3, -80.0)]
)
def test_every_sample_taken_lies_within_half_a_sample_of_its_moment(rate, start_s, drift_ppm):
    period = (1 + drift_ppm * 1e-6) / rate
    numbers = np.arange(100, 7200, 37)
    place = windows.positions(numbers, 0.5, range(16), rate, start_s, period)
    taken = start_s + windows.nearest(place) * period
    meant = numbers[:, None] * 0.5 + np.arange(16) / rate
    assert np.abs(taken - meant).max() <= period * (0.5 + 1e-3)
    ends = windows.positions(numbers, 0.5, [0, 15], rate, start_s, period)
    np.testing.assert_allclose(ends, place[:, [0, -1]], rtol=1e-12)


def test_between_samples_a_straight_line_is_followed():
    X = np.stack([np.arange(50.0), -2 * np.arange(50.0)], axis=1)
    place = np.array([[0.25, 1.25, 2.25], [46.5, 47.5, 48.5], [47.0, 48.0, 49.0]])
    np.testing.assert_allclose(windows.taken(X, place, between=True), place[..., None] * [1, -2])


def test_a_window_is_inside_when_all_of_its_samples_are():
    place = np.array([[-0.6, 2.4], [-0.4, 2.6], [0.0, 3.0], [6.4, 9.4], [6.6, 9.6]])
    assert windows.spans_of(place, 10, between=False)[0].tolist() == [False, True, True, True, False]
    assert windows.spans_of(place, 10, between=True)[0].tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("seconds", "rate", "fits"),
    [(0.5, 256, True), (0.1, 256, False), (0.1, 100, True), (1 / 29.97, 29.97, True), (1e-9, 1, False)],
)
def test_a_time_fits_a_rate_if_it_is_a_whole_number_of_samples(seconds, rate, fits):
    assert windows.fits(seconds, rate) is fits


def test_times_that_fit_all_rates_are_found_below_and_above():
    assert float(windows.common_period([256.0, 100.0])) == 0.25
    assert windows.fitting(0.6, [256.0, 100.0]) == [0.5, 0.75]
    assert windows.fitting(0.1, [256.0]) == [25 / 256, 26 / 256]
    assert windows.fitting(0.1, [256.0, 100.0]) == [0.25]


@pytest.mark.parametrize(("step", "samples"), [(4, 4), (2, 5), (7, 3), (1, 6)])
def test_windows_that_are_equally_far_apart_are_a_view(step, samples):
    X = np.arange(200.0).reshape(100, 2)[:, :1]
    first = np.arange(3, 100 - samples, step)
    W = windows.strided(X, np.stack([first, first + samples - 1], axis=1), samples)
    assert np.shares_memory(W, X)
    np.testing.assert_array_equal(W, X[first[:, None] + np.arange(samples)])


def test_windows_that_are_not_equally_far_apart_or_skip_a_sample_are_no_view():
    X = np.zeros((100, 2))
    assert windows.strided(X, np.array([[0, 3], [4, 7], [9, 12]]), 4) is None
    assert windows.strided(X, np.array([[0, 3], [4, 8]]), 4) is None
    assert windows.strided(X, np.array([[5, 8]]), 4).shape == (1, 4, 2)

"""The measures, on series whose answer is known."""

import numpy as np
import pytest

from dlcca.reproduce.measures import (
    HARMONICS_UP_TO,
    chance_shares,
    correlation,
    harmonic_bins,
    harmonics,
    highest_peaks,
    icon_shares,
    peaks_at,
    spectrum,
)

SPEEDS = (4.0, 6.0, 10.0, 15.0)


def turning(degrees_per_frame, n=300, phase=0.3):
    return np.cos(np.deg2rad(degrees_per_frame) * np.arange(n) + phase)


def test_correlation_has_no_sign_and_takes_columns():
    x = np.random.default_rng(0).standard_normal(50)
    assert correlation(x, -3 * x[:, None] + 2) == pytest.approx(1)


def test_power_sums_to_one_and_the_mean_is_left_out():
    of = spectrum(turning(6) + 100, 360.0)
    assert of.power.sum() == pytest.approx(1)
    assert of.power[0] == pytest.approx(0, abs=1e-20)
    assert of.bin_width == pytest.approx(1.2)


def test_frequencies_are_in_the_unit_asked_for():
    of = spectrum(np.sin(2 * np.pi * 3 * np.arange(400) * 0.0125), 1 / 0.0125)
    assert of.frequency[np.argmax(of.power)] == pytest.approx(3)


def test_the_highest_peaks_are_found_in_rising_order():
    of = spectrum(turning(30) + 2 * turning(12) + 0.1 * turning(60), 360.0)
    np.testing.assert_allclose(highest_peaks(of, 2), [12, 30])
    assert peaks_at(of, [30, 12])
    assert peaks_at(of, [31.1, 12.9])  # within one bin
    assert not peaks_at(of, [12, 60])


def test_too_few_peaks_are_no_match():
    assert not peaks_at(spectrum(turning(12) + 0 * turning(30), 360.0), [12, 30, 60, 90] * 50)


def test_harmonics_end_at_the_limit():
    np.testing.assert_allclose(harmonics(15.0), [15, 30, 45, 60])
    assert harmonics(4.1)[-1] <= HARMONICS_UP_TO


@pytest.mark.parametrize("speed", [6, 12, 18, 60])
def test_a_sinusoid_at_the_common_speed_or_its_multiples_is_all_common(speed):
    shares = icon_shares(turning(speed), SPEEDS, 1)
    assert shares.common == pytest.approx(1)
    assert shares.private == pytest.approx(0, abs=1e-12)
    assert shares.fundamental == pytest.approx(1.0 if speed == 6 else 0.0, abs=1e-12)


@pytest.mark.parametrize("speed", [4, 8, 10, 15, 20, 45])
def test_a_sinusoid_at_a_private_speed_is_private(speed):
    shares = icon_shares(turning(speed), SPEEDS, 1)
    assert shares.private > 0.7  # what lies between two bins leaks into others
    assert shares.common < 0.15


def test_powers_mix_by_their_squares():
    shares = icon_shares(3 * turning(6) + turning(15.6), SPEEDS, 1)
    assert shares.common == pytest.approx(0.9)
    assert shares.private == pytest.approx(0.1)


def test_what_coincides_with_the_common_icon_is_not_private():
    """12 = 3 x 4 and 30 = 2 x 15 = 3 x 10, but both are multiples of 6."""
    _, own = harmonic_bins(spectrum(turning(6), 360.0), SPEEDS, 1)
    frequency = spectrum(turning(6), 360.0).frequency
    for coincidence in (12, 30, 60):
        assert not own[np.argmin(np.abs(frequency - coincidence))]


def test_no_bin_counts_twice():
    common, own = harmonic_bins(spectrum(turning(6), 360.0), SPEEDS, 1)
    assert not (common & own).any()


def test_white_noise_has_the_shares_of_chance():
    rng = np.random.default_rng(0)
    each = [icon_shares(rng.standard_normal(300), SPEEDS, 1) for _ in range(300)]
    common, private = chance_shares(300, SPEEDS, 1)
    assert np.mean([s.common for s in each]) == pytest.approx(common, abs=0.01)
    assert np.mean([s.private for s in each]) == pytest.approx(private, abs=0.01)
    assert common < 0.2
    assert private < 0.2

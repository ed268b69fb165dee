"""Spectra tell the frequency and the amplitude of an oscillation, fast or slow, in short results and in long ones."""

import numpy as np
import pytest

from dlcca.report import spectrum
from dlcca.report.spectrum import SpectrumEstimator
from tests.reference import report as literal


def found(y, step=1.0):
    estimator = SpectrumEstimator(len(y), 1)
    for part in np.array_split(y[:, None], 3):
        estimator.take(part)
    return estimator.finished(step)


def test_a_short_result_is_transformed_as_in_the_definition():
    y = np.random.default_rng(0).standard_normal(60)
    made = found(y, step=0.1)
    for i in (1, 7, 50):
        assert made.amplitude[i, 0] == pytest.approx(literal.amplitude(y, made.frequency[i], 0.1), rel=1e-9)


@pytest.mark.parametrize(
    ("n", "frequency", "segments"),
    [
        (400, 5.0, 1),  # short
        (200_000, 20.0, 2),  # long, and fast
        (200_000, 0.01, 1),  # long, and slow: less than three cycles in a segment
    ],
)
def test_an_oscillation_is_found_at_its_frequency_and_amplitude(n, frequency, segments):
    time = np.arange(n) * 0.01
    made = found(3 * np.sin(2 * np.pi * frequency * time), 0.01)
    peak = made.amplitude[:, 0].argmax()
    assert made.frequency[peak] == pytest.approx(frequency, rel=0.02)
    assert made.amplitude[peak, 0] == pytest.approx(3, rel=0.03)
    assert made.segments >= segments
    assert (made.group > 1) == (n > spectrum.WHOLE and segments == 1)


def test_rows_that_were_left_out_do_not_hide_the_rest():
    time = np.arange(50_000) * 0.01
    y = np.sin(2 * np.pi * 20 * time)
    y[10_000:14_000] = np.nan
    made = found(y, 0.01)
    assert made.frequency[made.amplitude[:, 0].argmax()] == pytest.approx(20, rel=0.02)


@pytest.mark.parametrize("n", [300, 50_000])
def test_of_nothing_there_is_no_spectrum(n):
    assert found(np.full(n, np.nan)) is None


def test_a_constant_has_a_spectrum_of_zeros():
    made = found(np.ones(300))
    assert made.amplitude.max() == 0
    assert made.enough == made.frequency[-1]

"""Band powers and spectrograms against SciPy."""

import numpy as np
import pytest
import scipy.signal

from dlcca.recordings.features import BandPower, Spectrogram, given_bands, usual_bands
from tests.recordings.fakes import power

RATE = 64.0


def windows(s: int, c: int = 2) -> np.ndarray:
    return 5 + np.random.default_rng(s).standard_normal((3, s, c)).cumsum(axis=1)


@pytest.mark.parametrize("s", [2, 15, 16, 129])
def test_the_power_is_that_of_welch_for_one_segment(s):
    X = windows(s)
    _f, P = scipy.signal.welch(X, RATE, window="hann", nperseg=s, detrend="constant", axis=1)
    np.testing.assert_allclose(power(X, RATE), P, rtol=1e-9, atol=1e-15)


def test_the_power_of_float32_stays_in_it_and_agrees():
    X = windows(128)
    P = power(X.astype(np.float32), RATE)
    assert P.dtype == np.float32
    np.testing.assert_allclose(P, power(X, RATE), rtol=1e-3, atol=1e-4)


def test_band_power_is_the_sum_of_the_density_in_the_band():
    X, bands = windows(128), (("low", 1.0, 4.0), ("high", 8.0, 20.0))
    f, P = scipy.signal.welch(X, RATE, window="hann", nperseg=128, detrend="constant", axis=1)
    expected = np.empty((3, 2, 2))
    for w in range(3):
        for b, (_, low, high) in enumerate(bands):
            for c in range(2):
                expected[w, b, c] = np.log(sum(P[w, i, c] for i in range(len(f)) if low <= f[i] < high) * RATE / 128)
    np.testing.assert_allclose(BandPower(RATE, bands).unscaled(X), expected.reshape(3, 4), rtol=1e-9)


def test_a_sine_has_its_power_in_its_band():
    t = np.arange(256) / 256
    X = (3 * np.sin(2 * np.pi * 10 * t))[None, :, None]
    F = BandPower(256.0, (("alpha", 8, 13), ("beta", 13, 30))).unscaled(X)[0]
    assert np.exp(F[0]) == pytest.approx(3**2 / 2, rel=0.01)
    assert F[1] < F[0] - 5


def test_the_usual_bands_end_at_half_the_rate():
    assert [name for name, *_ in usual_bands(512, 256.0)] == ["delta", "theta", "alpha", "beta", "gamma"]
    assert usual_bands(100, 50.0)[-1] == ("beta", 13.0, 25.0)


def test_the_usual_bands_that_a_short_window_cannot_tell_are_left_out():
    assert [name for name, *_ in usual_bands(16, 64.0)] == ["theta", "alpha", "beta"]  # frequencies 4 Hz apart


@pytest.mark.parametrize(
    ("band", "message"),
    [((8, 40), "half the rate"), ((9, 8), "from < to"), ((8.5, 9.5), "holds none of the frequencies")],
)
def test_a_band_that_cannot_be_told_is_refused(band, message):
    with pytest.raises(ValueError, match=message):
        given_bands({"mine": band}, 32, 64.0)


@pytest.mark.parametrize(("segment", "most"), [(16, 32.0), (20, 10.0), (9, 32.0)])
def test_a_spectrogram_is_that_of_scipy(segment, most):
    X = windows(100)
    hop = segment // 2
    f, _, S = scipy.signal.spectrogram(
        X, RATE, window="hann", nperseg=segment, noverlap=segment - hop, detrend="constant", axis=1
    )
    kept = (f > 0) & (f <= most)
    expected = np.log(S[:, kept]).transpose(0, 3, 1, 2)  # window, segment, frequency, channel
    feature = Spectrogram(RATE, 100, segment, most)
    F = feature.unscaled(X)
    np.testing.assert_allclose(F, expected.reshape(3, -1), rtol=1e-8, atol=1e-8)
    assert len(feature.names(["a", "b"])) == F.shape[1]


def test_silence_is_a_small_number_and_not_minus_infinity():
    feature = BandPower(RATE, (("low", 1.0, 4.0),))
    F = feature.scaled(feature.unscaled(np.zeros((1, 64, 1), np.float32)), np.zeros(1), np.ones(1))
    assert F == pytest.approx(np.log(1e-12))

"""Every kind of feature can be scaled after it was computed, as if the samples had been scaled before."""

import numpy as np
import pytest

from dlcca.recordings import features, power
from dlcca.recordings.features import BandPower, Covariances, RawSamples, Spectrogram, columns_of, of_integers, scaled
from dlcca.recordings.power import squares, sums
from tests.recordings import fakes

GAIN, BIAS = np.array([0.25, -3.0, 17.0]), np.array([0.0, 1e3, -5.0])
NUMBERS = np.random.default_rng(0).integers(-9000, 9000, (5, 64, 3)).astype(np.int16)
KINDS = {
    "raw": RawSamples(range(64), 32.0),
    "delay": RawSamples(range(63, 28, -5), 32.0),
    "bandpower": BandPower(32.0, (("a", 1.0, 4.0), ("b", 4.0, 16.0))),
    "spectrogram": Spectrogram(32.0, 64, 16, 12.0),
    "covariance": Covariances(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_afterwards_equals_scaling_before(kind):
    feature, rng = KINDS[kind], np.random.default_rng(0)
    center, scale = np.array([3.0, -100.0, 0.0]), np.array([2.0, 0.01, 30.0])
    X = center + scale * rng.standard_normal((5, 64, 3))
    after = feature.scaled(feature.unscaled(X), center, scale)
    before = feature.scaled(feature.unscaled((X - center) / scale), np.zeros(3), np.ones(3))
    np.testing.assert_allclose(after, before, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_name_of_its_own_and_float32_stays(kind):
    feature = KINDS[kind]
    X = np.random.default_rng(0).standard_normal((5, 64, 3)).astype(np.float32)
    F = feature.scaled(feature.unscaled(X), np.zeros(3), np.ones(3))
    assert F.dtype == np.float32
    names = feature.names(["a", "b", "c"])
    assert len(set(names)) == len(names) == F.shape[1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("raw", "delay")])
def test_features_of_numbers_are_those_of_their_values(kind):
    values = (NUMBERS * GAIN + BIAS).astype(np.float64)
    found = KINDS[kind].unscaled(NUMBERS, GAIN)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, KINDS[kind].unscaled(values), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["raw", "delay"])
def test_raw_numbers_stay_numbers_and_columns_make_values_of_them(kind):
    feature, center, scale = KINDS[kind], np.array([1.0, -2.0, 3.0]), np.array([0.5, 2.0, 1.0])
    unscaled = feature.unscaled(NUMBERS, GAIN)
    assert unscaled.dtype == np.int16
    columns = of_integers(feature.columns(center, scale), GAIN, BIAS)
    values = (NUMBERS * GAIN.astype(np.float32) + BIAS.astype(np.float32)).astype(np.float32)
    expected = feature.scaled(feature.unscaled(values), center, scale)
    assert columns.shape == (5, unscaled.shape[1])
    np.testing.assert_array_equal(scaled(unscaled, columns), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_the_width_is_the_number_of_names(kind, channels):
    assert KINDS[kind].width(channels) == len(KINDS[kind].names([f"c{i}" for i in range(channels)]))


@pytest.mark.parametrize("s", [1, 2, 3, 16, 17, 64, 250])
def test_products_and_transform_give_the_same_power(s, monkeypatch):
    X = 7 + np.random.default_rng(s).standard_normal((9, s, 2)).cumsum(axis=1)
    K = s // 2 + 1
    monkeypatch.setattr(power, "BATCH_BYTES", 3 * X[:1].nbytes)  # several batches, the last one shorter
    found = []
    for most in (0, K):
        monkeypatch.setattr(power, "MOST_BY_PRODUCTS", most)
        found.append(np.concatenate([Z.sum(axis=0).swapaxes(0, 1) for _, Z in squares(X, 50.0, 0, K)]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12 * found[0].max())


def test_sums_over_spans_that_overlap_are_those_of_the_power():
    X, spans = np.random.default_rng(0).standard_normal((6, 40, 2)), [(1, 4), (3, 9), (20, 21)]
    P = fakes.power(X, 40.0)
    expected = np.stack([P[:, a:b].sum(axis=1) for a, b in spans], axis=1)
    np.testing.assert_allclose(sums(X, 40.0, spans), expected, rtol=1e-10)


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_a_large_mean_costs_no_digits(mean):
    X = np.random.default_rng(0).integers(-50, 50, (20, 64, 2)) + mean  # exact in single precision
    feature = BandPower(64.0, (("all", 1.0, 32.0),))
    np.testing.assert_allclose(feature.unscaled(X.astype(np.float32)), feature.unscaled(X - mean), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [-np.inf, -0.5])
def test_every_column_has_numbers_of_its_own(dtype, least, monkeypatch):
    monkeypatch.setattr(features, "BATCH_BYTES", 100)
    rng = np.random.default_rng(0)
    F, center, scale = rng.standard_normal((23, 4)).astype(dtype), rng.standard_normal(4), rng.uniform(1, 2, 4)
    expected = [[max((F[i, j] - center[j]) / scale[j], least) for j in range(4)] for i in range(23)]
    found = scaled(F, columns_of(center, scale, least))
    assert found is F
    assert F.dtype == dtype
    np.testing.assert_allclose(F, expected, rtol=1e-5, atol=1e-6)


def test_columns_of_several_features_lie_side_by_side():
    both = np.concatenate([columns_of(np.ones(2), np.full(2, 3.0)), columns_of(np.zeros(1), np.ones(1), -5.0)], axis=1)
    np.testing.assert_array_equal(both, [[1, 1, 0], [3, 3, 1], [-np.inf, -np.inf, -5]])
    np.testing.assert_allclose(scaled(np.full((1, 3), -8.0), both), [[-3, -3, -5]])

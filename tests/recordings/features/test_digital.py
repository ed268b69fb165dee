"""Features of whole numbers are those of the values that they stand for; and two ways to a spectrum give the same."""

import numpy as np
import pytest

from dlcca.recordings.features import power
from dlcca.recordings.features.bandpower import BandPower
from dlcca.recordings.features.columns import Columns
from dlcca.recordings.features.power import squares, sums
from tests.recordings.features.test_finished import KINDS

GAIN, BIAS = np.array([0.25, -3.0, 17.0]), np.array([0.0, 1e3, -5.0])
NUMBERS = np.random.default_rng(0).integers(-9000, 9000, (5, 64, 3)).astype(np.int16)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("raw", "delay")])
def test_drafts_of_numbers_are_those_of_their_values(kind):
    values = (NUMBERS * GAIN + BIAS).astype(np.float64)
    found = KINDS[kind].draft(NUMBERS, GAIN)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, KINDS[kind].draft(values), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["raw", "delay"])
def test_raw_numbers_stay_numbers_and_columns_make_values_of_them(kind):
    feature, center, scale = KINDS[kind], np.array([1.0, -2.0, 3.0]), np.array([0.5, 2.0, 1.0])
    drafts = feature.draft(NUMBERS, GAIN)
    assert drafts.dtype == np.int16
    columns = feature.columns(center, scale).of_numbers(GAIN, BIAS)
    again = Columns.from_array(columns.as_array())
    values = (NUMBERS * GAIN.astype(np.float32) + BIAS.astype(np.float32)).astype(np.float32)
    expected = feature.finished(feature.draft(values), center, scale)
    assert again.as_array().shape == (5, drafts.shape[1])
    np.testing.assert_array_equal(again.finish(drafts), expected)


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
    P = power.power(X, 40.0)
    expected = np.stack([P[:, a:b].sum(axis=1) for a, b in spans], axis=1)
    np.testing.assert_allclose(sums(X, 40.0, spans), expected, rtol=1e-10)


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_a_large_mean_costs_no_digits(mean):
    X = np.random.default_rng(0).integers(-50, 50, (20, 64, 2)) + mean  # exact in single precision
    feature = BandPower(64.0, (("all", 1.0, 32.0),))
    np.testing.assert_allclose(feature.draft(X.astype(np.float32)), feature.draft(X - mean), atol=1e-5)

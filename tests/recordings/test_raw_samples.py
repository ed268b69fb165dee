"""Raw windows and delay embeddings against plain loops."""

import numpy as np
import pytest

from dlcca.recordings.features import RawSamples
from dlcca.settings.recipe import FeatureRecipe

X = np.random.default_rng(0).standard_normal((4, 10, 3))


def delayed(lag, count):
    """Delays of so many samples in windows of 10 samples, at 5 Hz."""
    return RawSamples.delayed(FeatureRecipe("delay", delay_s=lag / 5, n_delays=count), 10, 5.0)


def test_raw_windows_are_the_samples_one_after_another():
    expected = [[X[w, s, c] for s in range(10) for c in range(3)] for w in range(4)]
    np.testing.assert_array_equal(RawSamples(range(10), 5.0).unscaled(X), expected)


@pytest.mark.parametrize(("lag", "count"), [(1, 10), (3, 4), (2, 3), (9, 2), (4, 1)])
def test_a_delay_embedding_looks_back_from_the_last_sample(lag, count):
    expected = [[X[w, 9 - lag * i, c] for i in range(count) for c in range(3)] for w in range(4)]
    np.testing.assert_array_equal(delayed(lag, count).unscaled(X), expected)


@pytest.mark.parametrize(
    ("lag", "count", "message"),
    [
        (3, 5, "reach back 2.4 s, beyond the window of 2 s; .* at most 4 delays"),
        (10, 2, "at most 1 delays"),
        (1, 11, "at most 10 delays"),
        (0.4, 1, "delay_s = 0.08 is less than half a sample of 5 Hz"),
    ],
)
def test_delays_that_reach_beyond_the_window_are_refused(lag, count, message):
    with pytest.raises(ValueError, match=message):
        delayed(lag, count)


def test_names_tell_channel_and_time_in_the_order_of_the_numbers():
    names = delayed(3, 2).names(["a", "b"])
    assert names == ["a at 1.8 s", "b at 1.8 s", "a at 1.2 s", "b at 1.2 s"]

"""Raw windows and delay embeddings against plain loops."""

import numpy as np
import pytest

from dlcca.recordings.features import RawSamples

X = np.random.default_rng(0).standard_normal((4, 10, 3))


def test_raw_windows_are_the_samples_one_after_another():
    expected = [[X[w, s, c] for s in range(10) for c in range(3)] for w in range(4)]
    np.testing.assert_array_equal(RawSamples.all_of(10, 5.0).unscaled(X), expected)


@pytest.mark.parametrize(("lag", "count"), [(1, 10), (3, 4), (2, 3), (9, 2), (4, 1)])
def test_a_delay_embedding_looks_back_from_the_last_sample(lag, count):
    expected = [[X[w, 9 - lag * i, c] for i in range(count) for c in range(3)] for w in range(4)]
    np.testing.assert_array_equal(RawSamples.delayed(10, 5.0, lag, count).unscaled(X), expected)


@pytest.mark.parametrize(
    ("lag", "count", "message"),
    [
        (3, 5, "reach back 2.4 s, beyond the window of 2 s; .* at most 4 delays"),
        (10, 2, "at most 1 delays"),
        (0, 2, "at most 0 delays"),
        (1, 0, "at most 10 delays"),
    ],
)
def test_delays_that_reach_beyond_the_window_are_refused(lag, count, message):
    with pytest.raises(ValueError, match=message):
        RawSamples.delayed(10, 5.0, lag, count)


def test_names_tell_channel_and_time_in_the_order_of_the_numbers():
    names = RawSamples.delayed(10, 5.0, 3, 2).names(["a", "b"])
    assert names == ["a at 1.8 s", "b at 1.8 s", "a at 1.2 s", "b at 1.2 s"]

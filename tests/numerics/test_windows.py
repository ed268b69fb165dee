"""Windows of time against the twin, for every landmark of small recordings."""

from itertools import pairwise

import numpy as np
import pytest

from dlcca.numerics.windows import has_full_window, time_windows
from tests.reference.windows import time_window


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_windows_equal_the_literal_ones_everywhere(n):
    for width in range(1, n + 1):
        expected = [time_window(i, n, width) for i in range(n)]
        np.testing.assert_array_equal(time_windows(n, np.arange(n), width), expected)


def test_a_window_of_eight_reaches_from_three_before_to_four_after():
    np.testing.assert_array_equal(time_windows(100, np.array([50]), 8)[0] - 50, np.arange(-3, 5))


def test_every_window_holds_its_landmark_and_as_many_rows_as_asked():
    for width in (1, 4, 9):
        rows = time_windows(20, np.arange(20), width)
        assert rows.shape == (20, width)
        assert (rows >= 0).all()
        assert (rows < 20).all()
        assert (rows == np.arange(20)[:, None]).any(axis=1).all()


@pytest.mark.parametrize("width", [0, 11])
def test_a_window_that_does_not_fit_is_refused(width):
    with pytest.raises(ValueError, match="does not fit a recording of 10"):
        time_windows(10, np.arange(10), width)


def stretches(segments):
    """First and one after the last row of each stretch."""
    edges = [0, *(i for i in range(1, len(segments)) if segments[i] != segments[i - 1]), len(segments)]
    return list(pairwise(edges))


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_in_each_stretch_windows_are_those_of_a_recording_of_its_own(width):
    segments = np.repeat([0, 1, 4, 5], [7, 5, 6, 9])
    expected = [begin + time_window(i - begin, end - begin, width) for begin, end in stretches(segments)
                for i in range(begin, end)]  # fmt: skip
    np.testing.assert_array_equal(time_windows(27, np.arange(27), width, segments), expected)


def test_a_landmark_in_a_stretch_that_is_too_short_is_refused_and_said_to_have_no_room():
    segments = np.repeat([0, 1, 2], [6, 3, 4])
    with pytest.raises(ValueError, match="does not fit the stretch of row 7"):
        time_windows(13, np.array([2, 7]), 4, segments)
    assert has_full_window(segments, 4).tolist() == [True] * 6 + [False] * 3 + [True] * 4

"""One pass over the rows, whatever their blocks, gives what loops over all of them give."""

import numpy as np
import pytest

from dlcca.report import rows as result_rows
from dlcca.report.rows import picked_rows, summarize
from tests.reference import report as literal


def result(n=5000, q=3):
    """Rows with a gap, time that goes on evenly, and codes for the gap."""
    rng = np.random.default_rng(0)
    E = np.cumsum(rng.standard_normal((n, q)), axis=0)
    reason = np.zeros(n, np.uint8)
    reason[n // 4 : n // 3] = 2
    E[reason > 0] = np.nan
    return np.arange(n) * 0.5, E, reason


def cut(time, E, reason, rows):
    """In blocks of so many rows."""
    for first in range(0, len(time), rows):
        part = slice(first, first + rows)
        yield first, {"time": time[part], "embedding": E[part], "reason": reason[part]}


def gathered(rows, n=5000, q=3):
    time, E, reason = result(n, q)
    marks = np.array([n - 1, 3, n // 2])
    return summarize(cut(time, E, reason, rows), n, q, picked_rows(n, marks), marks), time, E, reason


@pytest.mark.parametrize("rows", [1, 7, 1000, 4999, 5000, 9000])
def test_what_is_gathered_does_not_depend_on_the_blocks(rows):
    found, time, E, reason = gathered(rows)
    runs = found.stretches
    low, high = literal.extremes(E, runs.edges)
    np.testing.assert_array_equal(runs.low, low)
    np.testing.assert_array_equal(runs.high, high)
    np.testing.assert_array_equal(runs.begin, time[runs.edges[:-1]])
    np.testing.assert_array_equal(runs.end, time[runs.edges[1:] - 1])
    np.testing.assert_array_equal(runs.reasons.sum(axis=0)[:3], np.bincount(reason, minlength=3))
    assert (runs.reasons.sum(axis=1) == runs.rows).all()
    np.testing.assert_array_equal(found.sample.embedding, E[found.sample.rows])
    np.testing.assert_array_equal(found.sample.time, time[found.sample.rows])
    np.testing.assert_array_equal(found.mark_time, time[[4999, 3, 2500]])
    assert found.step == pytest.approx(0.5)
    assert (found.stretches.begin[0], found.stretches.end[-1]) == (time[0], time[-1])


def test_the_spectrum_does_not_depend_on_the_blocks():
    whole, parts = (gathered(rows, n=50_000)[0].spectrum for rows in (50_000, 777))
    np.testing.assert_allclose(parts.amplitude, whole.amplitude, rtol=1e-9, atol=1e-12)


def test_picked_rows_are_even_and_hold_landmarks_and_what_else_is_asked_for():
    rows = picked_rows(10**6, np.array([5, 123_457]), also=[777_777])
    assert {0, 5, 123_457, 777_777, 10**6 - 1} <= set(rows.tolist())
    assert len(rows) <= result_rows.POINTS + 3
    assert np.diff(rows).max() < 2 * 10**6 / result_rows.POINTS
    assert picked_rows(3, np.array([], int)).tolist() == [0, 1, 2]


def test_of_many_landmarks_some_are_drawn():
    assert len(result_rows.some_landmarks(np.arange(10**5))) == result_rows.LANDMARKS


def test_a_missing_row_counts_as_left_out_even_if_nobody_says_why():
    E = np.ones((10, 2))
    E[4] = np.nan
    found = summarize([(0, {"time": np.arange(10.0), "embedding": E})], 10, 2, np.arange(10), np.array([0]))
    assert found.stretches.reasons[:, 1:].sum() == 1


@pytest.mark.parametrize(
    ("time", "step"),
    [
        (np.arange(50) * 0.1, 0.1),
        (np.r_[np.arange(25), 26 + np.arange(25)], None),  # a jump
        (np.arange(50)[::-1], None),
        (np.array([0.0, 1.0]), None),  # too few to tell
        (np.zeros(50), None),
    ],
)
@pytest.mark.parametrize("rows", [1, 6, 100])
def test_a_step_is_known_only_where_it_is_always_the_same(time, step, rows):
    n = len(time)
    blocks = cut(time, np.ones((n, 1)), np.zeros(n, np.uint8), rows)
    found = summarize(blocks, n, 1, np.arange(n), np.array([0]), has_clock=False)
    assert found.step == (None if step is None else pytest.approx(step))

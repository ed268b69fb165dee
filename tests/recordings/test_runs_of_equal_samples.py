"""Runs of equal values against a plain loop; those across the borders of blocks against all samples together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlcca.recordings.validity import JoinedRuns, channels_with_runs, ends_of_runs, extremes, long_runs


def runs_one_by_one(x, least):
    found, first = [], 0
    for i in range(1, len(x) + 1):
        if i == len(x) or x[i] != x[i - 1]:
            if i - first >= least:
                found.append((first, i))
            first = i
    return found


few_values = st.lists(st.sampled_from([0.0, 1.0, float("nan")]), min_size=1, max_size=60)


@given(values=few_values, least=st.integers(2, 9))
def test_long_runs_are_those_found_one_by_one(values, least):
    x = np.array(values)
    assert long_runs(x, least) == runs_one_by_one(x, least)


@given(values=few_values, least=st.integers(2, 9))
def test_no_channel_with_a_run_is_overlooked(values, least):
    x = np.array(values)
    if runs_one_by_one(x, least):
        assert 0 in channels_with_runs(x[:, None], least)


def test_a_channel_of_noise_is_not_looked_at_twice():
    X = np.random.default_rng(0).standard_normal((1000, 3))
    X[400:420, 1] = 5
    assert channels_with_runs(X, 16).tolist() == [1]


@given(values=few_values, channels=st.integers(1, 4))
def test_extremes_are_those_of_each_channel_and_tell_what_is_no_number(values, channels):
    X = np.random.default_rng(len(values)).permuted(np.tile(np.array(values)[:, None], channels), axis=0)
    top, bottom = extremes(X)
    np.testing.assert_array_equal(top, X.max(axis=0))
    np.testing.assert_array_equal(bottom, X.min(axis=0))


def test_extremes_of_many_samples_put_side_by_side():
    X = np.random.default_rng(0).standard_normal((5003, 7)).astype(np.float32)
    for Y in (X, X[:, 2:5], X[::2]):
        np.testing.assert_array_equal(extremes(Y), [Y.max(axis=0), Y.min(axis=0)])
    X[4999, 3] = np.nan
    assert np.isnan(extremes(X)[0]).tolist() == [False, False, False, True, False, False, False]


@given(values=few_values, most=st.integers(2, 9))
def test_runs_at_both_ends_are_as_long_as_counted(values, most):
    x = np.array(values)
    head, tail = (min(most, next((i for i, y in enumerate(z) if y != z[0]), len(z))) for z in (x, x[::-1]))
    assert [int(n[0]) for n in ends_of_runs(x[:, None], most)] == [head, tail]


def seen(x, cuts, least, most):
    """Which samples lie in a run of at least ``least``: by the blocks, each alone, and by what is joined."""
    marked = np.zeros(len(x), bool)
    joined = JoinedRuns(least, most, np.array([True]))
    for first, last in zip([0, *cuts], [*cuts, len(x)], strict=True):
        part = x[first:last]
        for a, b in long_runs(part, least):
            marked[first + a : first + b] = True
        lengths = np.stack(ends_of_runs(part[:, None], most))
        for _, _, value, [(a, b)] in joined.add(0, [first, last], part[[0, -1]][:, None], lengths):
            assert (x[a:b] == value).all()
            marked[a:b] = True
    return marked


@given(
    values=st.lists(st.sampled_from([0.0, 1.0, float("nan")]), min_size=2, max_size=60),
    least=st.integers(2, 7),
    more=st.integers(0, 5),
    data=st.data(),
)
def test_what_blocks_see_and_what_is_joined_are_all_long_runs(values, least, more, data):
    x = np.array(values)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(x) - 1), max_size=8)))
    expected = np.zeros(len(x), bool)
    for a, b in long_runs(x, least):
        expected[a:b] = True
    assert seen(x, cuts, least, least + more).tolist() == expected.tolist()


def test_pieces_and_stretches_that_do_not_adjoin_are_not_joined():
    joined = JoinedRuns(4, 4, np.array([True]))
    flat, three = np.ones((2, 1)), np.full((2, 1), 3)
    assert joined.add(0, [0, 3], flat, three) == []
    assert joined.add(0, [4, 7], flat, three) == []  # a sample is missing between
    assert joined.add(1, [7, 10], flat, three) == []  # another file

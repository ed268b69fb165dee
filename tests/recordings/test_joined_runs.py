"""Runs across the borders of blocks, against a look at all samples together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlcca.recordings.equal_runs import ends_of_runs, long_runs
from dlcca.recordings.joined_runs import JoinedRuns


def seen(x, cuts, least, most):
    """Which samples lie in a run of at least ``least``: by the blocks, each alone, and by what is joined."""
    marked = np.zeros(len(x), bool)
    joined = JoinedRuns(least, most, np.array([True]))
    for first, last in zip([0, *cuts], [*cuts, len(x)], strict=True):
        part = x[first:last]
        for a, b in long_runs(part, least):
            marked[first + a : first + b] = True
        joined.add(0, [first, last], part[[0, -1]][:, None], np.stack(ends_of_runs(part[:, None], most)))
    for run in joined.found:
        assert (x[run.first : run.last] == run.value).all()
        marked[run.first : run.last] = True
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
    joined.add(0, [0, 3], flat, three)
    joined.add(0, [4, 7], flat, three)  # a sample is missing between
    joined.add(1, [7, 10], flat, three)  # another file
    assert joined.found == []

"""The rows that are compared."""

import numpy as np
import pytest

from dlcca.compare.comparison import shared_bits, shifted, shuffled
from dlcca.numerics.windows import chosen, unbroken
from dlcca.trust import scores


def test_few_rows_are_all_compared():
    assert (chosen(100, 100, 32) == np.arange(100)).all()


@pytest.mark.parametrize("stretch", [1, 7, 32])
def test_of_many_rows_stretches_are_taken_from_the_first_to_the_last(stretch):
    rows = chosen(10_000, 320, stretch)
    assert len(rows) <= 320
    assert len(rows) > 320 - 2 * stretch
    assert (rows[0], rows[-1]) == (0, 9_999)
    ends = np.flatnonzero(np.append(np.diff(rows), 2) != 1)
    assert np.diff(np.append(-1, ends)).min() >= stretch


def test_a_stretch_is_never_longer_than_what_may_be_compared():
    assert len(chosen(1000, 50, 300)) <= 50


def test_the_second_of_two_views_is_shifted_by_half_the_recording():
    first, second = shifted(np.arange(100), 100, 2)
    assert (first == np.arange(100)).all()
    assert (second == np.roll(np.arange(100), -50)).all()


def test_no_two_of_many_views_are_of_one_moment():
    apart = shifted(np.array([0, 40, 99]), 100, 4)
    for row in np.stack(apart, axis=1):
        assert len(set(row.tolist())) == 4


def test_shuffled_views_have_the_same_rows_out_of_step():
    rows = np.arange(0, 1000, 3)
    first, *others = shuffled(rows, 3)
    assert (first == rows).all()
    for other in others:
        assert (np.sort(other) == rows).all()
        assert abs(np.corrcoef(rows, other)[0, 1]) < 0.15


def test_windows_do_not_cross_a_break_in_any_view():
    rows = [np.arange(8), (np.arange(8) + 4) % 8]
    assert unbroken(rows, None).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    gaps = np.array([0, 0, 1, 1, 1, 1, 1, 1])
    # 1|2 is a gap of the first view, 3|4 where the second begins anew, 5|6 the gap of the second
    assert unbroken(rows, gaps).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_shared_bits_are_a_lower_bound_of_what_gaussian_views_know_and_nothing_without_a_common_variable():
    rng = np.random.default_rng(0)
    z, noise = rng.standard_normal((2000, 2)), rng.standard_normal((2, 2000, 2))
    fold = scores.blocked_folds(2000)
    near = [scores.held_out_neighbors(z + sigma * e, fold, 15) for sigma, e in zip((0.2, 0.3), noise, strict=True)]
    known = 2 * 0.5 * np.log2(1 + 1 / 0.3**2)  # of the view with more noise, for two coordinates
    assert 0.8 * known < shared_bits(z, near) < known
    mixed = z @ np.array([[3.0, 0.5], [0.0, 0.1]])  # correlated coordinates are not counted twice
    assert abs(shared_bits(mixed, near) - shared_bits(z, near)) < 0.1 * known
    assert shared_bits(np.column_stack([z, z[:, :1]]), near) < known
    assert shared_bits(rng.standard_normal((2000, 2)), near) == 0

"""Quantiles from counts of digits against NumPy's, which has all the numbers at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.streaming import Search, added, count_digits, levels
from tests.numerics.cases import quick, seeds

DTYPES = [np.float32, np.float64]
dtypes = st.sampled_from(DTYPES)
shares = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.2, 0.5, 1.0]))


def of_blocks(blocks, share, passes=None):
    """The quantile of all blocks together; every pass looks at each block by itself."""
    dtype = blocks[0].dtype
    search = Search(share, dtype, levels(dtype) if passes is None else passes)
    while not search.is_over:
        search.narrow(added([count_digits(X, search.level, search.prefixes) for X in blocks]))
    return search.result


@st.composite
def numbers(draw, dtype=None):
    """Numbers over a few or over many powers of ten, with ties, zeros and negative ones among them."""
    rng = np.random.default_rng(draw(seeds))
    size = draw(st.integers(1, 60))
    width = draw(st.sampled_from([0.0, 1e-6, 0.5, 8.0]))
    X = 10.0 ** rng.uniform(-width, width, size) * draw(st.sampled_from([1e-12, 1.0, 1e9]))
    if draw(st.booleans()):
        X = rng.choice(X, size)
    X[rng.random(size) < draw(st.sampled_from([0.0, 0.3]))] = 0
    X[rng.random(size) < draw(st.sampled_from([0.0, 0.1]))] *= -1
    return X.astype(draw(dtypes) if dtype is None else dtype)


def cut(X, rng):
    """The numbers in blocks of any shape, some of them empty."""
    edges = np.sort(rng.integers(0, len(X) + 1, rng.integers(0, 5)))
    blocks = np.split(X, edges)
    return [block.reshape(-1, 1) if rng.random() < 0.5 else block for block in blocks]


@quick
@given(X=numbers(), share=shares, seed=seeds)
def test_a_quantile_equals_that_of_the_positive_numbers_to_the_last_digit_in_any_blocks(X, share, seed):
    apart = X[X > 0]
    expected = float(np.quantile(apart, share)) if apart.size else 0.0
    assert of_blocks([X], share) == expected
    assert of_blocks(cut(X, np.random.default_rng(seed)), share) == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.77, 1.0])
def test_one_number_is_its_own_quantile(dtype, share):
    for number in (np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny, 1.0, np.pi, np.finfo(dtype).max):
        assert of_blocks([np.array([0, number, 0], dtype)], share) == dtype(number)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_quantile_of_nothing_but_zeros_is_zero(dtype):
    for X in (np.zeros((3, 4), dtype), np.array([-0.0], dtype), np.empty(0, dtype)):
        assert of_blocks([X], 0.2) == 0
        assert of_blocks([X, X], 0.2, passes=1) == 0


@quick
@given(X=numbers(np.float64), share=shares)
def test_passes_left_out_of_float64_cost_no_more_than_is_stated(X, share):
    exact = of_blocks([X], share)
    for passes, bound in {1: 2**-5, 2: 2**-21, 3: 2**-37}.items():
        assert abs(of_blocks([X], share, passes) - exact) <= bound * exact * (1 + 1e-12)


@quick
@given(X=numbers(np.float32), share=shares)
def test_a_pass_left_out_of_float32_costs_no_more_than_is_stated(X, share):
    exact = of_blocks([X], share)
    assert abs(of_blocks([X], share, passes=1) - exact) <= 2**-8 * exact * (1 + 1e-6)


@quick
@given(X=numbers(), share=shares)
def test_a_rounded_quantile_is_never_out_of_the_numbers_by_more_than_the_bound(X, share):
    apart = X[X > 0]
    if apart.size:
        bound = 2**-8 if X.dtype == np.float32 else 2**-5
        found = of_blocks([X], share, passes=1)
        assert apart.min() * (1 - bound) <= found <= apart.max() * (1 + bound)


def test_a_view_of_an_array_is_counted_as_a_copy_would_be():
    X = np.random.default_rng(0).exponential(size=(40, 6))
    assert of_blocks([X[::3, ::2]], 0.3) == np.quantile(X[::3, ::2], 0.3)
    assert of_blocks([X.T], 0.3) == np.quantile(X, 0.3)


def test_counts_of_a_pass_sum_to_what_continues_the_prefix():
    X = np.array([1.0, 1.5, 1.5, 3.0, 0.0], np.float32)
    (first,) = count_digits(X, 0, [0]).values()
    leading = [int(np.float32(x).view(np.uint32) >> 16) for x in (1.0, 1.5, 3.0)]
    assert first.digits.tolist() == leading
    assert first.counts.tolist() == [1, 2, 1]
    one = leading[1]
    following = count_digits(X, 1, [one, one + 1])
    assert following[one].counts.sum() == 2
    assert following[one + 1].counts.sum() == 0


def test_what_a_block_has_counted_is_no_larger_than_the_block():
    """It travels to where the blocks are added up, and there may be thousands of small ones."""
    X = np.random.default_rng(0).exponential(size=50)
    (found,) = count_digits(X, 0, [0]).values()
    assert len(found.digits) == len(found.counts) <= X.size
    (total,) = added(count_digits(part, 0, [0]) for part in np.split(X, 5)).values()
    np.testing.assert_array_equal(total.digits, found.digits)
    np.testing.assert_array_equal(total.counts, found.counts)

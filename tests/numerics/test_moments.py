"""Means and variances put together from blocks against those of all samples at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.streaming import Moments, combined
from tests.numerics.cases import quick, seeds


def in_blocks(X, edges):
    return combined([Moments.of(part) for part in np.split(X, edges)])


@st.composite
def cut_samples(draw):
    """Samples (n, d) far from zero or not, and cuts that leave no block empty."""
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    offset = draw(st.sampled_from([0.0, -3.0, 1e6]))
    X = offset + rng.standard_normal((n, d)) * rng.choice([1e-3, 1.0, 20.0], d)
    edges = sorted(draw(st.sets(st.integers(1, max(1, n - 1)), max_size=12))) if n > 1 else []
    return X.astype(draw(st.sampled_from([np.float64, np.float32]))), edges


@quick
@given(case=cut_samples())
def test_moments_of_blocks_equal_those_of_all_samples(case):
    X, edges = case
    found = in_blocks(X, edges)
    assert found.count == len(X)
    exact = X.astype(np.longdouble)
    size = np.abs(exact).max(axis=0) + 1e-300
    np.testing.assert_allclose(found.mean, exact.mean(axis=0).astype(float), rtol=1e-14, atol=1e-15 * float(size.max()))
    squares = np.square(exact - exact.mean(axis=0)).sum(axis=0).astype(float)
    np.testing.assert_allclose(found.squares, squares, rtol=1e-8, atol=1e-18 * float(size.max()) ** 2)
    np.testing.assert_allclose(found.squares / len(X), X.var(axis=0, dtype=np.float64), rtol=1e-6, atol=1e-12)


@quick
@given(case=cut_samples())
def test_moments_of_whole_numbers_are_exact_in_blocks_of_equal_powers_of_two(case):
    # Halving is exact, so that nothing is left to rounding.
    n = 1 << (len(case[0]).bit_length())
    X = np.random.default_rng(len(case[1])).integers(0, 64, (n, 2)).astype(float) + 2.0**30
    found = in_blocks(X, np.arange(2, n, 2))
    np.testing.assert_array_equal(found.mean, X.mean(axis=0))
    np.testing.assert_array_equal(found.squares, np.square(X - X.mean(axis=0)).sum(axis=0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_offset_far_above_the_spread_leaves_the_digits(dtype):
    X = np.random.default_rng(0).integers(0, 64, (1000, 3)).astype(dtype)
    offset = 2.0**40 if dtype is np.float64 else 2.0**17
    moved = in_blocks(X + dtype(offset), [1, 7, 500, 999])
    plain = Moments.of(X)
    np.testing.assert_allclose(moved.squares, plain.squares, rtol=1e-6)
    np.testing.assert_allclose(moved.mean - offset, plain.mean, atol=1e-3)


def test_a_constant_channel_has_no_variance_at_all():
    X = np.full((100, 1), 0.1)
    assert in_blocks(X, [3, 64, 65]).squares[0] < 1e-28


@pytest.mark.parametrize("blocks", [1, 2, 3, 5, 8, 13])
def test_the_order_of_addition_is_a_tree_of_neighbours(blocks):
    parts = [Moments.of(np.random.default_rng(i).standard_normal((4, 2))) for i in range(blocks)]
    level = parts
    while len(level) > 1:
        level = [combined(level[i : i + 2]) for i in range(0, len(level), 2)]
    found = combined(parts)
    np.testing.assert_array_equal(found.mean, level[0].mean)
    np.testing.assert_array_equal(found.squares, level[0].squares)

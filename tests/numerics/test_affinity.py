"""Kernel rows, their links and their balance, against full matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.kernels import (
    balanced,
    inverse_root,
    kernel_rows,
    relative_rows,
    row_shares,
    sparse_rows,
)
from dlcca.numerics.topk import closest_links, nearest_links
from tests.numerics.cases import quick, seeds
from tests.reference import kernel as literal
from tests.reference.alternating import view_operator


@st.composite
def distances(draw):
    """Squared distances (n, m), with ties."""
    rng = np.random.default_rng(draw(seeds))
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    return rng.integers(0, draw(st.sampled_from([2, 6, 1000])), (n, m)) / 4


@quick
@given(D=distances(), sigma=st.floats(0.1, 100), dtype=st.sampled_from([np.float64, np.float32]))
def test_kernel_rows_equal_the_literal_ones(D, sigma, dtype):
    W = kernel_rows(D.astype(dtype), sigma)
    assert W.dtype == dtype
    np.testing.assert_allclose(W, literal.kernel(D, sigma), rtol=1e-3 if dtype is np.float32 else 1e-12, atol=1e-37)


@quick
@given(D=distances(), sigma=st.floats(0.1, 100))
def test_relative_rows_are_kernel_rows_up_to_a_factor_and_never_vanish(D, sigma):
    W = relative_rows(D, sigma)
    np.testing.assert_array_equal(W.max(axis=1), 1)
    np.testing.assert_allclose(W * kernel_rows(D.min(axis=1, keepdims=True), sigma), kernel_rows(D, sigma), rtol=1e-9)
    np.testing.assert_allclose(relative_rows(D + 1e5, sigma), W, rtol=1e-6, atol=1e-12)


@quick
@given(seed=seeds, n=st.integers(1, 15), d=st.integers(1, 3), levels=st.sampled_from([2, 5, 1000]), data=st.data())
def test_nearest_links_equal_the_literal_ones(seed, n, d, levels, data):
    # Integer coordinates, so that ties are ties to the last digit.
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, (n, d)).astype(float)
    rows = rng.permutation(n)[: data.draw(st.integers(1, n))]
    s = data.draw(st.integers(1, len(rows)))
    keep = literal.nearest_links(X, rows, s)
    for block in (2048, 4):
        links = nearest_links(X, X[rows], s, block=block)
        assert links.shape == (n, s)
        np.testing.assert_array_equal([np.isin(np.arange(len(rows)), row) for row in links], keep)


@quick
@given(D=distances(), data=st.data())
def test_closest_links_are_the_smallest_distances_nearest_first(D, data):
    s = data.draw(st.integers(1, D.shape[1]))
    links, nearest = closest_links(D, s)
    np.testing.assert_array_equal(np.take_along_axis(D, links, axis=1), nearest)
    assert (np.diff(nearest, axis=1) >= 0).all()
    keep = literal.keep_smallest(D, s)
    np.testing.assert_array_equal([np.isin(np.arange(D.shape[1]), row) for row in links], keep)


@quick
@given(D=distances(), sigma=st.floats(0.5, 50), data=st.data())
def test_sparse_rows_equal_the_literal_kernel_with_the_rest_left_out(D, sigma, data):
    s = data.draw(st.integers(1, D.shape[1]))
    links, nearest = closest_links(D, s)
    W = sparse_rows(kernel_rows(nearest, sigma), links, D.shape[1])
    np.testing.assert_allclose(W.toarray(), literal.sparse_kernel(D, sigma, literal.keep_smallest(D, s)), rtol=1e-12)
    assert W.nnz == len(D) * s


@quick
@given(D=distances(), sigma=st.floats(0.5, 50), seed=seeds)
def test_a_sparse_kernel_with_all_links_is_the_dense_one(D, sigma, seed):
    links, nearest = closest_links(D, D.shape[1])
    W = sparse_rows(kernel_rows(nearest, sigma), links, D.shape[1])
    np.testing.assert_array_equal(W.toarray(), kernel_rows(D, sigma))
    uneven = sp.csr_array(W.toarray() * np.random.default_rng(seed).uniform(0.1, 9, D.shape))
    np.testing.assert_allclose(row_shares(uneven).toarray(), row_shares(uneven.toarray()), rtol=1e-12)
    (A, C), (B, E) = balanced(W), balanced(W.toarray())
    np.testing.assert_allclose(A.toarray(), B, rtol=1e-12)
    np.testing.assert_allclose(C, E, rtol=1e-12)


@quick
@given(D=distances(), sigma=st.floats(0.5, 50), seed=seeds, dtype=st.sampled_from([np.float64, np.float32]))
def test_a_balanced_kernel_steps_as_the_literal_operator_does(D, sigma, seed, dtype):
    W = relative_rows(D, sigma).astype(dtype)
    factor = np.random.default_rng(seed).uniform(0.01, 100, (len(W), 1)).astype(dtype)
    A, C = balanced(W)
    np.testing.assert_allclose(A @ A.T, view_operator(W), atol=1e-12)
    np.testing.assert_allclose(balanced(W * factor)[0], A, rtol=1e-5 if dtype is np.float32 else 1e-12)
    assert C.sum() == pytest.approx(len(D))
    np.testing.assert_allclose((A @ A.T).sum(axis=0), 1, atol=1e-12)


def test_a_landmark_that_nobody_is_linked_to_counts_for_nothing():
    W = sp.csr_array(np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 1.0]]))
    A, C = balanced(W)
    assert C[1] == 0
    np.testing.assert_array_equal(A.toarray()[:, 1], 0)
    np.testing.assert_allclose((A @ A.T).toarray(), view_operator(W.toarray()), atol=1e-15)


def test_the_inverse_root_of_zero_is_zero():
    np.testing.assert_array_equal(inverse_root(np.array([4.0, 0.0, 0.25])), [0.5, 0.0, 2.0])


def test_links_survive_an_offset_far_above_the_spread():
    X = np.random.default_rng(0).integers(0, 50, (60, 3)).astype(float)
    np.testing.assert_array_equal(nearest_links(X + 1e10, X[:9] + 1e10, 4), nearest_links(X, X[:9], 4))

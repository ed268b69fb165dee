"""Products of sparse kernels against dense ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.kernels import TILE_ROWS, add_gram
from tests.numerics.cases import quick, seeds


def sparse(rng, n, m, s, dtype=np.float64, kind=np.int64):
    """Links (n, s) without repetition in a row, and entries, some of them zero."""
    links = np.array([rng.permutation(m)[:s] for _ in range(n)]).reshape(n, s).astype(kind)
    return links, (rng.standard_normal((n, s)) * rng.integers(0, 2, (n, s))).astype(dtype)


def dense(links, W, m):
    full = np.zeros((len(links), m))
    for j in range(len(links)):
        for p, i in enumerate(links[j]):
            full[j, i] = W[j, p]
    return full


sizes = st.integers(1, 9)


@quick
@given(
    seed=seeds,
    n=st.integers(0, 12),
    m_a=sizes,
    m_b=sizes,
    data=st.data(),
    dtype=st.sampled_from([np.float64, np.float32]),
    kind=st.sampled_from([np.int64, np.int32]),
)
def test_the_gram_of_sparse_rows_equals_the_dense_product(seed, n, m_a, m_b, data, dtype, kind):
    rng = np.random.default_rng(seed)
    a = sparse(rng, n, m_a, data.draw(st.integers(1, m_a)), dtype, kind)
    b = sparse(rng, n, m_b, data.draw(st.integers(1, m_b)), dtype, kind)
    G = np.zeros((m_a, m_b))
    add_gram(G, *a, *b)
    np.testing.assert_allclose(G, dense(*a, m_a).T @ dense(*b, m_b), atol=1e-14)


@quick
@given(seed=seeds, n=st.integers(1, 12), m=sizes, data=st.data())
def test_blocks_add_up_and_the_same_ones_do_so_to_the_last_digit(seed, n, m, data):
    rng = np.random.default_rng(seed)
    s = data.draw(st.integers(1, m))
    (links_a, A), (links_b, B) = sparse(rng, n, m, s), sparse(rng, n, m, s)
    before = rng.standard_normal((m, m))
    whole, parts = before.copy(), before.copy()
    add_gram(whole, links_a, A, links_b, B)
    cut = data.draw(st.integers(0, n))
    for rows in (slice(0, cut), slice(cut, n)):
        add_gram(parts, links_a[rows], A[rows], links_b[rows], B[rows])
    np.testing.assert_allclose(parts, whole, atol=1e-14)
    again = before.copy()
    add_gram(again, links_a, A, links_b, B)
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_allclose(whole - before, dense(links_a, A, m).T @ dense(links_b, B, m), atol=1e-13)


@quick
@given(seed=seeds, n=st.integers(0, 12), m=sizes, data=st.data(), dtype=st.sampled_from([np.float64, np.float32]))
def test_a_kernels_own_gram_is_symmetric_to_the_last_digit(seed, n, m, data, dtype):
    rng = np.random.default_rng(seed)
    links, A = sparse(rng, n, m, data.draw(st.integers(1, m)), dtype)
    G = np.zeros((m, m))
    add_gram(G, links, A, links, A)
    np.testing.assert_array_equal(G, G.T)


def test_more_rows_than_are_turned_over_at_a_time_give_the_dense_product():
    rng = np.random.default_rng(0)
    (links_a, A), (links_b, B) = (sparse(rng, 2 * TILE_ROWS + 3, 11, 4) for _ in range(2))
    G = np.zeros((11, 11))
    add_gram(G, links_a, A, links_b, B)
    np.testing.assert_allclose(G, dense(links_a, A, 11).T @ dense(links_b, B, 11), atol=1e-10)


def test_small_and_large_entries_of_float32_are_added_in_float64():
    links = np.zeros((1001, 1), dtype=np.int64)
    W = np.full((1001, 1), 0.01, dtype=np.float32)  # squares that float32 would lose beside the first one
    W[0] = 100
    G = np.zeros((1, 1))
    add_gram(G, links, W, links, W)
    assert G[0, 0] == pytest.approx(1e4 + 1000 * float(W[1, 0]) ** 2, rel=1e-13)

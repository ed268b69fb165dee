"""Block Lanczos against the eigenproblem of the whole matrix."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.errors import SettingsError
from dlcca.numerics import eigensolvers
from dlcca.numerics.eigensolvers import largest_eigenpairs, square_root
from tests.numerics.cases import quick, rotation, seeds

#: Eigenvalues of every awkward kind, falling from 1.
SPECTRA = {
    "apart": lambda m: 0.9 ** np.arange(m),
    "close to one": lambda m: 1 - 1e-4 * np.arange(m) ** 1.5 / (1 + 1e-4 * np.arange(m) ** 1.5),
    "pairs": lambda m: 0.97 ** ((np.arange(m) + 1) // 2),
    "clusters": lambda m: 0.8 ** (np.arange(m) // 4) * (1 - 1e-7 * (np.arange(m) % 4)),
    "many ones": lambda m: np.where(np.arange(m) < 9, 1.0, 0.5 ** np.arange(m)),
    "rank five": lambda m: np.where(np.arange(m) < 5, 0.6 ** np.arange(m), 0.0),
    "all equal": lambda m: np.ones(m),
    "zero": lambda m: np.zeros(m),
}


def symmetric(rng, lam):
    U = rotation(rng, len(lam))
    return (U * lam) @ U.T


def counted(H):
    """Products with a matrix, and a list that grows by one with each."""
    calls = []

    def product(V):
        calls.append(V.shape[1])
        return H @ V

    return product, calls


def assert_same_spaces(lam, X, H, *, atol=1e-8):
    """Every cluster of eigenvalues spans the space that it spans in the solution of the whole matrix."""
    values, U = np.linalg.eigh(H)
    values, U = values[::-1], U[:, ::-1]
    np.testing.assert_allclose(lam, values[: len(lam)], atol=1e-12)
    edges = [0, *(np.flatnonzero(-np.diff(values) > 1e-5) + 1), len(values)]
    for first, last in pairwise(edges):
        if last <= len(lam):  # a cluster that is cut by the count has no vectors of its own
            found, expected = X[:, first:last], U[:, first:last]
            np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=atol)


@quick
@given(seed=seeds, kind=st.sampled_from(sorted(SPECTRA)), m=st.integers(1, 150), share=st.floats(0, 1))
def test_the_pairs_are_those_of_the_whole_matrix(seed, kind, m, share):
    count = 1 + int(share * min(m - 1, 11))
    H = symmetric(np.random.default_rng(seed), SPECTRA[kind](m))
    lam, X = largest_eigenpairs(lambda V: H @ V, m, count)
    assert lam.shape == (count,)
    np.testing.assert_allclose(X.T @ X, np.eye(count), atol=1e-12)
    np.testing.assert_allclose(H @ X, X * lam, atol=2e-13)
    assert_same_spaces(lam, X, H)


@quick
@given(seed=seeds, kind=st.sampled_from(sorted(SPECTRA)), m=st.integers(20, 120), rough=st.floats(0.6, 1))
def test_another_inner_product_gives_the_pairs_of_the_symmetric_form(seed, kind, m, rough):
    rng = np.random.default_rng(seed)
    M, G = symmetric(rng, SPECTRA[kind](m)), symmetric(rng, rough ** np.arange(m))
    lam, X = largest_eigenpairs(lambda V: M @ V, m, 5, weigh=lambda V: G @ V)
    B, _ = square_root(G)
    np.testing.assert_allclose(lam, np.linalg.eigvalsh(B.T @ M @ B)[::-1][:5], atol=1e-12)
    real = lam > 1e-10  # a pair of the null space has any vector, or none
    np.testing.assert_allclose((X.T @ G @ X)[real][:, real], np.eye(real.sum()), atol=1e-10)
    np.testing.assert_allclose(B.T @ (M @ (G @ X) - X * lam), 0, atol=1e-11)


def circle(m, sigma=3e-3):
    """A diffusion step on points around a circle: all its eigenvalues but the first are pairs."""
    angle = np.linspace(0, 2 * np.pi, m, endpoint=False)
    W = np.exp((np.cos(angle[:, None] - angle) - 1) / sigma)
    return W / W.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 9])
def test_the_equal_pairs_of_a_circle_are_found_with_both_their_vectors(count):
    H = circle(400)
    lam, X = largest_eigenpairs(lambda V: H @ V, 400, count)
    assert_same_spaces(lam, X, H)


def test_an_eigenvalue_is_found_as_often_as_it_is_there():
    H = np.kron(np.eye(10), circle(40))  # ten pieces, each with a trivial 1
    lam, X = largest_eigenpairs(lambda V: H @ V, 400, 12)
    np.testing.assert_allclose(lam[:10], 1, atol=1e-13)
    assert lam[10] < 1 - 1e-4
    pieces = np.kron(np.eye(10), np.ones((40, 1)) / np.sqrt(40))
    np.testing.assert_allclose(X[:, :10] @ X[:, :10].T, pieces @ pieces.T, atol=1e-10)


@pytest.mark.parametrize("weighed", [False, True])
def test_a_small_basis_is_restarted_and_gives_the_same(weighed, monkeypatch):
    H, m = circle(500), 500
    G = circle(500, 1e-3) if weighed else np.eye(m)
    plain, _ = largest_eigenpairs(lambda V: H @ V, m, 5, weigh=(lambda V: G @ V) if weighed else None)
    restarts, sizes = [], set()
    restart, grow = eigensolvers._Basis.restart, eigensolvers._Basis.grow

    def counting(basis, *arguments):
        restarts.append(basis.size)
        restart(basis, *arguments)

    def watching(basis, following):
        sizes.add(basis.most)
        return grow(basis, following)

    monkeypatch.setattr(eigensolvers._Basis, "restart", counting)
    monkeypatch.setattr(eigensolvers._Basis, "grow", watching)
    monkeypatch.setattr(eigensolvers, "BASIS_BYTES", 0)
    lam, X = largest_eigenpairs(lambda V: H @ V, m, 5, weigh=(lambda V: G @ V) if weighed else None)
    assert len(restarts) >= 2
    assert sizes == {2 * 5 + eigensolvers.LEAST_BLOCKS * 8}
    np.testing.assert_allclose(lam, plain, atol=1e-13)
    np.testing.assert_allclose(X.T @ G @ X, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(H @ (G @ X), X * lam, atol=1e-12)


def test_where_the_inner_product_has_too_low_a_rank_the_rest_is_zero():
    m, few = 100, np.zeros(100)
    few[:3] = 0.5, 0.3, 0.1
    H = circle(m)
    lam, X = largest_eigenpairs(lambda V: H @ V, m, 5, weigh=lambda V: few[:, None] * V)
    assert (lam[:3] > 0).all()
    np.testing.assert_array_equal(lam[3:], 0)
    np.testing.assert_array_equal(X[:, 3:], 0)


def test_a_few_vectors_are_multiplied_as_a_whole_and_every_block_is_narrow():
    for m, count in [(1, 1), (3, 2), (7, 7), (32, 5), (300, 5), (300, 20)]:
        H = symmetric(np.random.default_rng(m), 0.8 ** np.arange(m))
        product, widths = counted(H)
        lam, _ = largest_eigenpairs(product, m, count)
        np.testing.assert_allclose(lam, 0.8 ** np.arange(count), atol=1e-13)
        assert max(widths) <= eigensolvers.width(count)
        if m <= 32:
            assert sum(widths) == m


def test_nearly_all_pairs_may_be_asked_for():
    H = symmetric(np.random.default_rng(0), SPECTRA["apart"](90))
    for count in (40, 89, 90):
        lam, X = largest_eigenpairs(lambda V: H @ V, 90, count)
        np.testing.assert_allclose(lam, 0.9 ** np.arange(count), atol=1e-12)
        np.testing.assert_allclose(X.T @ X, np.eye(count), atol=1e-12)


def test_more_pairs_than_a_block_is_wide_survive_the_restarts(monkeypatch):
    monkeypatch.setattr(eigensolvers, "MOST_WIDTH", 8)
    monkeypatch.setattr(eigensolvers, "BASIS_BYTES", 0)
    H = symmetric(np.random.default_rng(0), SPECTRA["apart"](300))
    lam, _ = largest_eigenpairs(lambda V: H @ V, 300, 40)
    np.testing.assert_allclose(lam, 0.9 ** np.arange(40), atol=1e-12)


def test_each_step_takes_one_product_with_each_matrix():
    H, G = circle(400), circle(400, 1e-3)
    (apply, applied), (weigh, weighed) = counted(H), counted(G)
    largest_eigenpairs(apply, 400, 5, weigh=weigh)
    assert 5 < len(applied) < 60
    assert len(weighed) == len(applied) + 1


def test_the_result_is_the_same_every_time():
    H = circle(300)
    one, two = (largest_eigenpairs(lambda V: H @ V, 300, 5) for _ in range(2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def test_what_does_not_converge_is_an_error_that_says_what_to_turn(monkeypatch):
    monkeypatch.setattr(eigensolvers, "MOST_STEPS", 4)
    H = circle(2000, 1e-5)
    with pytest.raises(SettingsError, match=r"of 6 eigenpairs after 4 blocks .*n_components.*n_links.*solver='gram'"):
        largest_eigenpairs(lambda V: H @ V, 2000, 6)

"""The eigenproblem through landmarks against the full N x N matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.coordinates import signs
from dlcca.numerics.distances import squared_distances
from dlcca.numerics.eigensolvers import fixed_start, largest_pairs
from dlcca.numerics.kernels import extend, gram, kernel_rows, relative_rows, sparse_rows
from dlcca.numerics.topk import closest_links
from tests.numerics.cases import balanced_spectrum, landmark_spectrum, quick, seeds
from tests.reference import diffusion as literal
from tests.reference.alternating import view_operator


def strip_distances(seed, n=40, m=15):
    """Squared distances of points on a long strip to some of them: its eigenvalues stand well apart."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(0, 3, n), rng.uniform(0, 0.4, n)])
    x[:3, 0] = 0.0, 1.5, 3.0
    return squared_distances(x, x[:m])


def sparse_kernel(D, sigma, s):
    links, nearest = closest_links(D, s)
    return sparse_rows(kernel_rows(nearest, sigma), links, D.shape[1])


def signed(Psi):
    return Psi * signs(Psi)


@quick
@given(seed=seeds, n=st.integers(12, 40), share=st.floats(0.3, 1), q=st.integers(1, 4))
def test_coordinates_equal_those_of_the_full_matrix(seed, n, share, q):
    m = max(q + 2, round(share * n))
    W = kernel_rows(strip_distances(seed, n, m), 0.5)
    spectrum = landmark_spectrum(W, q)
    eigenvalues, coordinates = literal.spectrum(W, q)
    np.testing.assert_allclose(spectrum.eigenvalues, eigenvalues, atol=1e-12)
    assert spectrum.eigenvalues[0] == pytest.approx(1, abs=1e-10)
    gap = np.min(-np.diff(literal.spectrum(W, q + 1)[0]))  # eigenvectors are known to the rounding over the gap
    size = np.abs(coordinates).max()
    found = signed(extend(W, spectrum.weights, spectrum.values))
    np.testing.assert_allclose(found, coordinates, atol=size * max(1e-9, 1e-13 / gap))


@quick
@given(seed=seeds, s=st.integers(6, 15), q=st.integers(1, 3))
def test_coordinates_of_a_sparse_kernel_equal_those_of_the_full_matrix(seed, s, q):
    W = sparse_kernel(strip_distances(seed), 0.5, s)
    spectrum = landmark_spectrum(W, q)
    eigenvalues, coordinates = literal.spectrum(W.toarray(), q)
    np.testing.assert_allclose(spectrum.eigenvalues, eigenvalues, atol=1e-12)
    np.testing.assert_allclose(signed(extend(W, spectrum.weights, spectrum.values)), coordinates, atol=1e-7)


@quick
@given(seed=seeds, q=st.integers(1, 4))
def test_a_sparse_kernel_with_all_links_has_the_dense_spectrum(seed, q):
    D = strip_distances(seed)
    dense, sparse = landmark_spectrum(kernel_rows(D, 0.5), q), landmark_spectrum(sparse_kernel(D, 0.5, D.shape[1]), q)
    np.testing.assert_allclose(sparse.eigenvalues, dense.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-12)
    np.testing.assert_allclose(signed(sparse.values), signed(dense.values), atol=1e-7)


@quick
@given(
    seed=seeds,
    q=st.integers(1, 4),
    sparse=st.booleans(),
    spectrum=st.sampled_from([landmark_spectrum, balanced_spectrum]),
)
def test_lanczos_finds_what_the_gram_matrix_gives(seed, q, sparse, spectrum):
    D = strip_distances(seed)
    W = sparse_kernel(D, 0.5, 8) if sparse else kernel_rows(D, 0.5)
    gram, lanczos = spectrum(W, q), spectrum(W, q, solver="lanczos")
    np.testing.assert_allclose(lanczos.eigenvalues, gram.eigenvalues, atol=1e-10)
    np.testing.assert_allclose(signed(lanczos.values), signed(gram.values), atol=1e-8 * np.abs(gram.values).max())


@quick
@given(seed=seeds, q=st.integers(1, 4), sparse=st.booleans())
def test_the_balanced_spectrum_is_that_of_the_doubly_stochastic_step(seed, q, sparse):
    D = strip_distances(seed)
    W = sparse_kernel(D, 0.5, 8) if sparse else relative_rows(D, 0.5)
    spectrum = balanced_spectrum(W, q)
    K = view_operator(W.toarray() if sparse else W)
    lam, vectors = np.linalg.eigh(K)
    np.testing.assert_allclose(spectrum.eigenvalues, lam[::-1][: q + 1], atol=1e-12)
    assert spectrum.eigenvalues[0] == pytest.approx(1, abs=1e-10)
    expected = vectors[:, ::-1][:, 1 : q + 1] * np.sqrt(len(D))  # psi_0 is constant, 1/sqrt(n)
    np.testing.assert_allclose(signed(extend(W, spectrum.weights, spectrum.values)), signed(expected), atol=1e-7)


@quick
@given(seed=seeds)
def test_a_factor_of_each_row_does_not_change_the_balanced_spectrum(seed):
    D = strip_distances(seed)
    plain, relative = balanced_spectrum(kernel_rows(D, 0.5), 3), balanced_spectrum(relative_rows(D, 0.5), 3)
    np.testing.assert_allclose(relative.eigenvalues, plain.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(signed(relative.values), signed(plain.values), atol=1e-7)


@quick
@given(seed=seeds, dtype=st.sampled_from([np.float32, np.float64]), sparse=st.booleans())
def test_the_leading_eigenvalue_is_one_in_every_precision(seed, dtype, sparse):
    D = strip_distances(seed).astype(dtype)
    W = sparse_kernel(D, 0.3, 7) if sparse else kernel_rows(D, 0.3)
    assert W.dtype == dtype
    for spectrum in (landmark_spectrum, balanced_spectrum):
        found = spectrum(W, 3)
        assert found.eigenvalues[0] == pytest.approx(1, abs=1e-10)
        assert (np.diff(found.eigenvalues) <= 0).all()
        assert found.values.dtype == np.float64


def test_single_precision_gives_the_coordinates_of_double():
    D = strip_distances(0)
    double, single = (
        landmark_spectrum(kernel_rows(D, 0.5), 3),
        landmark_spectrum(kernel_rows(D.astype(np.float32), 0.5), 3),
    )
    np.testing.assert_allclose(signed(single.values), signed(double.values), atol=1e-4)


def test_a_landmark_without_links_has_no_weight_and_does_no_harm():
    W = kernel_rows(strip_distances(0), 0.5)
    W = np.insert(W, 4, 0.0, axis=1)
    for spectrum in (landmark_spectrum, balanced_spectrum):
        found, plain = spectrum(W, 3), spectrum(np.delete(W, 4, axis=1), 3)
        assert found.weights[4] == 0
        np.testing.assert_allclose(found.eigenvalues, plain.eigenvalues, atol=1e-12)
        assert np.isfinite(found.values).all()
        np.testing.assert_allclose(
            signed(extend(W, found.weights, found.values)),
            signed(extend(np.delete(W, 4, axis=1), plain.weights, plain.values)),
            atol=1e-8,
        )


@pytest.mark.parametrize("solver", ["gram", "lanczos"])
def test_as_many_coordinates_as_landmarks_allow_can_be_asked_for(solver):
    D = strip_distances(0, n=12, m=5)
    W = kernel_rows(D, 0.2)
    spectrum = landmark_spectrum(W, 4, solver=solver)
    assert spectrum.values.shape == (5, 4)
    np.testing.assert_allclose(spectrum.eigenvalues, literal.spectrum(W, 4)[0], atol=1e-10)


def test_two_pieces_have_the_eigenvalue_one_twice():
    W = kernel_rows(squared_distances(np.r_[0:5, 1000:1006][:, None], np.r_[0:5, 1000:1006][:, None]), 2.0)
    np.testing.assert_allclose(landmark_spectrum(W, 2).eigenvalues[:2], 1, atol=1e-12)


def test_largest_pairs_are_those_of_the_gram_matrix():
    A = np.random.default_rng(0).standard_normal((30, 8))
    lam, u = largest_pairs(gram(A, A), 3)
    np.testing.assert_allclose(A.T @ A @ u, u * lam, atol=1e-10)
    np.testing.assert_allclose(lam, np.linalg.eigvalsh(A.T @ A)[::-1][:3], rtol=1e-12)
    assert gram(A.astype(np.float32), A.astype(np.float32)).dtype == np.float64


def test_lanczos_starts_the_same_way_every_time():
    np.testing.assert_array_equal(fixed_start(9), fixed_start(9))
    assert (fixed_start(9) > 0).all()

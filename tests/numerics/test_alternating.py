"""Alternating fusion through landmarks against the product of full N x N operators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics import eigensolvers
from dlcca.numerics.coordinates import signs
from dlcca.numerics.distances import squared_distances
from dlcca.numerics.fusion import FUSIONS, Degrees
from dlcca.numerics.kernels import balanced, extend, gram, relative_rows, sparse_rows
from dlcca.numerics.topk import closest_links
from tests.numerics.cases import quick, seeds, spectrum_of
from tests.reference.alternating import alternating


def kernels_of_a_common_line(seed, K, *, n=35, landmarks=(14, 18, 35), sparse=False):
    """One kernel for each of K views, all of a common variable on a line and of a little of their own."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.uniform(0, 2, n))
    kernels = []
    for v in range(K):
        x = np.column_stack([z, rng.uniform(0, 0.5, n)])
        m = landmarks[v % len(landmarks)]
        D = squared_distances(x, x[rng.permutation(n)[:m]])
        if sparse:
            links, nearest = closest_links(D, 10)
            kernels.append(sparse_rows(relative_rows(nearest, 0.3), links, m))
        else:
            kernels.append(relative_rows(D, 0.3))
    return kernels


def readings(kernels, spectrum):
    return [extend(W, np.ones(W.shape[1]), V) for W, V in zip(kernels, spectrum.values, strict=True)]


def fused(kernels, spectrum):
    """The mean of the views' readings at root mean square one, with a fixed sign, and that sign."""
    mean = np.mean(readings(kernels, spectrum), axis=0)
    mean = mean / np.sqrt(np.mean(mean**2, axis=0))
    return mean * signs(mean), signs(mean)


@quick
@given(seed=seeds, K=st.integers(2, 6), q=st.integers(1, 2), sparse=st.booleans())
def test_readings_and_coordinates_equal_those_of_the_full_operators(seed, K, q, sparse):
    kernels = kernels_of_a_common_line(seed, K, sparse=sparse)
    S, expected, coordinates = alternating([W.toarray() if sparse else W for W in kernels], q)
    spectrum = spectrum_of(kernels, q)
    np.testing.assert_allclose(spectrum.eigenvalues, S, atol=1e-9)
    assert spectrum.eigenvalues[0] == pytest.approx(1, abs=1e-10)
    found, flip = fused(kernels, spectrum)
    np.testing.assert_allclose(found, coordinates, atol=1e-6)
    for one, other in zip(readings(kernels, spectrum), expected, strict=True):
        np.testing.assert_allclose(one * flip, other, atol=1e-6)
        np.testing.assert_allclose(np.mean(one**2, axis=0), 1, rtol=1e-9)


@quick
@given(seed=seeds, K=st.integers(2, 4), q=st.integers(1, 2), sparse=st.booleans())
def test_lanczos_finds_what_the_gram_matrices_give(seed, K, q, sparse):
    kernels = kernels_of_a_common_line(seed, K, sparse=sparse)
    gram, lanczos = spectrum_of(kernels, q), spectrum_of(kernels, q, solver="lanczos")
    np.testing.assert_allclose(lanczos.eigenvalues, gram.eigenvalues, atol=1e-8)
    np.testing.assert_allclose(fused(kernels, lanczos)[0], fused(kernels, gram)[0], atol=1e-8)


@quick
@given(seed=seeds, K=st.integers(2, 4))
def test_a_sparse_kernel_with_all_links_has_the_dense_spectrum(seed, K):
    kernels = kernels_of_a_common_line(seed, K)
    everything = [sparse_rows(W, np.tile(np.arange(W.shape[1]), (len(W), 1)), W.shape[1]) for W in kernels]
    dense, sparse = spectrum_of(kernels, 2), spectrum_of(everything, 2)
    np.testing.assert_allclose(sparse.eigenvalues, dense.eigenvalues, atol=1e-10)
    np.testing.assert_allclose(fused(everything, sparse)[0], fused(kernels, dense)[0], atol=1e-8)


@quick
@given(seed=seeds)
def test_a_factor_of_each_row_changes_nothing(seed):
    kernels = kernels_of_a_common_line(seed, 2)
    factor = np.random.default_rng(seed).uniform(0.01, 100, (len(kernels[0]), 1))
    scaled = [W * factor for W in kernels]
    plain, other = spectrum_of(kernels, 2), spectrum_of(scaled, 2)
    np.testing.assert_allclose(other.eigenvalues, plain.eigenvalues, atol=1e-10)
    np.testing.assert_allclose(fused(scaled, other)[0], fused(kernels, plain)[0], atol=1e-8)


def test_single_precision_kernels_give_the_coordinates_of_double():
    kernels = kernels_of_a_common_line(0, 2)
    single = [W.astype(np.float32) for W in kernels]
    plain, other = spectrum_of(kernels, 2), spectrum_of(single, 2)
    assert other.eigenvalues[0] == pytest.approx(1, abs=1e-10)
    np.testing.assert_allclose(fused(single, other)[0], fused(kernels, plain)[0], atol=1e-4)


def test_what_is_private_to_a_view_is_forgotten():
    rng = np.random.default_rng(0)
    z, *private = rng.uniform(0, 1, (3, 150))
    kernels = [relative_rows(squared_distances(x, x), 0.1) for x in (np.column_stack([z, 2 * e]) for e in private)]
    coordinate = fused(kernels, spectrum_of(kernels, 1))[0][:, 0]
    assert abs(np.corrcoef(coordinate, z)[0, 1]) > 0.95
    assert all(abs(np.corrcoef(coordinate, e)[0, 1]) < 0.2 for e in private)
    alone = np.linalg.eigh(kernels[0] / np.sqrt(np.outer(kernels[0].sum(0), kernels[0].sum(0))))[1][:, -2]
    assert abs(np.corrcoef(alone, private[0])[0, 1]) > 0.9


def test_a_landmark_without_links_does_no_harm():
    kernels = kernels_of_a_common_line(0, 2)
    padded = [np.insert(W, 3, 0.0, axis=1) for W in kernels]
    plain, other = spectrum_of(kernels, 2), spectrum_of(padded, 2)
    np.testing.assert_allclose(other.eigenvalues, plain.eigenvalues, atol=1e-10)
    assert all(np.isfinite(V).all() for V in other.values)
    np.testing.assert_allclose(fused(padded, other)[0], fused(kernels, plain)[0], atol=1e-8)


@pytest.mark.parametrize("K", [2, 3])
def test_many_landmarks_are_solved_by_lanczos_to_the_digits_of_the_whole_matrices(K, monkeypatch):
    rng = np.random.default_rng(K)
    z = rng.uniform(0, 1, 700)
    kernels = []
    for _ in range(K):
        x = np.column_stack([z, 0.3 * rng.standard_normal(700)])
        kernels.append(np.exp(-((x[:, None] - x[: eigensolvers.SMALL + 40]) ** 2).sum(axis=2) / 0.05))
    A, columns = zip(*map(balanced, kernels), strict=True)
    fusion, degrees = FUSIONS["alternating"], Degrees(700, list(columns))
    grams = {(u, v): gram(A[u], A[v]) for u, v in fusion.gram_pairs(K)}
    found = fusion.from_grams(grams, 3, degrees)
    monkeypatch.setattr(eigensolvers, "SMALL", len(grams[0, 0]))
    whole = fusion.from_grams(grams, 3, degrees)
    np.testing.assert_allclose(found[0], whole[0], atol=1e-12)
    for a, b in zip(found[1], whole[1], strict=True):
        np.testing.assert_allclose(a * np.sign((a * b).sum(axis=0)), b, rtol=1e-8, atol=1e-8)


def test_eigenvalues_that_lanczos_cannot_tell_apart_are_found_from_the_whole_matrix(monkeypatch):
    monkeypatch.setattr(eigensolvers, "SMALL", 10)
    monkeypatch.setattr(eigensolvers, "GRAM_STEPS", 1)
    lam = 1 - np.arange(60) * 1e-6
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 60)))[0]
    found, vectors = eigensolvers.largest_pairs(Q * lam @ Q.T, 3)
    np.testing.assert_allclose(found, lam[:3], atol=1e-12)
    np.testing.assert_allclose(np.abs(vectors.T @ Q[:, :3]), np.eye(3), atol=1e-6)

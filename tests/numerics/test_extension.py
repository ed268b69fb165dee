"""Coordinates of new rows against the Nystrom formula, written out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.coordinates import signs
from dlcca.numerics.distances import squared_distances
from dlcca.numerics.kernels import extend, kernel_rows, sparse_rows
from dlcca.numerics.topk import closest_links
from tests.numerics.cases import landmark_spectrum, quick, seeds
from tests.reference import diffusion as literal


@quick
@given(seed=seeds, q=st.integers(1, 3))
def test_new_rows_get_the_literal_coordinates(seed, q):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(0, 3, 25), rng.uniform(0, 0.4, 25)])
    new = np.column_stack([rng.uniform(0, 3, 2), rng.uniform(0, 0.4, 2)])
    W, W_new = (kernel_rows(squared_distances(points, x[:10]), 0.5) for points in (x, new))
    spectrum = landmark_spectrum(W, q)
    flip = signs(extend(W, spectrum.weights, spectrum.values))
    found = extend(W_new, spectrum.weights, spectrum.values) * flip
    for row, coordinates in zip(W_new, found, strict=True):
        np.testing.assert_allclose(coordinates, literal.extend(row, W, q), atol=1e-7)


@quick
@given(seed=seeds, n=st.integers(1, 9), m=st.integers(1, 9), q=st.integers(1, 3), sparse=st.booleans())
def test_a_row_is_an_average_of_the_values_whatever_its_factor(seed, n, m, q, sparse):
    rng = np.random.default_rng(seed)
    D, b, V = rng.exponential(size=(n, m)), rng.uniform(0.1, 2, m), rng.standard_normal((m, q))
    links, nearest = closest_links(D, (m + 1) // 2)
    W = sparse_rows(kernel_rows(nearest, 0.5), links, m) if sparse else kernel_rows(D, 0.5)
    dense = W.toarray() if sparse else W
    expected = [
        [
            sum(dense[j, i] * b[i] * V[i, c] for i in range(m)) / sum(dense[j, i] * b[i] for i in range(m))
            for c in range(q)
        ]
        for j in range(n)
    ]
    Psi = extend(W, b, V)
    np.testing.assert_allclose(Psi, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(extend(W * 1e-200, b, V), Psi, rtol=1e-9, atol=1e-12)
    assert (Psi <= V.max(axis=0) + 1e-12).all()
    assert (Psi >= V.min(axis=0) - 1e-12).all()


def test_single_precision_rows_are_averaged_in_double():
    W = np.random.default_rng(0).uniform(size=(4, 6)).astype(np.float32)
    assert extend(W, np.ones(6), np.ones((6, 2))).dtype == np.float64
    np.testing.assert_allclose(extend(W, np.ones(6), np.full((6, 2), 3.0)), 3, rtol=1e-15)

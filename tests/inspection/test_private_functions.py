"""Functions of a view that do not change with what is common."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcca.inspection import private_part as private
from tests.reference import private as literal


def case(seed, n=60, m=5, k=12):
    """A view that mixes z and e in three channels, z, and some functions of the view; random neighborhoods."""
    rng = np.random.default_rng(seed)
    z, e = rng.uniform(-1, 1, (2, n))
    X = np.column_stack([z, e]) @ rng.standard_normal((2, 3)) + 0.01 * rng.standard_normal((n, 3))
    neighbors = np.array([rng.choice(n, k, replace=False) for _ in range(m)])
    Phi = np.column_stack([X, X[:, 0] ** 2, X[:, 1] * X[:, 2]])
    return X, z[:, None], e[:, None], Phi, neighbors


@given(st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_the_functions_found_have_the_least_energy_of_the_literal_twin(seed):
    X, Z, _, Phi, neighbors = case(seed)
    a, w = private.common_variates(X[neighbors], Z[neighbors], ridge=0.03)
    c, shared = private.unmoved(Phi, neighbors, a, w, np.cov(Phi, rowvar=False), 1)
    expected = literal.least_energy(Phi, neighbors, a, w, private.SMOOTHNESS)
    ones = np.ones_like(w)
    found = literal.common_energy(Phi @ c[:, 0], neighbors, a, w)
    every = literal.common_energy(Phi @ c[:, 0], neighbors, a, ones)
    np.testing.assert_allclose(found + private.SMOOTHNESS * every, expected, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(shared[0], found / every, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(np.var(Phi @ c[:, 0], ddof=1), 1, rtol=1e-8)


def test_of_a_linear_mixture_the_private_variable_is_found():
    X, Z, e, _, neighbors = case(0, n=600, m=40, k=200)
    a, w = private.common_variates(X[neighbors], Z[neighbors], ridge=1e-6)
    c, shared = private.unmoved(X[:, :2], neighbors, a, w, np.cov(X[:, :2], rowvar=False), 1)
    assert abs(np.corrcoef((X[:, :2] @ c)[:, 0], e[:, 0])[0, 1]) > 0.98
    assert shared[0] < 0.05


@given(st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_standards_are_those_of_the_literal_twin(seed):
    rng = np.random.default_rng(seed)
    E, Z = rng.standard_normal((70, 2)), rng.standard_normal((70, 1))
    mean, root = private.standards(E, Z, Z[:3])
    for i in range(3):
        expected = literal.standard(E, Z, Z[i], private.FEWEST_TOGETHER)
        np.testing.assert_allclose(mean[i], expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(root[i], expected[1], rtol=1e-7)


def test_what_goes_with_the_common_variable_in_mean_and_spread_is_taken_out():
    rng = np.random.default_rng(0)
    z, e = rng.uniform(-1, 1, (2, 4000))
    E = np.column_stack([(1 + 0.4 * z) * e + 0.5 * z])
    Z = z[:, None]
    mean, root = private.standards(E, Z, Z[:400])
    made = private.standardised(E, Z, Z[:400], mean, root)[:, 0]
    assert abs(np.corrcoef(made, z)[0, 1]) < 0.05
    assert abs(np.corrcoef(made**2, z)[0, 1]) < 0.05
    assert np.corrcoef(made, e)[0, 1] > 0.99


def test_functions_of_what_is_common_have_no_spread_where_it_is_alike():
    z, e = np.random.default_rng(0).uniform(-1, 1, (2, 4000))
    found = private.spread_apart(np.column_stack([z, e]), z[:, None], np.linspace(-0.9, 0.9, 50)[:, None])
    assert found[0, 0] < 0.01 * found[1, 1]
    np.testing.assert_allclose(found[1, 1], e.var(), rtol=0.1)

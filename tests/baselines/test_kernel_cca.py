"""Kernel CCA: finds a common state however it is bent, and fails where views share only their dynamics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dlcca import simulate
from dlcca.baselines import dense, kernel_cca
from dlcca.baselines.cca import kernel_features
from dlcca.baselines.dense import gaussian_kernel
from dlcca.errors import SettingsError
from tests.baselines.problems import related_views
from tests.reference import baselines as reference
from tests.support.scores import likeness, recovery


@pytest.mark.parametrize("channels", [(3, 2), (2, 4, 3)])
@pytest.mark.parametrize(("ridge", "sigma"), [(0.03, None), (0.3, None), (0.03, 5.0)])
def test_it_agrees_with_the_definition(channels, ridge, sigma):
    views = related_views(40, channels)
    found = kernel_cca(views, 3, ridge=ridge, bandwidth=sigma)
    correlations, variates = reference.kernel_cca(views, 3, ridge, sigma)
    assert_allclose(found.eigenvalues, correlations, rtol=1e-8)
    assert_allclose(found.embedding, variates, atol=1e-6)


@pytest.mark.parametrize("problem", [simulate.torus, simulate.spiral])
def test_a_common_state_is_found_and_what_is_private_is_not(problem):
    views, truth = problem(1000, random_state=0)
    embedding = kernel_cca(views).embedding
    assert recovery(embedding, truth.z) > 0.95
    assert all(recovery(embedding, nuisance) < 0.1 for nuisance in truth.nuisance)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("swing", [2.0, 4.0])
def test_pendulums_are_lost_because_neither_is_a_function_of_the_other(swing, private):
    views, truth = simulate.pendulums(swing=swing, private=private, random_state=0)
    first = kernel_cca(views).embedding[:, 0]
    assert max(likeness(first, pendulum) for pendulum in truth.displacement.T) < 0.3


def test_features_are_a_root_of_the_kernel_with_no_more_columns_than_it_needs():
    line = np.linspace(0, 1, 200)[:, None]
    K = gaussian_kernel(line, None)
    Phi = kernel_features(K.copy())
    assert_allclose(Phi @ Phi.T, K, atol=1e-11)
    assert Phi.shape[1] < 25


def test_the_solver_for_many_samples_finds_what_the_exact_one_does(monkeypatch):
    views = related_views(400, [5, 6])  # kernels of full rank
    by_lanczos = kernel_cca(views, 3)
    monkeypatch.setattr(dense, "EXACT_UP_TO", 900)
    monkeypatch.setattr("dlcca.baselines.cca.EXACT_UP_TO", 900)
    exact = kernel_cca(views, 3)
    assert_allclose(by_lanczos.eigenvalues, exact.eigenvalues, rtol=1e-10)
    assert_allclose(by_lanczos.embedding, exact.embedding, atol=1e-7)


def test_variates_have_unit_variance_but_for_the_ridge():
    views = related_views(200, [3, 2])
    assert_allclose(kernel_cca(views, ridge=1e-7).embedding.std(axis=0, ddof=1), 1, atol=1e-3)
    assert (kernel_cca(views, ridge=0.03).embedding.std(axis=0, ddof=1) < 1).all()


@pytest.mark.parametrize("ridge", [0, -0.1, np.inf, "a bit"])
def test_a_ridge_that_is_not_above_zero_is_refused(ridge):
    with pytest.raises(SettingsError, match=r"ridge=.* a number above 0"):
        kernel_cca(related_views(20, [2, 2]), ridge=ridge)


def test_more_variates_than_the_kernels_hold_are_refused():
    line = np.linspace(0, 1, 300)[:, None]
    with pytest.raises(SettingsError, match="n_components=100, but the views have ranks"):
        kernel_cca([line, line**2], 100)

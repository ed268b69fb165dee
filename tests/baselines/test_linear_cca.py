"""Linear CCA: perfect where the common variable is linear in the channels, and only there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dlcca import simulate
from dlcca.baselines import dense, linear_cca
from dlcca.errors import SettingsError
from tests.baselines.problems import related_views
from tests.reference import baselines as reference
from tests.support.scores import likeness, recovery


@pytest.mark.parametrize("channels", [(3, 4), (2, 5, 3)])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_it_agrees_with_the_definition(channels, ridge):
    views = related_views(50, channels)
    found = linear_cca(views, 2, ridge=ridge)
    correlations, embedding = reference.linear_cca(views, 2, ridge)
    assert_allclose(found.eigenvalues, correlations, rtol=1e-9)
    assert_allclose(found.embedding, embedding, atol=1e-8)


@pytest.mark.parametrize("n_views", [2, 3])
def test_a_common_variable_that_is_linear_in_the_channels_is_found_exactly(n_views):
    views, truth = simulate.linear(1000, n_views=n_views, random_state=0)
    found = linear_cca(views, 1)
    assert likeness(found.embedding, truth.z) > 1 - 1e-9
    assert_allclose(found.eigenvalues, 1)


def test_the_angle_on_a_small_circle_is_not_linear_in_the_channels_and_lost():
    views, truth = simulate.torus(1000, random_state=0)
    assert recovery(linear_cca(views).embedding, truth.z) < 0.7


def test_two_clean_pendulums_have_no_linear_function_in_common():
    views, truth = simulate.pendulums(1000, random_state=0)
    first = linear_cca(views).embedding[:, 0]
    assert max(likeness(first, pendulum) for pendulum in truth.displacement.T) < 0.2


def test_a_private_pendulum_at_a_fifth_of_the_speed_gives_the_other_pendulum_away():
    # cos(ω₁t) is a polynomial of degree 5 of cos(ω₁t/5), the paper's private pendulum of the first movie. So that
    # movie determines u₂ = 2 cos(ω₁t) - u₁ too, and a linear function of 200 pixels finds it.
    views, truth = simulate.pendulums(1000, private=True, random_state=0)
    found = linear_cca(views)
    assert found.eigenvalues[0] > 0.999
    assert likeness(found.embedding[:, 0], truth.displacement[:, 1]) > 0.99


@pytest.mark.parametrize("channels", [(3, 4), (3, 4, 3)])
def test_how_a_view_is_mixed_does_not_matter_without_a_ridge(channels):
    views = related_views(100, channels)
    rng = np.random.default_rng(1)
    mixed = [X @ rng.standard_normal((d, d)) + rng.standard_normal(d) for X, d in zip(views, channels, strict=True)]
    one, other = linear_cca(views), linear_cca(mixed)
    assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-9)
    assert_allclose(other.embedding, one.embedding, atol=1e-8)


def test_repeated_and_constant_channels_change_nothing():
    X, Y = related_views(100, [3, 4])
    redundant = np.column_stack([X, X[:, 0] - 2 * X[:, 1], np.full(100, 7.0), X])
    assert_allclose(linear_cca([redundant, Y]).embedding, linear_cca([X, Y]).embedding, atol=1e-8)


def test_more_variates_than_two_views_can_hold_are_refused():
    X, Y = related_views(100, [3, 4])
    assert linear_cca([X, Y], 3).embedding.shape == (100, 3)
    with pytest.raises(SettingsError, match=r"n_components=4, .* at most 3\."):
        linear_cca([X, Y], 4)
    with pytest.raises(SettingsError, match=r"n_components=2, but the views have ranks 1, 4 .* at most 1\."):
        linear_cca([X[:, [0, 0, 0]], Y], 2)


def test_the_solver_for_many_channels_finds_what_the_exact_one_does(monkeypatch):
    views = related_views(1000, [320, 310], common=5)
    by_lanczos = linear_cca(views, 3, ridge=0.1)
    monkeypatch.setattr("dlcca.baselines.cca.EXACT_UP_TO", 320)
    exact = linear_cca(views, 3, ridge=0.1)
    assert_allclose(by_lanczos.eigenvalues, exact.eigenvalues, rtol=1e-10)
    assert_allclose(by_lanczos.embedding, exact.embedding, atol=1e-6)


def test_the_solver_for_many_channels_of_three_views_finds_what_the_exact_one_does(monkeypatch):
    views = related_views(1000, [110, 100, 120], common=5)
    by_lanczos = linear_cca(views, 3, ridge=0.1)
    monkeypatch.setattr(dense, "EXACT_UP_TO", 330)
    exact = linear_cca(views, 3, ridge=0.1)
    assert_allclose(by_lanczos.eigenvalues, exact.eigenvalues, rtol=1e-10)
    assert_allclose(by_lanczos.embedding, exact.embedding, atol=1e-6)


def test_any_number_of_samples_is_taken():
    views, truth = simulate.linear(200_000, random_state=0)
    assert likeness(linear_cca(views, 1).embedding, truth.z) > 1 - 1e-9


@pytest.mark.parametrize("ridge", [-0.1, np.nan, None])
def test_a_ridge_that_means_nothing_is_refused(ridge):
    with pytest.raises(SettingsError, match=r"ridge=.* a number of at least 0"):
        linear_cca(related_views(20, [2, 2]), ridge=ridge)

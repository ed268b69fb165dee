"""Diffusion maps: the largest variable of a view, be it common or private."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dlcca import simulate
from dlcca.baselines import dense, diffusion_maps
from dlcca.errors import SettingsError
from tests.baselines.problems import related_views
from tests.reference import baselines as reference
from tests.support.scores import likeness, recovery


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [None, 2.0])
def test_it_agrees_with_the_definition(alpha, sigma):
    X, _ = related_views(45, [3, 2])
    found = diffusion_maps([X], 4, bandwidth=sigma, alpha=alpha)
    eigenvalues, embedding = reference.diffusion_maps(X, 4, sigma, alpha)
    assert_allclose(found.eigenvalues, eigenvalues, rtol=1e-9)
    assert_allclose(found.embedding, embedding, atol=1e-8)


@pytest.mark.parametrize("swing", [2.0, 4.0])
def test_one_clean_movie_shows_its_pendulum(swing):
    views, truth = simulate.pendulums(swing=swing, random_state=0)
    assert likeness(diffusion_maps(views).embedding[:, 0], truth.z) > 0.98


@pytest.mark.parametrize("swing", [2.0, 4.0])
def test_one_noisy_movie_shows_its_private_pendulum_and_not_the_common_one(swing):
    views, truth = simulate.pendulums(swing=swing, private=True, random_state=0)
    first = diffusion_maps(views).embedding[:, 0]
    assert likeness(first, truth.nuisance[0]) > 0.95
    assert likeness(first, truth.z) < 0.2


def test_a_torus_is_read_along_its_big_circle():
    views, truth = simulate.torus(1000, common="big", random_state=0)
    assert recovery(diffusion_maps(views).embedding, truth.z) > 0.99
    views, truth = simulate.torus(1000, common="small", random_state=0)
    embedding = diffusion_maps(views).embedding
    assert recovery(embedding, truth.z) < 0.6
    assert recovery(embedding, truth.nuisance[0]) > 0.99


def test_any_view_may_be_chosen_by_number_or_by_name():
    X, Y = related_views(40, [3, 2])
    assert_allclose(diffusion_maps([X, Y], view=1).embedding, diffusion_maps([Y]).embedding)
    named = {"ecg": X, "breath": Y}
    assert_allclose(diffusion_maps(named, view="breath").embedding, diffusion_maps([Y]).embedding)
    assert_allclose(diffusion_maps(named, view=np.int64(1)).embedding, diffusion_maps([Y]).embedding)


def test_all_views_side_by_side_count_the_same_whatever_their_units():
    X, Y = related_views(60, [3, 2])
    both = diffusion_maps([X, Y], view="all")
    assert_allclose(diffusion_maps([1000 * X, Y / 50 + 3], view="all").embedding, both.embedding, atol=1e-8)
    spread = [V / np.sqrt(V.var(axis=0).sum()) for V in (X, Y)]
    assert_allclose(diffusion_maps([np.hstack(spread)]).embedding, both.embedding, atol=1e-8)


def test_density_normalisation_makes_coordinates_follow_the_geometry():
    # A circle with one side much denser: with alpha 1 its angle is recovered at an even pace.
    rng = np.random.default_rng(0)
    angle = rng.vonmises(0, 1.0, 800)
    X = np.column_stack([np.cos(angle), np.sin(angle)])

    def roundness(alpha):
        """How far the coordinates are from a circle about the origin."""
        radius = np.linalg.norm(diffusion_maps([X], bandwidth=0.3, alpha=alpha).embedding, axis=1)
        return radius.std() / radius.mean()

    assert roundness(1) < roundness(0) / 3


def test_samples_in_two_far_groups_are_told_apart_by_the_first_coordinate():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((250, 2)), 500 + rng.standard_normal((150, 2))])
    found = diffusion_maps([X], bandwidth=1.0)
    assert_allclose(found.eigenvalues[0], 1)
    assert_allclose(np.ptp(found.embedding[:250, 0]), 0, atol=1e-9)
    assert found.embedding[0, 0] * found.embedding[-1, 0] < 0


def test_the_solver_for_many_samples_finds_what_the_exact_one_does(monkeypatch):
    (X,) = related_views(400, [3])
    by_lanczos = diffusion_maps([X], 5, bandwidth=2.0)
    monkeypatch.setattr(dense, "EXACT_UP_TO", 400)
    exact = diffusion_maps([X], 5, bandwidth=2.0)
    assert_allclose(by_lanczos.eigenvalues, exact.eigenvalues, rtol=1e-10)
    assert_allclose(by_lanczos.embedding, exact.embedding, atol=1e-7)


@pytest.mark.parametrize("n", [100, 400])
def test_coordinates_that_would_be_rounding_are_refused(n):
    line = np.linspace(0, 1, n)[:, None]
    assert diffusion_maps([line], 8).eigenvalues[-1] > 1e-6
    with pytest.raises(SettingsError, match=r"n_components=30, but only \d+ coordinates"):
        diffusion_maps([line], 30)


@pytest.mark.parametrize("view", [2, -1, 1.0, None, "Breath"])
def test_a_view_that_is_not_there_is_refused(view):
    X, Y = related_views(40, [3, 2])
    with pytest.raises(SettingsError, match="view="):
        diffusion_maps({"ecg": X, "breath": Y}, view=view)


def test_a_name_with_a_slip_is_met_with_the_nearest():
    with pytest.raises(SettingsError, match="did you mean 'breath'"):
        diffusion_maps({"ecg": np.eye(5), "breath": np.eye(5)}, view="brath")


@pytest.mark.parametrize("alpha", [-1, np.nan, "half"])
def test_an_exponent_that_means_nothing_is_refused(alpha):
    with pytest.raises(SettingsError, match="alpha="):
        diffusion_maps(related_views(20, [2]), alpha=alpha)

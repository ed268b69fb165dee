"""Alternating diffusion: good at a common state, lost where views share only their dynamics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dlcca import simulate
from dlcca.baselines import alternating_diffusion, dense
from dlcca.errors import SettingsError
from tests.baselines.problems import related_views
from tests.reference import baselines as reference
from tests.support.scores import likeness, recovery


@pytest.mark.parametrize("channels", [(3, 2), (2, 4, 3)])
@pytest.mark.parametrize("sigma", [None, 5.0])
def test_it_agrees_with_the_definition(channels, sigma):
    views = related_views(45, channels)
    found = alternating_diffusion(views, 3, bandwidth=sigma)
    eigenvalues, embedding = reference.alternating_diffusion(views, 3, sigma)
    assert_allclose(found.eigenvalues, eigenvalues, rtol=1e-8)
    assert_allclose(found.embedding, embedding, atol=1e-7)


def test_the_common_angle_of_two_tori_is_found():
    views, truth = simulate.torus(1000, common="big", random_state=0)
    embedding = alternating_diffusion(views).embedding
    assert recovery(embedding, truth.z) > 0.98
    assert recovery(embedding, truth.nuisance[1]) < 0.05


def test_something_of_the_first_view_stays_in_it():
    # The last step back is along view 1, and one step of a wide kernel does not forget all that is private to it.
    views, truth = simulate.torus(1000, random_state=0)
    assert 0.2 < recovery(alternating_diffusion(views).embedding, truth.nuisance[0]) < 0.7


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("swing", [2.0, 4.0])
def test_pendulums_are_lost_because_neither_is_a_function_of_the_other(swing, private):
    views, truth = simulate.pendulums(swing=swing, private=private, random_state=0)
    first = alternating_diffusion(views).embedding[:, 0]
    assert max(likeness(first, pendulum) for pendulum in truth.displacement.T) < 0.5


def test_coordinates_have_mean_zero_and_mean_square_one():
    embedding = alternating_diffusion(related_views(80, [3, 2]), 3).embedding
    assert_allclose(embedding.mean(axis=0), 0, atol=1e-12)
    assert_allclose((embedding**2).mean(axis=0), 1)


def test_samples_that_both_views_keep_apart_are_told_apart_by_the_first_coordinate():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((250, 2)), 500 + rng.standard_normal((150, 2))])
    found = alternating_diffusion([X, X[:, ::-1] + 0.1 * rng.standard_normal(X.shape)], bandwidth=1.0)
    assert_allclose(found.eigenvalues[0], 1)
    assert_allclose(np.ptp(found.embedding[:250, 0]), 0, atol=1e-8)
    assert found.embedding[0, 0] * found.embedding[-1, 0] < 0


def test_the_solver_for_many_samples_finds_what_the_exact_one_does(monkeypatch):
    views = related_views(400, [3, 2])
    by_arnoldi = alternating_diffusion(views, 4)
    monkeypatch.setattr(dense, "EXACT_UP_TO", 400)
    exact = alternating_diffusion(views, 4)
    assert_allclose(by_arnoldi.eigenvalues, exact.eigenvalues, rtol=1e-9)
    assert_allclose(by_arnoldi.embedding, exact.embedding, atol=1e-6)


@pytest.mark.parametrize("n", [50, 500])
def test_a_conjugate_pair_of_eigenvalues_gives_two_real_coordinates(n):
    # A cyclic shift, shrunk so that its moduli fall: eigenvectors are pairs of waves.
    rate = np.exp(-(np.minimum(np.arange(n), n - np.arange(n)) ** 2) / 8.0)
    A = np.stack([np.roll(rate, i + 1) for i in range(n)])
    moduli, V = dense.eigenpairs(lambda v: A @ (v - v.mean(axis=0)), n, 4)
    assert_allclose(moduli[0], moduli[1])
    assert_allclose(moduli[2], moduli[3])
    assert np.isrealobj(V)
    # Each pair spans the plane of one wave, which A turns into itself.
    for pair in (V[:, :2], V[:, 2:]):
        image = A @ pair
        assert_allclose(pair @ np.linalg.lstsq(pair, image)[0], image, atol=1e-8 * np.abs(image).max())


@pytest.mark.parametrize("n", [100, 400])
def test_coordinates_that_would_be_rounding_are_refused(n):
    line = np.linspace(0, 1, n)[:, None]
    with pytest.raises(SettingsError, match=r"n_components=30, but only \d coordinates"):
        alternating_diffusion([line, line**2], 30)

"""The paper's experiments and the static problems, with the margins that the project stands by."""

import numpy as np
import pytest

from dlcca import LocalCCA, Settings, baselines, simulate
from dlcca.fitting.in_memory import fit_views
from dlcca.views import checked
from tests.support import repeats
from tests.support.scores import highest_peaks, likeness, power_shares, recovery

SWINGS = (2.0, 4.0)


def first_quick(values):
    """Parameters of a test that is slow for all of them but the first."""
    return [values[0], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


@pytest.mark.each_value
@pytest.mark.parametrize("seed", first_quick([0, 1, 2]))
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("swing", SWINGS)
def test_the_first_coordinate_follows_the_coupled_pendulum(swing, private, seed):
    views, truth = simulate.pendulums(swing=swing, private=private, random_state=seed)
    first = LocalCCA(window=8).fit(views).embedding_[:, 0]
    assert likeness(first, truth.z) >= 0.97
    if private:
        assert likeness(first, truth.nuisance[0]) <= 0.15
    bin_width = 1 / (len(first) * 0.0125)
    peaks = highest_peaks(first, 0.0125, count=2)
    assert np.abs(peaks - truth.omega[:2] / (2 * np.pi)).max() <= bin_width


@pytest.mark.parametrize("swing", first_quick(SWINGS))
def test_sensor_noise_of_two_percent_does_no_harm(swing):
    views, truth = simulate.pendulums(swing=swing, private=True, noise=0.02, random_state=0)
    first = LocalCCA(window=8).fit(views).embedding_[:, 0]
    assert likeness(first, truth.z) >= 0.97
    assert likeness(first, truth.nuisance[0]) <= 0.15


@pytest.mark.parametrize("swing", SWINGS)
def test_the_baselines_miss_the_coupled_pendulum_behind_private_ones(swing):
    views, truth = simulate.pendulums(swing=swing, private=True, random_state=0)
    alone = baselines.diffusion_maps(views).embedding[:, 0]
    assert likeness(alone, truth.nuisance[0]) > 0.9
    alternating = baselines.alternating_diffusion(views).embedding[:, 0]
    assert likeness(alternating, truth.z) < 0.5


@pytest.mark.parametrize("swing", SWINGS)
def test_alternating_diffusion_misses_common_dynamics_even_in_clean_movies(swing):
    views, truth = simulate.pendulums(swing=swing, random_state=0)
    assert likeness(baselines.alternating_diffusion(views).embedding[:, 0], truth.z) < 0.5


@pytest.mark.parametrize("swing", first_quick(SWINGS))
def test_the_literal_paper_without_a_ridge_fails_behind_private_pendulums(swing):
    """8 frames in 200 dimensions: every canonical correlation is exactly 1, so Λ = I and nothing is filtered."""
    views, truth = simulate.pendulums(swing=swing, private=True, random_state=0)
    literal = Settings.from_options(ridge=0.0, normalization="paper", bandwidth="median", window=8)
    result = fit_views(checked(views), literal, 0, allow_degenerate=True)
    assert np.mean(result.correlations[:, :7] > 1 - 1e-6) > 0.95
    assert likeness(result.embedding[:, 0], truth.z) < 0.5
    assert likeness(result.embedding[:, 0], truth.nuisance[0]) > 0.5
    regularised = LocalCCA(window=8).fit(views).embedding_[:, 0]
    assert likeness(regularised, truth.z) >= 0.97


@pytest.mark.each_value
@pytest.mark.parametrize("seed", first_quick([0, 1]))
@pytest.mark.parametrize("scene", [1, 2])
def test_windows_of_seven_find_the_common_icon_of_the_drawn_scenes(scene, seed):
    views, truth = simulate.icons(scene=scene, random_state=seed)
    first = LocalCCA(window=7).fit(views).embedding_[:, 0]
    common, private = power_shares(first, truth.speeds, truth.common)
    assert common >= 0.95
    assert private <= 0.03


@pytest.mark.slow
@pytest.mark.parametrize("scene", [1, 2])
def test_tensor_cca_runs_on_both_scenes(scene):
    """Its result is reported as it is (`dlcca reproduce`): a third moment has little signal in short windows."""
    views, _truth = simulate.icons(scene=scene, random_state=0)
    model = LocalCCA(window=7, metric="tcca", random_state=0).fit(views)
    assert np.isfinite(model.embedding_).all()
    assert model.correlations_.shape == (300, 1)


STATIC = {
    "torus, nuisance on the big circle": lambda n, seed: simulate.torus(n, common="small", random_state=seed),
    "torus, z on the big circle": lambda n, seed: simulate.torus(n, common="big", random_state=seed),
    "spiral": lambda n, seed: simulate.spiral(n, random_state=seed),
    "swiss roll": lambda n, seed: simulate.swiss_roll(n, random_state=seed),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATIC)
def test_the_first_two_coordinates_hold_z_and_no_nuisance_also_for_new_rows(name):
    views, truth = STATIC[name](5000, 1)
    model = LocalCCA(neighborhoods="knn", random_state=0).fit(views)
    old = recovery(model.embedding_, truth.z)
    assert old >= 0.99
    assert max(recovery(model.embedding_, e) for e in truth.nuisance) <= 0.05
    fresh, fresh_truth = STATIC[name](5000, 2)
    assert recovery(model.transform(fresh), fresh_truth.z) > old - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("n_views", repeats.first(2, [2, 3, 6]))
def test_linear_mixtures_are_unmixed_also_for_new_rows(n_views):
    views, truth = simulate.linear(10_000, n_views=n_views, random_state=1)
    old, new = slice(0, 5000), slice(5000, None)
    model = LocalCCA(neighborhoods="knn", random_state=0).fit([X[old] for X in views])
    score = recovery(model.embedding_, truth.z[old])
    assert score >= 0.99
    assert max(recovery(model.embedding_, e[old]) for e in truth.nuisance) <= 0.05
    assert recovery(model.transform([X[new] for X in views]), truth.z[new]) > score - 0.01

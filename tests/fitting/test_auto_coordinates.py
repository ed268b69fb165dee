"""``coordinates="auto"``: potential coordinates for noisy views, eigenfunctions for a smooth variable."""

import warnings

import numpy as np
import pytest

from dlcca import LocalCCA, open_model, simulate
from dlcca.errors import Untrusted
from dlcca.fitting import pipeline, readout, runner
from dlcca.settings.auto import Choices
from dlcca.storage import run as run_store
from tests.fitting.jobs import KNN, embedding, small_job

OPTIONS = {**KNN, "landmarks": 200, "n_neighbors": 40}


def noisy(n=500):
    """Two linear views of three common variables under much noise."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 3))
    return [z @ rng.standard_normal((3, 5)) + 1.5 * rng.standard_normal((n, 5)) for _ in range(2)]


def smooth(n=500):
    return simulate.swiss_roll(n, random_state=0)[0]


KINDS = {"potential": noisy, "diffusion": smooth}


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(random_state=0, **{**OPTIONS, **options}).fit(views)


@pytest.mark.parametrize("kind", KINDS)
def test_the_choice_is_that_of_the_named_coordinates_in_memory_and_in_blocks(tmp_path, kind):
    views = KINDS[kind]()
    model, named = fitted(views), fitted(views, coordinates=kind, diffusion_time=1)
    assert (model.settings_.spectrum.coordinates, model.settings_.spectrum.diffusion_time) == (kind, 1)
    np.testing.assert_allclose(model.embedding_, named.embedding_, atol=1e-10, rtol=0)
    assert any(line.startswith("coordinates") and "states can be distinguished" in line for line in model.choices_)
    job = small_job(tmp_path, views, 50, block_rows=200, **OPTIONS)
    pipeline.run(job)
    assert readout.kind_name(job) == kind
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_run_and_its_model_name_the_choice(tmp_path, kind):
    views = KINDS[kind]()
    job = small_job(tmp_path, views, 50, block_rows=200, **OPTIONS)
    pipeline.run(job)
    runner.finish(job, Choices(job.settings, {}))
    found = run_store.read(job.address)
    assert found.settings["spectrum"]["coordinates"] == kind
    model = open_model(job.address)
    assert model.settings_.spectrum.coordinates == kind
    np.testing.assert_allclose(model.transform(views), found.embedding, atol=1e-8, rtol=0)


def test_a_given_diffusion_time_asks_for_potential_coordinates():
    model = fitted(smooth(), diffusion_time=4)
    assert (model.settings_.spectrum.coordinates, model.settings_.spectrum.diffusion_time) == ("potential", 4)


@pytest.mark.parametrize("options", [{"fusion": "average"}, {"fusion": "view", "normalization": "paper"}])
def test_of_a_single_kernel_eigenfunctions_are_given(options):
    assert fitted(noisy(), **options).settings_.spectrum.coordinates == "diffusion"


@pytest.mark.parametrize("kind", KINDS)
def test_the_choice_does_not_depend_on_the_solver(kind):
    views = KINDS[kind]()
    by_grams, by_products = (fitted(views, solver=solver) for solver in ("gram", "lanczos"))
    assert by_products.settings_.spectrum.coordinates == kind
    np.testing.assert_allclose(by_products.embedding_, by_grams.embedding_, atol=1e-7, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refit_keeps_the_kind_of_coordinates(kind):
    views = KINDS[kind](800)
    old, new = [X[:500] for X in views], [X[500:] for X in views]
    model = fitted(old)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        again = model.refit(new, old)
    assert again.settings_.spectrum.coordinates == model.settings_.spectrum.coordinates == kind
    np.testing.assert_allclose(again.transform(views), again.embedding_, atol=1e-8, rtol=0)

"""Potential coordinates in fits: in memory and by blocks, for new rows, saved, with a missing view."""

import warnings

import numpy as np
import pytest

from dlcca import LocalCCA, open_model, simulate
from dlcca.errors import SettingsError, Untrusted
from dlcca.fitting import lanczos, pipeline, readout
from dlcca.numerics import potential
from tests.fitting.jobs import KNN, TIME, embedding, recordings, small_job
from tests.support import repeats
from tests.support.scores import recovery

pytestmark = pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")

READ = {"coordinates": "potential"}
KINDS = {
    "alternating": (2, {**KNN, **READ}),
    "alternating, 3 views": (3, {**KNN, **READ}),
    "alternating, time 3": (2, {**KNN, **READ, "diffusion_time": 3}),
    "average sparse": (2, {**KNN, **READ, "fusion": "average", "kernel": "sparse"}),
    "one kernel, dense": (2, {**TIME, **READ}),
}


def fitted(views, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(**{"random_state": 0, **options}).fit(views)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_give_the_coordinates_of_a_fit_in_memory(kind, tmp_path):
    K, options = KINDS[kind]
    job = small_job(tmp_path, recordings(K), 7, **options)
    pipeline.run(job)
    model = fitted(recordings(K), options)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-8, rtol=0)
    if "diffusion_time" in options:
        assert readout.facts(job)["time"] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_training_rows_keep_their_coordinates_also_in_a_saved_model(kind, tmp_path):
    K, options = KINDS[kind]
    views = recordings(K)
    model = fitted(views, options)
    np.testing.assert_allclose(model.transform(views), model.embedding_, atol=1e-8, rtol=0)
    model.save(tmp_path / "model.zarr")
    again = open_model(tmp_path / "model.zarr").transform([X[:20] for X in views])
    np.testing.assert_allclose(again, model.embedding_[:20], atol=1e-8, rtol=0)


def test_one_view_alone_gives_nearly_the_same_coordinates():
    views, _truth = simulate.torus(600, random_state=0)
    model = fitted(views, {"neighborhoods": "knn", **READ})
    for alone in ([views[0], None], [None, views[1]]):
        E = model.transform(alone)
        found = [abs(np.corrcoef(E[:, i], model.embedding_[:, i])[0, 1]) for i in range(2)]
        assert min(found) > 0.98


def test_the_diffusion_spectrum_does_not_depend_on_the_coordinates():
    views = recordings(2)
    diffusion, read = (fitted(views, {**KNN, "coordinates": kind}) for kind in ("diffusion", "potential"))
    np.testing.assert_allclose(read.eigenvalues_, diffusion.eigenvalues_, atol=1e-12)
    assert isinstance(read.settings_.spectrum.diffusion_time, int)
    assert "diffusion_time = " in read.summary()
    assert np.std(read.embedding_[:, 0]) > np.std(read.embedding_[:, 1]) > np.std(read.embedding_[:, 2])


def test_a_refit_lays_the_axes_on_the_old_ones():
    views, _truth = simulate.torus(700, random_state=0)
    old, new = [X[:600] for X in views], [X[600:] for X in views]
    model = fitted(old, {"neighborhoods": "knn", "random_state": 0, **READ} | {"landmarks": 300})
    again = model.refit(new, old)
    assert again.change_["r2"] > 0.95
    np.testing.assert_allclose(again.transform(new), again.embedding_[600:], atol=1e-8, rtol=0)


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(SettingsError, match="coordinates='potential' needs"):
        LocalCCA(**{**KNN, **READ, "normalization": "paper", "fusion": "view"}).fit(recordings(2))


@pytest.mark.parametrize("kind", repeats.first(2, KINDS))
def test_without_gram_matrices_products_give_the_same_coordinates(kind, tmp_path):
    K, options = KINDS[kind]
    model = fitted(recordings(K), {**options, "solver": "gram"})
    time = model.settings_.spectrum.diffusion_time
    by_products = fitted(recordings(K), {**options, "solver": "lanczos", "diffusion_time": time})
    np.testing.assert_allclose(by_products.embedding_, model.embedding_, atol=1e-7, rtol=0)
    job = small_job(tmp_path, recordings(K), 7, **{**options, "solver": "lanczos", "diffusion_time": time})
    pipeline.run(job)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-7, rtol=0)
    assert not (tmp_path / "run.zarr" / "stages" / readout.NAME).exists()


def test_a_fit_that_was_stopped_reads_the_products_that_are_there(tmp_path, monkeypatch):
    K, options = KINDS["alternating"]
    job = small_job(tmp_path, recordings(K), 7, **{**options, "solver": "lanczos"})
    computed, passes = lanczos.Products._computed, []

    def counted(self, number, *rest):
        if self.name == readout.NAME and not self.job.in_memory:  # checks fit to halves in memory
            passes.append(number)
            if len(passes) == 7:
                raise KeyboardInterrupt
        return computed(self, number, *rest)

    monkeypatch.setattr(lanczos.Products, "_computed", counted)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(job)
    pipeline.run(job)
    assert passes == [*range(7), *range(6, max(passes) + 1)]
    monkeypatch.undo()
    model = fitted(recordings(K), {**options, "solver": "lanczos"})
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-8, rtol=0)


def test_with_many_landmarks_fewer_are_anchors_and_components_are_those_of_some_rows(monkeypatch):
    views, truth = simulate.torus(900, random_state=0)
    options = {"neighborhoods": "knn", "landmarks": "all", **READ}
    model = fitted(views, options)
    monkeypatch.setattr(potential, "MANY", 500)
    monkeypatch.setattr(potential, "FEWER_ANCHORS", 64)
    monkeypatch.setattr(readout, "MOST_ROWS", 400)
    monkeypatch.setattr(readout, "TILE_ENTRIES", 90_000)
    fewer = fitted(views, {**options, "solver": "lanczos"})
    found, expected = (recovery(m.embedding_, truth.z) for m in (fewer, model))
    assert found > 0.99
    assert found > expected - 0.005
    np.testing.assert_allclose(fewer.transform(views), fewer.embedding_, atol=1e-8, rtol=0)

"""The table of coordinates: a new kind is a class and a line, known to fits in memory, to runs and to saved models."""

from unittest import mock

import numpy as np
import pytest

from dlcca import LocalCCA, Settings, open_model
from dlcca.errors import SettingsError
from dlcca.fitting import embed, pipeline, planning, readout, runner
from dlcca.numerics.coordinates import COORDINATES, Diffusion
from tests.fitting.jobs import KNN, TIME, embedding, recordings, small_job

pytestmark = pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")


class Bounded(Diffusion):
    """Eigenfunctions between -1 and 1: their hyperbolic tangent, in units of their median size at the landmarks."""

    is_scaled = True

    def shapes(self, m, K, q):
        return {"size": (q,)}

    def fit(self, model, known, q, time):
        E = super().read(known.rows, model)
        return {"size": np.median(np.abs(E), axis=0)}, {"largest": float(np.abs(E).max())}

    def read(self, rows, model):
        return np.tanh(super().read(rows, model) / model.readout["size"])


class Halved(Diffusion):
    """Eigenfunctions divided by two; nothing is fitted."""

    is_scaled = True

    def read(self, rows, model):
        return super().read(rows, model) / 2


@pytest.fixture(autouse=True)
def added():
    """Coordinates from outside of the package."""
    with mock.patch.dict(COORDINATES, bounded=Bounded(), halved=Halved()):
        yield


@pytest.mark.parametrize("name", ["bounded", "halved"])
@pytest.mark.parametrize("options", [TIME, KNN], ids=["one kernel, dense", "a kernel for each view"])
def test_coordinates_that_were_added_are_those_of_a_fit_a_run_and_a_saved_model(name, options, tmp_path):
    views = recordings(2)
    model = LocalCCA(**options, coordinates=name, random_state=0).fit(views)
    job = small_job(tmp_path, views, 7, **options, coordinates=name)
    pipeline.run(job)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-8)
    model.save(tmp_path / "model.zarr")
    again = open_model(tmp_path / "model.zarr")
    np.testing.assert_allclose(again.transform(views), model.embedding_, atol=1e-8)
    assert ("readout" in {stage.name for stage in runner.begun(job.address)}) == (name == "bounded")
    assert ("readout" in {stage.name for stage in planning.plan(job, 2).stages}) == (name == "bounded")


def test_what_was_fitted_is_kept_in_the_run_and_in_the_model(tmp_path):
    job = small_job(tmp_path, recordings(2), 50, **KNN, coordinates="bounded")
    pipeline.run(job)
    assert readout.facts(job)["largest"] > 0
    assert embed.model_of(job).readout["size"].shape == (3,)
    assert np.abs(embedding(job)).max() <= 1


def test_coordinates_without_gram_matrices_do_without_them_in_a_fit_by_lanczos(tmp_path):
    views = recordings(2)
    job = small_job(tmp_path, views, 50, **KNN, coordinates="bounded", solver="lanczos")
    pipeline.run(job)
    model = LocalCCA(**KNN, coordinates="bounded", random_state=0).fit(views)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-5)


def test_unknown_coordinates_are_refused_with_the_nearest_known_ones():
    with pytest.raises(SettingsError, match="did you mean 'potential'"):
        Settings.from_options(coordinates="potentil")

"""The table of fusions: a new one is a class and a line, known to fits in memory, to runs and to saved models."""

import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import dlcca
from dlcca import LocalCCA, Settings, open_model
from dlcca.errors import SettingsError
from dlcca.fitting import kernel, pipeline, planning
from dlcca.numerics.fusion import FUSIONS, Alternating, Average, Degrees
from tests.fitting.jobs import KNN, TIME, embedding, recordings, small_job

pytestmark = pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")


class Largest(Average):
    """The largest of the distances in the views."""

    def fused(self, distances):
        return np.maximum.reduce(distances)


class Backwards(Alternating):
    """A step along each view in turn, from the last view to the first."""

    def gram_pairs(self, K):
        return [(u, v) for u in range(K) for v in range(u, K)]

    def from_grams(self, grams, q, degrees):
        K = len(degrees.columns)
        turned = {(u, v): self._gram(grams, K - 1 - u, K - 1 - v) for u, v in Alternating.gram_pairs(self, K)}
        S, values = super().from_grams(turned, q, Degrees(degrees.n, degrees.columns[::-1]))
        return S, values[::-1]

    @staticmethod
    def _gram(grams, u, v):
        return grams[u, v] if (u, v) in grams else grams[v, u].T


ADDED = {"largest": Largest(), "backwards": Backwards()}


@pytest.fixture(autouse=True)
def added():
    """Fusions from outside of the package."""
    with mock.patch.dict(FUSIONS, ADDED):
        yield


@pytest.mark.parametrize(
    ("name", "options"),
    [("largest", TIME), ("largest", {**KNN, "kernel": "sparse"}), ("backwards", KNN)],
    ids=["dense", "sparse", "a kernel for each view"],
)
def test_a_fusion_that_was_added_is_that_of_a_fit_a_run_and_a_saved_model(name, options, tmp_path):
    views = recordings(3)
    model = LocalCCA(**options, fusion=name, random_state=0).fit(views)
    assert model.settings_.kernel.fusion == name
    job = small_job(tmp_path, views, 7, **options, fusion=name)
    pipeline.run(job)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-8)
    model.save(tmp_path / "model.zarr")
    again = open_model(tmp_path / "model.zarr")
    np.testing.assert_allclose(again.transform(views), model.embedding_, atol=1e-8)
    assert planning.plan(job, 2).seconds > 0


def test_a_fusion_that_was_added_differs_from_the_others():
    views = recordings(3)
    largest, average = (LocalCCA(**TIME, fusion=name, random_state=0).fit(views) for name in ("largest", "average"))
    assert not np.allclose(largest.embedding_, average.embedding_, atol=1e-3)


def test_of_two_views_the_order_of_the_steps_does_not_matter_to_the_eigenvalues():
    views = recordings(2)
    one, two = (LocalCCA(**KNN, fusion=name, random_state=0).fit(views) for name in ("backwards", "alternating"))
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, atol=1e-8)


def test_a_fusion_that_was_added_has_a_fingerprint_of_its_own(tmp_path):
    jobs = [small_job(tmp_path / name, recordings(2), 50, **KNN, fusion=name) for name in ("largest", "average")]
    one, two = (kernel.KERNEL.fingerprint(job) for job in jobs)
    assert one != two


def test_the_number_of_views_and_the_normalization_are_checked_by_the_table():
    with pytest.raises(SettingsError, match="fusion='largest' needs two views or more and one was given"):
        LocalCCA(fusion="largest").fit(recordings(1))
    with pytest.raises(SettingsError, match="normalization='paper' is not defined for fusion='backwards'"):
        LocalCCA(**KNN, fusion="backwards", normalization="paper").fit(recordings(2))


def test_an_unknown_fusion_is_refused_with_the_nearest_known_one():
    with pytest.raises(SettingsError, match="did you mean 'average'"):
        Settings.from_options(fusion="averge")


@pytest.mark.parametrize("option", ["fusion", "coordinates"])
def test_no_code_compares_the_name_of_a_fusion_or_of_coordinates(option):
    names = "view|average|alternating" if option == "fusion" else "diffusion|potential"
    compared = re.compile(rf"""{option}["'\])]* (==|!=|in) \(?["']({names})["']""")
    files = Path(dlcca.__file__).parent.rglob("*.py")
    assert [str(file) for file in files if compared.search(file.read_text("utf-8"))] == []
    assert compared.search(f'if job.options["{option}"] == "{names.split("|")[1]}":')

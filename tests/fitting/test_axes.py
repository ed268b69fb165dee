"""The axes along which links are nearest: in stages as in memory, in the model, and absent from older ones."""

import json

import numpy as np
import pytest

from dlcca import LocalCCA, open_model
from dlcca.fitting import embed, landmarks, links, pipeline
from dlcca.storage.manifest import digest_of_facts
from tests.fitting.jobs import KNN, TIME, embedding, recordings, small_job

pytestmark = pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")


@pytest.fixture
def loud():
    """Views with a private channel that is far louder than all others."""
    rng = np.random.default_rng(4)
    return [np.column_stack([X, 50 * rng.standard_normal(len(X))]) for X in recordings(2)]


@pytest.mark.parametrize("group", [8192, 7])
def test_stages_have_the_axes_of_a_fit_in_memory_however_landmarks_are_grouped(tmp_path, loud, group, monkeypatch):
    monkeypatch.setattr(landmarks, "GROUP", group)
    job = small_job(tmp_path, loud, **KNN)
    pipeline.run(job)
    here = LocalCCA(random_state=0, **KNN).fit(loud)
    for staged, known in zip(links.axes_of(job), here.model_.axes, strict=True):
        np.testing.assert_allclose(staged.centre, known.centre, rtol=1e-9)
        np.testing.assert_allclose(staged.turn, known.turn, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(embedding(job), here.embedding_, atol=1e-8)


@pytest.mark.parametrize(
    "options", [TIME, {**KNN, "n_links": 10_000}, {**KNN, "kernel": "dense"}], ids=["by the metric", "to all", "dense"]
)
def test_where_links_are_not_sought_there_are_none(tmp_path, options):
    views = recordings(2)
    job = small_job(tmp_path, views, **options)
    pipeline.run(job)
    assert links.axes_of(job) == [None, None]
    assert not (tmp_path / "run.zarr" / "stages" / "axes").exists()
    assert embed.model_of(job).axes == ()


def test_views_that_are_too_wide_are_searched_as_they_are(tmp_path, loud, monkeypatch):
    monkeypatch.setattr("dlcca.fitting.links.MOST_CHANNELS", 4)
    monkeypatch.setattr("dlcca.numerics.distances.MOST_CHANNELS", 4)
    views = [loud[0], loud[1][:, :4]]
    job = small_job(tmp_path, views, **KNN)
    pipeline.run(job)
    assert [known is None for known in links.axes_of(job)] == [True, False]
    np.testing.assert_allclose(embedding(job), LocalCCA(random_state=0, **KNN).fit(views).embedding_, atol=1e-8)


def test_a_model_keeps_its_axes_and_one_without_links_by_plain_distance(tmp_path, loud):
    model = LocalCCA(random_state=0, **KNN).fit(loud)
    model.save(tmp_path / "model.zarr")
    np.testing.assert_array_equal(open_model(tmp_path / "model.zarr").transform(loud), model.transform(loud))

    header = tmp_path / "model.zarr" / "zarr.json"
    content = json.loads(header.read_text())
    old = {key: value for key, value in content["attributes"].items() if key != "checksum"}
    for name in ("centre_0", "turn_0", "centre_1", "turn_1"):
        del old["manifest"][name]
    content["attributes"] = {**old, "checksum": digest_of_facts(old)}
    header.write_text(json.dumps(content))
    older = open_model(tmp_path / "model.zarr").model_
    X = loud[0]
    nearest = np.argsort(((X[:, None] - older.points[0]) ** 2).sum(axis=2), axis=1, kind="stable")
    linked = [set(row.indices) for row in older.view_rows(0, X)]
    assert linked == [set(row[: older.n_links]) for row in nearest]

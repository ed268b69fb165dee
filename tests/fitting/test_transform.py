"""New rows through a fitted model, block by block: the coordinates that the model gives them in memory."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, open_model, open_views
from dlcca.cli import app
from dlcca.errors import DataError, SettingsError, StaleStage, StorageError
from dlcca.fitting import runner, transform
from dlcca.recordings import ingest, new_recordings
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage import transformed, views
from dlcca.storage.views import Reason
from tests.fitting.jobs import KNN, TIME, recordings, written
from tests.recordings.fakes import ArraySignal, open_fake
from tests.recordings.fakes import write as write_fake

pytestmark = pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # 150 rows prove little

NAMES = ("view 1", "view 2")
FUSIONS = [KNN, {**TIME, "fusion": "average"}, {**TIME, "fusion": "view", "kernel": "sparse"}]


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def fitted(folder, **options):
    """A model of the first 150 of 400 rows, saved; and the others, as arrays and as sources."""
    X = recordings(2, 400)
    model = LocalCCA(random_state=0, **options).fit([V[:150] for V in X])
    model.save(folder / "model.zarr")
    new = [V[150:] for V in X]
    return model, new, dict(zip(NAMES, written(folder, new, 17, 30), strict=True))


def job_of(folder, sources, rows=40):
    job = transform.prepared(str(folder / "new.zarr"), str(folder / "model.zarr"), sources)
    return replace(job, rows=rows)


@pytest.mark.parametrize("options", FUSIONS, ids=["alternating", "average", "view"])
@pytest.mark.parametrize("rows", [7, 40, 1000])
def test_blocks_have_the_coordinates_that_the_model_gives_in_memory(tmp_path, options, rows):
    model, new, sources = fitted(tmp_path, **options)
    header = transform.run(job_of(tmp_path, sources, rows))
    group = zarr.open_group(str(tmp_path / "new.zarr"), mode="r")
    np.testing.assert_allclose(group["embedding"][...], model.transform(new), atol=1e-8, rtol=0)
    np.testing.assert_allclose(group["distance"][...], model.distance(new), atol=1e-8, rtol=0)
    assert (group["outside"][...] == model.outside(new)).all()
    assert (group["time"][...] == np.arange(250)).all()
    assert (header["samples"], header["valid"]) == (250, 250)
    assert all(problem is None for problem in transformed.damages(str(tmp_path / "new.zarr")).values())


def test_a_view_may_be_missing_where_the_fusion_permits(tmp_path):
    model, new, sources = fitted(tmp_path, **KNN)
    header = transform.run(job_of(tmp_path, {"view 2": sources["view 2"]}))
    group = zarr.open_group(str(tmp_path / "new.zarr"), mode="r")
    np.testing.assert_allclose(group["embedding"][...], model.transform([None, new[1]]), atol=1e-8, rtol=0)
    assert header["missing_views"] == ["view 1"]


def test_a_model_that_took_the_place_of_another_is_read_anew(tmp_path):
    first, new, sources = fitted(tmp_path, **KNN)
    transform.run(job_of(tmp_path, sources))
    other = LocalCCA(random_state=0, **TIME).fit([V[::-1] for V in new])
    other.save(tmp_path / "model.zarr")
    job = transform.prepared(str(tmp_path / "again.zarr"), str(tmp_path / "model.zarr"), sources)
    transform.run(job)
    group = zarr.open_group(str(tmp_path / "again.zarr"), mode="r")
    np.testing.assert_allclose(group["embedding"][...], other.transform(new), atol=1e-8, rtol=0)
    assert not np.allclose(other.transform(new), first.transform(new))


def test_a_view_that_the_fusion_reads_may_not_be_missing(tmp_path):
    _model, _new, sources = fitted(tmp_path, **FUSIONS[2])
    with pytest.raises(DataError, match="reads only 'view 1', which is missing"):
        job_of(tmp_path, {"view 2": sources["view 2"]})


def test_rows_that_are_not_finite_are_nan_with_their_reason(tmp_path):
    model, new, _sources = fitted(tmp_path, **KNN)
    new[1][33, 2], new[0][77, 0] = np.nan, np.inf
    (tmp_path / "bad").mkdir()
    sources = dict(zip(NAMES, written(tmp_path / "bad", new, 17), strict=True))
    header = transform.run(job_of(tmp_path, sources))
    group = zarr.open_group(str(tmp_path / "new.zarr"), mode="r")
    bad = np.isin(np.arange(250), [33, 77])
    assert np.isnan(group["embedding"][...][bad]).all()
    assert np.isnan(group["distance"][...][bad]).all()
    assert not group["outside"][...][bad].any()
    assert (group["reason"][...] == np.where(bad, Reason.MISSING, Reason.VALID)).all()
    np.testing.assert_allclose(
        group["embedding"][...][~bad], model.transform([X[~bad] for X in new]), atol=1e-8, rtol=0
    )
    assert header["valid"] == 248


def test_a_stopped_transform_goes_on_where_it_was(tmp_path, monkeypatch):
    _model, _new, sources = fitted(tmp_path, **KNN)
    job, usual = job_of(tmp_path, sources), transform.compute

    def stops(job, stage, block):
        if block == 3:
            raise KeyboardInterrupt
        usual(job, stage, block)

    monkeypatch.setattr(transform, "compute", stops)
    with pytest.raises(KeyboardInterrupt):
        transform.run(job)
    assert not transformed.is_transformed(job.address)
    assert transform.progress(job.address) == (3, 7)
    done = []
    monkeypatch.setattr(transform, "compute", lambda *a: (done.append(a[2]), usual(*a)))
    transform.run(job)
    assert done == [3, 4, 5, 6]
    transform.run(job)
    assert done == [3, 4, 5, 6]


def test_a_store_of_other_rows_or_of_anything_else_is_refused(tmp_path):
    _model, _new, sources = fitted(tmp_path, **KNN)
    transform.run(job_of(tmp_path, sources))
    with pytest.raises(StaleStage, match="other recordings"):
        transform.run(job_of(tmp_path, {"view 2": sources["view 2"]}))
    other = replace(job_of(tmp_path, sources), address=str(tmp_path / "model.zarr"))
    with pytest.raises(StorageError, match="no store of coordinates"):
        transform.run(other)


def test_wrong_views_are_refused_by_name(tmp_path):
    _model, _new, sources = fitted(tmp_path, **KNN)
    with pytest.raises(SettingsError, match="has no view 'view 3'; did you mean"):
        job_of(tmp_path, {"view 3": sources["view 2"]})
    (tmp_path / "wide").mkdir()
    wide = written(tmp_path / "wide", [np.zeros((250, 5))], 17)[0]
    with pytest.raises(DataError, match="'view 1' has 5 channels; the model was fitted with 4"):
        job_of(tmp_path, {"view 1": wide})
    (tmp_path / "short").mkdir()
    short = written(tmp_path / "short", [np.zeros((20, 4))], 17)[0]
    with pytest.raises(DataError, match="differ in length"):
        job_of(tmp_path, {"view 1": short, "view 2": sources["view 2"]})


# Recordings.

RATE = 50.0


def write_npz(path, n, seed, names=("a", "b", "c", "d"), gap=None):
    """Two pairs of channels that follow two common movements, the channels of a pair mixed with one of their own."""
    rng = np.random.default_rng(seed)
    smooth = lambda d: np.sin(np.cumsum(0.2 * rng.standard_normal((n, d)), axis=0))  # noqa: E731
    z = smooth(2)
    X = {name: 5 + 3 * z[:, i % 2] + smooth(1)[:, 0] for i, name in enumerate("abcd")}
    if gap is not None:
        X["a"][gap] = np.nan
    np.savez(path, **{name: X[name] for name in names})
    return str(path)


@pytest.fixture(scope="module")
def run_of_recordings(tmp_path_factory):
    """A finished run on a recording, without a cluster."""
    folder = tmp_path_factory.mktemp("run")
    file = write_npz(folder / "old.npz", 6000, 0)
    usual = {"source": [file], "window_s": 0.2, "step_s": 0.1, "reader": {"rate": RATE}, "pca_components": 3}
    recipes = {
        "left": ViewRecipe.of({**usual, "channels": ["a", "b"]}, "left"),
        "right": ViewRecipe.of({**usual, "channels": "[cd]"}, "right"),
    }
    store = str(folder / "run.zarr")
    job, line = ingest.prepared(f"{store}/recordings", recipes)
    ingest.run(job, line)
    options = {"neighborhoods": "knn", "landmarks": 100, "n_neighbors": 40, "n_components": 2}
    places = {name: f"{store}/recordings/views/{name}" for name in recipes}
    made, choices = runner.prepared(store, places, Settings.from_options(**options), 0, f"{store}/recordings")
    runner.run(made, choices)
    return folder


def test_the_model_of_a_run_gives_the_embedding_of_its_own_recordings(run_of_recordings, tmp_path):
    result = dlcca(
        "transform",
        run_of_recordings / "run.zarr",
        run_of_recordings / "old.npz",
        "--out",
        tmp_path / "t.zarr",
        "--json",
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    old = zarr.open_group(str(run_of_recordings / "run.zarr"), mode="r")
    new = zarr.open_group(str(tmp_path / "t.zarr"), mode="r")
    np.testing.assert_allclose(new["embedding"][...], old["embedding"][...], atol=1e-4)
    np.testing.assert_allclose(new["time"][...], old["time"][...])
    assert (told["samples"], told["outside"] <= 0.01 * told["samples"]) == (1199, True)
    assert dlcca("verify", tmp_path / "t.zarr").exit_code == 0
    assert dlcca("status", tmp_path / "t.zarr").exit_code == 0
    assert dlcca("verify", run_of_recordings / "run.zarr").exit_code == 0


def test_new_recordings_get_the_scaling_of_the_model_and_nan_where_they_have_gaps(run_of_recordings, tmp_path):
    file = write_npz(tmp_path / "new.npz", 3000, 1, gap=slice(1000, 1100))
    store = tmp_path / "t.zarr"
    result = dlcca("transform", run_of_recordings / "run.zarr", file, "--out", store, "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    new, model = zarr.open_group(str(store), mode="r"), open_model(run_of_recordings / "run.zarr")
    made = zarr.open_group(str(store / "recordings"), mode="r")
    old = zarr.open_group(str(run_of_recordings / "run.zarr" / "recordings"), mode="r")
    for part in ("center", "scale", "mean", "components"):
        assert (made[f"scaling/left/{part}"][...] == old[f"scaling/left/{part}"][...]).all()
    rows = made["rows"][...]
    expected = model.transform(dict(open_views(store / "recordings")))
    np.testing.assert_allclose(new["embedding"][...][rows], expected, atol=1e-5)
    gap = np.isnan(new["embedding"][...]).any(axis=1)
    assert (gap == (new["reason"][...] == Reason.MISSING)).all()
    assert gap.sum() == 21  # windows of 10 samples, every 5, that touch samples 1000 to 1099


@pytest.mark.parametrize("rows", [13, 100])
def test_blocks_fall_on_the_clock_of_a_recording_with_gaps(run_of_recordings, tmp_path, rows):
    file = write_npz(tmp_path / "new.npz", 3000, 1, gap=slice(1000, 1100))
    run = run_of_recordings / "run.zarr"
    assert dlcca("transform", run, file, "--out", tmp_path / "t.zarr").exit_code == 0
    made = str(tmp_path / "t.zarr" / "recordings")
    job = transform.prepared(str(tmp_path / "u.zarr"), str(run), transform.views_of_store(made), made)
    transform.run(replace(job, rows=rows))
    one, many = (zarr.open_group(str(tmp_path / name), mode="r") for name in ("t.zarr", "u.zarr"))
    for name in ("time", "reason", "outside"):
        np.testing.assert_array_equal(many[name][...], one[name][...])
    np.testing.assert_allclose(many["embedding"][...], one["embedding"][...], atol=1e-5)
    np.testing.assert_allclose(many["distance"][...], one["distance"][...], atol=1e-5)


def test_files_without_the_channels_of_a_view_do_with_the_other(run_of_recordings, tmp_path):
    file = write_npz(tmp_path / "new.npz", 1000, 2, names=("c", "d"))
    result = dlcca("transform", run_of_recordings / "run.zarr", file, "--out", tmp_path / "t.zarr", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["missing_views"] == ["left"]


def test_a_store_of_views_with_another_scaling_is_refused_and_that_of_the_model_is_taken(run_of_recordings, tmp_path):
    run, same = run_of_recordings / "run.zarr", run_of_recordings / "run.zarr" / "recordings"
    assert dlcca("transform", run, same, "--out", tmp_path / "same.zarr").exit_code == 0
    recipes = {
        name: replace(
            ViewRecipe.of(view["recipe"], name),
            source=(write_npz(tmp_path / "new.npz", 1000, 2),),
            window_s=0.2,
            step_s=0.1,
        )
        for name, view in views.describe(str(same))["views"].items()
    }
    job, line = ingest.prepared(str(tmp_path / "other.zarr"), recipes)
    ingest.run(job, line)
    refused = dlcca("transform", run, tmp_path / "other.zarr", "--out", tmp_path / "t.zarr")
    assert refused.exit_code == 3
    assert "was not scaled as the views of the model" in refused.output


def test_a_day_is_appended_to_a_run_of_recordings(run_of_recordings, tmp_path):
    run, file = run_of_recordings / "run.zarr", write_npz(tmp_path / "new.npz", 3000, 1, gap=slice(1000, 1100))
    assert dlcca("transform", run, file, "--out", tmp_path / "t.zarr").exit_code == 0
    new, old = open_views(tmp_path / "t.zarr" / "recordings"), open_views(run / "recordings")
    both = open_model(run).refit(new, old)
    assert len(both.embedding_) == len(old["left"]) + len(new["left"])
    assert both.change_["landmarks_kept"] == 100
    assert both.change_["r2"] > 0.9
    both.save(tmp_path / "both.zarr")
    assert dlcca("transform", tmp_path / "both.zarr", file, "--out", tmp_path / "u.zarr").exit_code == 0


def test_each_view_may_be_in_a_file_of_its_own_and_a_file_of_none_is_refused(run_of_recordings, tmp_path):
    left, right = (write_npz(tmp_path / f"{names}.npz", 1000, 2, names=names) for names in ("ab", "cd"))
    out = tmp_path / "t.zarr"
    result = dlcca("transform", run_of_recordings / "run.zarr", left, right, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["views"] == ["left", "right"]
    np.savez(tmp_path / "none.npz", x=np.random.default_rng(0).normal(size=1000))
    refused = dlcca(
        "transform", run_of_recordings / "run.zarr", left, tmp_path / "none.npz", "--out", tmp_path / "u.zarr"
    )
    assert refused.exit_code == 3
    assert "none.npz has no channel of the model" in refused.output


@pytest.mark.cluster
def test_the_workers_of_a_client_give_the_same(tmp_path):
    from distributed import Client

    model, new, sources = fitted(tmp_path, **KNN)
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        transform.run(job_of(tmp_path, sources), client)
    E = zarr.open_group(str(tmp_path / "new.zarr"), mode="r")["embedding"][...]
    np.testing.assert_allclose(E, model.transform(new), atol=1e-8, rtol=0)


def test_damage_is_found(tmp_path):
    _model, _new, sources = fitted(tmp_path, **KNN)
    transform.run(job_of(tmp_path, sources))
    chunk = next(path for path in (tmp_path / "new.zarr" / "embedding" / "c").rglob("*") if path.is_file())
    chunk.unlink()
    result = dlcca("verify", tmp_path / "new.zarr")
    assert result.exit_code == 3
    assert "'embedding'" in result.output


@pytest.mark.parametrize(
    ("names", "code", "words"),
    [(("a", "c", "d"), 3, "'b' is not in"), (("b",), 3, "'a' is not in"), ((), 3, "new.npz")],
)
def test_files_that_lack_channels_of_a_view_are_refused(run_of_recordings, tmp_path, names, code, words):
    file = write_npz(tmp_path / "new.npz", 1000, 2, names=names)
    result = dlcca("transform", run_of_recordings / "run.zarr", file, "--out", tmp_path / "t.zarr")
    assert result.exit_code == code
    assert words in result.output


def fake_model(tmp_path, unit="uV"):
    """What a model keeps of recordings of 100 Hz in microvolts."""
    file = write_fake(tmp_path / "old.fake", ArraySignal(np.random.default_rng(0).normal(size=(1000, 2)), "ab", 100.0))
    recipe = ViewRecipe.of({"source": [file], "window_s": 0.1}, "x")
    job, line = ingest.prepared(str(tmp_path / "views.zarr"), {"x": recipe}, open_fake)
    ingest.run(job, line)
    return views.recordings_of(str(tmp_path / "views.zarr"))


def open_in(unit, path):
    """A recording in another unit."""
    recording = open_fake(path)
    for signal in recording.signals:
        signal.channels = tuple(replace(channel, unit=unit) for channel in signal.channels)
    return recording


@pytest.mark.parametrize(
    ("rate", "unit", "words"),
    [(200.0, "uV", "has 200 Hz, and the model was fitted at 100 Hz"), (100.0, "mV", "is in mV, and the model.*uV")],
)
def test_another_rate_or_unit_than_that_of_the_model_is_refused(tmp_path, rate, unit, words):
    made = fake_model(tmp_path)
    file = write_fake(tmp_path / "new.fake", ArraySignal(np.random.default_rng(1).normal(size=(1000, 2)), "ab", rate))
    with pytest.raises(DataError, match=words):
        new_recordings.prepared(str(tmp_path / "t.zarr"), made, [file], partial(open_in, unit))


def test_micro_may_be_written_in_several_ways(tmp_path):
    made = fake_model(tmp_path)
    file = write_fake(tmp_path / "new.fake", ArraySignal(np.random.default_rng(1).normal(size=(1000, 2)), "ab", 100.0))
    job, _line = new_recordings.prepared(str(tmp_path / "t.zarr"), made, [file], partial(open_in, "µV"))
    assert job.views[0].name == "x"


def test_a_model_of_arrays_takes_arrays_by_name_or_in_order(tmp_path):
    model, new, _sources = fitted(tmp_path, **KNN)
    files = [tmp_path / "view1.zarr", tmp_path / "view2.zarr"]
    assert dlcca("transform", tmp_path / "model.zarr", *files, "--out", tmp_path / "a.zarr").exit_code == 0
    named = [f"view 2={files[1]}", f"view 1={files[0]}"]
    assert dlcca("transform", tmp_path / "model.zarr", *named, "--out", tmp_path / "b.zarr").exit_code == 0
    for store in ("a.zarr", "b.zarr"):
        E = zarr.open_group(str(tmp_path / store), mode="r")["embedding"][...]
        np.testing.assert_allclose(E, model.transform(new), atol=1e-8, rtol=0)
    refused = dlcca("transform", tmp_path / "model.zarr", files[0], "--out", tmp_path / "c.zarr")
    assert refused.exit_code == 2
    assert "1 FILEs for a model of 2 arrays" in refused.output


def test_rows_unlike_any_of_the_fit_are_told_and_end_in_5(tmp_path):
    model, new, _sources = fitted(tmp_path, **KNN)
    (tmp_path / "far").mkdir()
    far = written(tmp_path / "far", [X + 100 for X in new], 50)
    assert model.outside([X + 100 for X in new]).all()
    files = [f"{source.name}={source.address}" for source in far]
    result = dlcca("transform", tmp_path / "model.zarr", *files, "--out", tmp_path / "far.zarr", "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout)["outside"] == 250

"""`dlcca refit`: what `LocalCCA.refit` does, from the command line."""

import json
import tomllib

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, open_model, open_views
from dlcca.cli import app
from dlcca.fitting import runner
from dlcca.recordings import ingest, recorded_views
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage import run as run_store
from tests.fitting.jobs import KNN, recordings, written
from tests.fitting.test_transform import RATE, write_npz
from tests.support.runs import made_up

OLD = 250


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def done(*arguments):
    """What a verb tells machines, if all went well."""
    result = dlcca(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def same_change(told, expected):
    assert told.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(told[name], value, atol=1e-9, err_msg=name)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """A folder with a model of 250 rows, these rows and 150 others, some outside; and the rows themselves."""
    folder = tmp_path_factory.mktemp("arrays")
    views = recordings(2, 400)
    old, new = [X[:OLD] for X in views], [X[OLD:] for X in views]
    for name, part in (("old", old), ("new", new)):
        (folder / name).mkdir()
        written(folder / name, part, 37)
    model = LocalCCA(random_state=0, **KNN).fit(old)
    model.save(folder / "model.zarr")
    return folder, model, new, old


def files(folder, part):
    return [f"view {v}={folder / part}/view{v}.zarr" for v in (1, 2)]


def with_old(folder):
    return [argument for file in files(folder, "old") for argument in ("--old", file)]


def test_arrays_are_appended_as_in_python(arrays, tmp_path):
    folder, model, new, old = arrays
    told = done(
        "refit", folder / "model.zarr", *files(folder, "new"), *with_old(folder), "--out", tmp_path / "both.zarr"
    )
    expected = model.refit(new, old)
    made = open_model(tmp_path / "both.zarr")
    np.testing.assert_allclose(made.embedding_, expected.embedding_, atol=1e-9)
    np.testing.assert_allclose(made.transform(new), expected.transform(new), atol=1e-9)
    assert (made.landmarks_[: len(model.landmarks_)] == model.landmarks_).all()
    same_change(told["change"], expected.change_)
    assert told["change"]["landmarks_added"] > 0
    assert (told["samples_old"], told["samples_new"], told["landmarks"]) == (OLD, 150, len(expected.landmarks_))
    assert told["store"] == str(tmp_path / "both.zarr")


@pytest.mark.parametrize("alone", [["--alone"], []], ids=["said", "no rows at hand"])
def test_without_the_old_rows_the_landmarks_stand_for_them_and_it_is_said(arrays, tmp_path, alone):
    folder, model, new, _old = arrays
    result = dlcca("refit", folder / "model.zarr", *files(folder, "new"), "--out", tmp_path / "both.zarr", *alone)
    assert result.exit_code == 0, result.output
    assert "150 new rows beside 45 landmarks, which stand for the old rows." in result.stdout
    expected = model.refit(new)
    np.testing.assert_allclose(open_model(tmp_path / "both.zarr").embedding_, expected.embedding_, atol=1e-9)
    assert f"R² {expected.change_['r2']:.3f}" in result.stdout


def test_axes_may_be_turned_around_only(arrays, tmp_path):
    folder, *_ = arrays
    told = done(
        *("refit", folder / "model.zarr", *files(folder, "new"), *with_old(folder), "--out", tmp_path / "both.zarr"),
        *("--align", "sign"),
    )
    assert (np.abs(told["change"]["rotation"]) == np.eye(3)).all()


def test_views_that_are_large_are_refitted_from_disk_to_the_same(arrays, tmp_path, monkeypatch):
    folder, model, new, old = arrays
    monkeypatch.setattr(recorded_views, "IN_MEMORY_BYTES", 1000)
    verb = ("refit", folder / "model.zarr", *files(folder, "new"), "--out", tmp_path / "both.zarr")
    refused = dlcca(*verb)
    assert refused.exit_code == 2
    assert "say with --old where these are" in refused.output
    told = done(*verb, *with_old(folder))
    expected = model.refit(new, old)
    np.testing.assert_allclose(open_model(tmp_path / "both.zarr").embedding_, expected.embedding_, atol=1e-6)
    assert told["change"]["r2"] == pytest.approx(expected.change_["r2"], abs=1e-6)


def test_a_run_toml_says_which_views_are_new_and_which_are_old(arrays, tmp_path):
    folder, model, new, old = arrays
    for part in ("old", "new"):
        sections = [f'[views."view {v}"]\nsource = "{folder / part}/view{v}.zarr"\n' for v in (1, 2)]
        (tmp_path / f"{part}.toml").write_text('[store]\npath = "run.zarr"\n' + "".join(sections))
    out = tmp_path / "both.zarr"
    told = done("refit", folder / "model.zarr", tmp_path / "new.toml", "--old", tmp_path / "old.toml", "--out", out)
    same_change(told["change"], model.refit(new, old).change_)


def test_what_was_written_is_known_to_status_and_verify(arrays, tmp_path):
    folder, model, *_ = arrays
    out = tmp_path / "both.zarr"
    done("refit", folder / "model.zarr", *files(folder, "new"), "--out", out)
    known = done("status", out)
    assert (known["views"], known["coordinates"]) == (["view 1", "view 2"], 3)
    assert known["landmarks"] >= len(model.landmarks_)
    assert "is a fitted model of view 1, view 2" in dlcca("status", out).stdout
    assert dlcca("verify", out).exit_code == 0
    next(path for path in (out / "points_0" / "c").rglob("*") if path.is_file()).unlink()
    damaged = dlcca("verify", out)
    assert damaged.exit_code == 3
    assert "'points_0'" in damaged.output


def test_reasons_for_doubt_end_in_5(arrays, tmp_path):
    folder, _model, new, _old = arrays
    far = written(tmp_path, [X + 10 for X in new], 50)
    places = [source.address for source in far]
    result = dlcca("refit", folder / "model.zarr", *places, *with_old(folder), "--out", tmp_path / "both.zarr")
    assert result.exit_code == 5
    assert "do not trust this result: the kernel falls into at least 2 separate pieces" in result.stderr
    assert open_model(tmp_path / "both.zarr").warnings_


# What is refused.


def test_a_place_that_holds_something_else_is_refused_before_anything_is_fitted(arrays, tmp_path):
    folder, *_ = arrays
    run_store.write(tmp_path / "run.zarr", made_up())
    before = sorted(tmp_path.rglob("*"))
    result = dlcca("refit", folder / "model.zarr", *files(folder, "new"), "--out", tmp_path / "run.zarr")
    assert result.exit_code == 4
    assert "is not a dlcca model" in result.output
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--alone", "--old", "x.zarr"], 2, "leave one of them out"),
        (["--align", "signs"], 2, "'signs' is not one of"),
        (["--old", "view 1=nowhere.zarr", "--old", "view 2=nowhere.zarr"], 4, "nowhere.zarr"),
        (["--old", "nowhere.toml"], 2, "nowhere.toml cannot be read"),
        (["--out", "s3://bucket/both.zarr"], 2, "give a folder here"),
    ],
    ids=["both", "align", "array", "toml", "remote"],
)
def test_bad_usage_is_told(arrays, tmp_path, more, code, words):
    folder, *_ = arrays
    result = dlcca("refit", folder / "model.zarr", *files(folder, "new"), "--out", tmp_path / "both.zarr", *more)
    assert result.exit_code == code
    assert words in result.output
    assert not (tmp_path / "both.zarr").exists()


def test_old_rows_that_are_not_those_of_the_fit_are_refused(arrays, tmp_path):
    folder, *_ = arrays
    wrong = [argument for file in files(folder, "new") for argument in ("--old", file)]
    result = dlcca("refit", folder / "model.zarr", *files(folder, "new"), *wrong, "--out", tmp_path / "both.zarr")
    assert result.exit_code == 3
    assert "give the rows of the fit" in result.output


# Recordings.

VIEWS = """
[store]
path = "run.zarr"

[views.left]
source = "{file}"
channels = ["a", "b"]
window_s = {window_s}
step_s = 0.1
reader = {{ rate = 50.0 }}

[views.right]
source = "{file}"
channels = ["c", "d"]
window_s = {window_s}
step_s = 0.1
reader = {{ rate = 50.0 }}
"""


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory):
    """A finished run on a recording of a minute, without a cluster, and a recording of the day after, with a gap."""
    assert RATE == 50.0
    folder = tmp_path_factory.mktemp("run")
    file = write_npz(folder / "old.npz", 3000, 0)
    write_npz(folder / "new.npz", 1500, 1, gap=slice(500, 550))
    sections = tomllib.loads(VIEWS.format(file=file, window_s=0.2))["views"]
    recipes = {name: ViewRecipe.of({**said, "source": [file]}, name) for name, said in sections.items()}
    store = str(folder / "run.zarr")
    ingest.run(*ingest.prepared(f"{store}/recordings", recipes))
    options = {"neighborhoods": "time", "window": 20, "landmarks": 60, "n_components": 2}
    places = {name: f"{store}/recordings/views/{name}" for name in recipes}
    runner.run(*runner.prepared(store, places, Settings.from_options(**options), 0, f"{store}/recordings"))
    return folder


@pytest.fixture(scope="module")
def appended(recorded_run, tmp_path_factory):
    """The folder of a refit of the run by a file, and what it told."""
    folder = tmp_path_factory.mktemp("both")
    return folder, done("refit", recorded_run / "run.zarr", recorded_run / "new.npz", "--out", folder / "both.zarr")


def test_a_recording_is_appended_to_a_run_whose_rows_are_in_its_store(recorded_run, appended):
    folder, told = appended
    new, old = open_views(folder / "both-views.zarr"), open_views(recorded_run / "run.zarr" / "recordings")
    expected = open_model(recorded_run / "run.zarr").refit(new, old)
    np.testing.assert_allclose(open_model(folder / "both.zarr").embedding_, expected.embedding_, atol=1e-6)
    same_change(told["change"], expected.change_)
    assert (told["samples_old"], told["samples_new"]) == (len(old["left"]), len(new["left"]))
    assert told["views"] == str(folder / "both-views.zarr")
    assert len(new.clock.time) > len(new["left"])  # windows that touch the gap are left out
    for part in ("center", "scale"):  # scaled as the fit was, not by themselves
        ours, theirs = (
            zarr.open_group(str(place), mode="r")[f"scaling/left/{part}"][...]
            for place in (folder / "both-views.zarr", recorded_run / "run.zarr" / "recordings")
        )
        assert (ours == theirs).all()


def test_recordings_go_through_the_new_model(recorded_run, appended, tmp_path):
    folder, told = appended
    through = done("transform", folder / "both.zarr", recorded_run / "new.npz", "--out", tmp_path / "new.zarr")
    assert through["valid"] == told["samples_new"]
    E = zarr.open_group(str(tmp_path / "new.zarr"), mode="r")["embedding"][...]
    kept = open_model(folder / "both.zarr").embedding_[told["samples_old"] :]
    np.testing.assert_allclose(E[np.isfinite(E).all(axis=1)], kept, atol=1e-4)


@pytest.mark.parametrize("said", ["a store of views", "a store of coordinates", "a run.toml"])
def test_new_rows_may_be_said_in_other_ways(recorded_run, appended, tmp_path, said):
    folder, told = appended
    new: object = folder / "both-views.zarr"
    if said == "a store of coordinates":
        new = tmp_path / "new.zarr"
        done("transform", recorded_run / "run.zarr", recorded_run / "new.npz", "--out", new)
    if said == "a run.toml":
        new = tmp_path / "new.toml"
        new.write_text(VIEWS.format(file=recorded_run / "new.npz", window_s=0.2))
    again = done("refit", recorded_run / "run.zarr", new, "--out", tmp_path / "both.zarr")
    same_change(again["change"], told["change"])


def test_a_run_toml_that_would_make_other_views_is_refused(recorded_run, tmp_path):
    (tmp_path / "new.toml").write_text(VIEWS.format(file=recorded_run / "new.npz", window_s=0.4))
    out = tmp_path / "both.zarr"
    result = dlcca("refit", recorded_run / "run.zarr", tmp_path / "new.toml", "--out", out)
    assert result.exit_code == 2
    assert "[views.left] window_s is 0.4, and the model was fitted with 0.2" in result.output
    assert not out.exists()

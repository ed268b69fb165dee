"""Where a store or a file may be written: nothing of the user's is ever changed, whatever a path names."""

import os
import shutil

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, open_model
from dlcca.cli import app
from dlcca.errors import SettingsError, StorageError
from dlcca.fitting import pipeline, runner
from dlcca.storage import places, transformed, views
from dlcca.storage import run as run_store
from dlcca.storage.places import find
from tests.faults.stores import leave_lock
from tests.storage.buckets import objects, sent, storage
from tests.support.runs import made_up

RUN = """
[store]
path = "{store}"

[views.left]
source = "left.zarr"

[views.right]
source = "right.zarr"

[landmarks]
count = 20

[neighborhoods]
window = 8

[spectrum]
n_components = 2

[cluster]
workers = 1
"""

PIPELINE = """
[pipeline]
name = "nights"
state = "{state}"

[sources]
files = "recordings/*.edf"

[outputs]
zarr = "{zarr}"
parquet = "{parquet}"
page = "{page}"

[views.eeg]
channels = ["a"]
"""


def common_views(n=200):
    rng = np.random.default_rng(0)
    t = np.arange(n) / 10
    common = np.column_stack([np.sin(t), np.cos(1.3 * t)])
    return {name: common @ rng.standard_normal((2, 4)) + 0.05 * rng.standard_normal((n, 4)) for name in LEFT_RIGHT}


LEFT_RIGHT = ("left", "right")


def dlcca(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def snapshot(folder):
    """Every entry below a folder: the bytes of files, where links point, and folders."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Inputs, a model, runs and everything else that a place may hold; copied for every test."""
    folder = tmp_path_factory.mktemp("original")
    X = common_views()
    for name, array in X.items():
        zarr.create_array(folder / f"{name}.zarr", data=array, chunks=(50, 4))
    (folder / "run.toml").write_text(RUN.format(store="run.zarr"))
    model = LocalCCA(landmarks=20, window=8, random_state=0).fit(X)
    model.save(folder / "model.zarr")
    job, choices = runner.prepared(
        str(folder / "run.zarr"), {n: str(folder / f"{n}.zarr") for n in X}, model.settings_, 0
    )
    runner.run(job, choices)
    assert dlcca("transform", folder / "model.zarr", *arrays(folder), "--out", folder / "new.zarr").exit_code in (0, 5)
    # What is not ours.
    zarr.create_array(folder / "array.zarr", data=np.arange(12.0).reshape(4, 3))
    zarr.create_array(folder / "array2.zarr", data=np.arange(12.0), zarr_format=2)
    group = zarr.create_group(folder / "group.zarr")
    group.create_array("time", data=np.arange(5.0))
    group.create_array("embedding", data=np.arange(5.0))
    zarr.create_group(folder / "described.zarr", attributes={"subject": 7})
    zarr.create_group(folder / "group2.zarr", zarr_format=2).create_array("stages", data=np.arange(5.0))
    (folder / "recordings").mkdir()
    (folder / "recordings" / "night-1.csv").write_text("time,a,b\n0,1,2\n1,2,3\n")
    (folder / "stages" / "deep").mkdir(parents=True)
    (folder / "stages" / "deep" / "recordings.edf").write_bytes(b"0" * 300)
    (folder / "notes.txt").write_text("dear diary")
    (folder / "link").symlink_to("array.zarr")
    (folder / "link-to-folder").symlink_to("recordings")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def place(original, tmp_path):
    shutil.copytree(original, tmp_path / "work", symlinks=True)
    return tmp_path / "work"


def arrays(folder):
    return [folder / f"{name}.zarr" for name in LEFT_RIGHT]


#: What a path may name that is not ours to write to.
FOREIGN = {
    "an array": "array.zarr",
    "an array of version 2": "array2.zarr",
    "a group with the names of our arrays": "group.zarr",
    "a group with attributes": "described.zarr",
    "a group of version 2": "group2.zarr",
    "an input": "left.zarr",
    "a place inside an input": "left.zarr/c",
    "a new place inside an input": "left.zarr/new.zarr",
    "the folder of the recordings": "recordings",
    "a folder named as one of ours": "stages",
    "the folder of everything": ".",
    "a file": "notes.txt",
    "a place below a file": "notes.txt/run.zarr",
    "the run file": "run.toml",
    "a link to an array": "link",
    "a link to the recordings": "link-to-folder",
    "a link to nothing": "dangling",
    "a place inside a run": "run.zarr/inside.zarr",
}
#: Stores of ours of each kind.
OURS = {"run": "run.zarr", "model": "model.zarr", "transformed": "new.zarr"}


def run_at(folder, store):
    (folder / "other.toml").write_text(RUN.format(store=store))
    return dlcca("run", folder / "other.toml")


def run_again_at(folder, store):
    (folder / "other.toml").write_text(RUN.format(store=store))
    return dlcca("run", folder / "other.toml", "--from", "scan")


def ingest_at(folder, store):
    return dlcca("ingest", folder / "recordings" / "night-1.csv", "--out", folder / store, "--workers", 1)


def ingest_run_at(folder, store):
    text = f'[store]\npath = "{store}"\n[views.a]\nsource = "recordings/night-1.csv"\nchannels = ["a"]\n'
    (folder / "other.toml").write_text(text)
    return dlcca("ingest", folder / "other.toml")


def transform_at(folder, store):
    return dlcca("transform", folder / "model.zarr", *arrays(folder), "--out", folder / store)


def refit_at(folder, store):
    return dlcca("refit", folder / "model.zarr", *arrays(folder), "--alone", "--out", folder / store)


def save_at(folder, store):
    open_model(folder / "model.zarr").save(folder / store)


def demo_at(folder, store):
    """The demo writes a run into a folder."""
    (folder / "demo").mkdir()
    if os.path.lexists(folder / store):
        (folder / "demo" / "run.zarr").symlink_to(folder / store)
        return dlcca("demo", "--out", folder / "demo")
    return dlcca("demo", "--out", folder / store)


def export_zarr_at(folder, store):
    return dlcca("export", folder / "new.zarr", "--to", "zarr", "--out", folder / store)


#: Verb -> the kind of store that it writes.
STORE_VERBS = {
    run_at: "run",
    run_again_at: "run",
    ingest_at: "views",
    ingest_run_at: "run",
    transform_at: "transformed",
    refit_at: "model",
    save_at: "model",
    demo_at: "demo",
    export_zarr_at: "xarray",
}


def refused(call, folder, target):
    """Whether a call was refused, with a sentence and a code for it."""
    try:
        result = call(folder, target)
        said, code = result.stderr, result.exit_code
    except (StorageError, SettingsError) as error:
        said, code = str(error), error.exit_code
    return code in (2, 4) and any(text in said for text in REASONS)


#: What a refusal says, so that no other error passes for it.
REASONS = (
    *(
        "exists and is not a",
        "exists and is no store",
        "exists and is not the",
        "exists: it is",
        "cannot be made: it is",
        "cannot be written: it is a place below a file",
    ),
    *("lies inside", "contains the input", "is the input", "is a folder; give the name of a file"),
    *("is not in the folder of", "MNE needs a name that ends in .fif"),
)


def changed(before, after):
    """What a call has changed or left, but for the file and the folder that the test has made for it."""
    made = ("other.toml", "demo", "demo/run.zarr")
    return [n for n in before.keys() | after.keys() if before.get(n) != after.get(n) and n not in made]


@pytest.mark.each_value
@pytest.mark.parametrize("verb", STORE_VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_store_is_never_written_over_something_else(place, verb, kind):
    before = snapshot(place)
    assert refused(verb, place, FOREIGN[kind])
    assert changed(before, snapshot(place)) == []


@pytest.mark.each_value
@pytest.mark.parametrize("verb", STORE_VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("kind", OURS)
def test_a_store_of_another_kind_is_never_written_over(place, verb, kind):
    if STORE_VERBS[verb] == kind:
        return
    before = snapshot(place)
    assert refused(verb, place, OURS[kind])
    assert changed(before, snapshot(place)) == []


def report_to(folder, target):
    return dlcca("report", folder / "run.zarr", "--out", folder / target)


def tune_to(folder, target):
    return dlcca("tune", folder / "run.toml", "--out", folder / target)


def rates_to(folder, target):
    return dlcca("plan", folder / "run.toml", "--calibrate", "--rates", folder / target)


def parquet_to(folder, target):
    return dlcca("export", folder / "new.zarr", "--to", "parquet", "--out", folder / target)


def csv_to(folder, target):
    return dlcca("export", folder / "new.zarr", "--to", "csv", "--out", folder / target)


def netcdf_to(folder, target):
    return dlcca("export", folder / "new.zarr", "--to", "xarray", "--out", folder / target)


def mne_to(folder, target):
    return dlcca("export", folder / "new.zarr", "--to", "mne", "--rate", "10", "--out", folder / target)


FILE_VERBS = (report_to, tune_to, rates_to, parquet_to, csv_to, netcdf_to, mne_to)
FILE_TARGETS = [
    *("notes.txt", "run.toml", "recordings/night-1.csv", "recordings", "array.zarr", "array.zarr/zarr.json"),
    *("left.zarr/c/0/0", "left.zarr/new.html", "dangling", "link", "run.zarr", "run.zarr/zarr.json"),
]


@pytest.mark.each_value
@pytest.mark.parametrize("verb", FILE_VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("target", FILE_TARGETS)
def test_a_file_is_never_written_over_something_else(place, verb, target):
    before = snapshot(place)
    assert refused(verb, place, target)
    assert changed(before, snapshot(place)) == []


def compare_to(folder, target):
    return dlcca("compare", folder / "run.toml", "--out", folder / target)


def reproduce_to(folder, target):
    return dlcca("reproduce", "--out", folder / target)


def profiles_to(folder, target):
    return dlcca("cluster", "profiles", "--out", folder / target)


def examples_to(folder, target):
    return dlcca("pipeline", "examples", "--out", folder / target)


def demo_to(folder, target):
    return dlcca("demo", "--out", folder / target)


def state_at(folder, target):
    return _pipeline(folder, state=target)


def days_at(folder, target):
    return _pipeline(folder, zarr=target)


def parquet_days_at(folder, target):
    return _pipeline(folder, parquet=target)


def _pipeline(folder, **said):
    usual = {"state": "s", "zarr": "z", "parquet": "", "page": ""}
    (folder / "other.toml").write_text(PIPELINE.format(**{**usual, **said}))
    return dlcca("pipeline", "run", folder / "other.toml")


PIPELINE_VERBS = (state_at, days_at, parquet_days_at)
FOLDER_VERBS = (compare_to, reproduce_to, profiles_to, examples_to, demo_to, *PIPELINE_VERBS)
FOLDER_TARGETS = [
    *("notes.txt", "run.toml", "array.zarr", "array2.zarr", "group.zarr", "described.zarr", "left.zarr", "link"),
    *("dangling", "run.zarr", "model.zarr", "left.zarr/new", "notes.txt/below", "run.zarr/inside"),
]


@pytest.mark.each_value
@pytest.mark.parametrize("verb", FOLDER_VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("target", FOLDER_TARGETS)
def test_a_folder_of_results_is_never_made_of_something_else(place, verb, target):
    if target == "dangling" and verb in PIPELINE_VERBS:
        return  # paths in a pipeline file are followed: the folder is made where the link points to
    before = snapshot(place)
    assert refused(verb, place, target)
    assert changed(before, snapshot(place)) == []


def unusable_at(folder, target):
    """A pipeline file that is wrong, which is noted in the state where there is one."""
    (folder / "other.toml").write_text(f'[pipeline]\nstate = "{target}"\n[sources]\nwrong = 1\n')
    result = dlcca("pipeline", "run", folder / "other.toml")
    assert result.exit_code == 2
    return result


def test_a_wrong_pipeline_file_is_noted_in_no_folder_of_others(place):
    before = snapshot(place)
    for target in (*FOLDER_TARGETS, "recordings"):
        if target == "dangling":
            continue
        unusable_at(place, target)
        assert changed(before, snapshot(place)) == []


@pytest.mark.parametrize("verb", [reproduce_to, state_at], ids=lambda verb: verb.__name__)
def test_a_folder_that_is_written_to_freely_holds_nothing_else(place, verb):
    before = snapshot(place)
    assert refused(verb, place, "recordings")
    assert changed(before, snapshot(place)) == []


@pytest.mark.parametrize("name", ["compare.html", "compare.json"])
def test_a_comparison_does_not_replace_files_of_the_same_name(place, name):
    (place / "out").mkdir()
    (place / "out" / name).write_text('{"mine": 1}')
    before = snapshot(place)
    assert refused(compare_to, place, "out")
    assert changed(before, snapshot(place)) == []


# What is expected to work.


@pytest.mark.parametrize("store", ["absent.zarr", "deep/absent.zarr", "empty", "link-to-empty"])
def test_a_store_is_written_where_nothing_is(place, store):
    (place / "link-to-empty").symlink_to("empty")
    assert transform_at(place, store).exit_code in (0, 5)
    assert transformed.is_transformed(str(place / store))
    open_model(place / "model.zarr").save(place / f"{store}-model")
    (place / "other-empty").mkdir()
    open_model(place / "model.zarr").save(place / "other-empty")
    assert open_model(place / "other-empty").n_common_ == open_model(place / "model.zarr").n_common_


def test_a_model_is_saved_through_a_link(place):
    (place / "to-model").symlink_to("model.zarr")
    open_model(place / "model.zarr").save(place / "to-model")
    assert os.readlink(place / "to-model") == "model.zarr"
    assert open_model(place / "model.zarr").model_.names == LEFT_RIGHT


@pytest.mark.parametrize("verb", [report_to, csv_to, parquet_to, netcdf_to, mne_to], ids=lambda verb: verb.__name__)
def test_an_earlier_output_of_the_same_kind_is_replaced(place, verb):
    name = "new_raw.fif" if verb is mne_to else "new"
    for _ in range(2):
        result = verb(place, name)
        assert result.exit_code == 0, result.output
    others = [each for each in (report_to, csv_to, parquet_to) if each is not verb]
    before = snapshot(place)
    assert all(refused(other, place, name) for other in others)
    assert changed(before, snapshot(place)) == []


def test_a_second_run_finds_its_own_store(place):
    before = snapshot(place / "run.zarr")
    job, _ = runner.prepared(
        str(place / "run.zarr"), {n: str(place / f"{n}.zarr") for n in LEFT_RIGHT}, _settings(place), 0
    )
    assert find(place / "run.zarr").format == "dlcca-run"
    pipeline.refuse_place(job)
    assert snapshot(place / "run.zarr") == before
    assert run_store.damages(place / "run.zarr")["embedding"] is None


def _settings(place):
    return open_model(place / "model.zarr").settings_


def header_removed(store):
    (store / "zarr.json").unlink()


def header_emptied(store):
    (store / "zarr.json").write_bytes(b"")


def header_cut(store):
    (store / "zarr.json").write_bytes((store / "zarr.json").read_bytes()[:200])


def format_changed(store):
    text = (store / "zarr.json").read_text()
    (store / "zarr.json").write_text(text.replace("dlcca-run", "dlcca-rtn").replace("dlcca-transformed", "dlcca-tr"))


def begun_again(store):
    runner.forget(str(store), "scan")


def only_locked(store):
    shutil.rmtree(store)
    leave_lock(store)


def lock_being_made(store):
    shutil.rmtree(store)
    (store / "stages" / "lock").mkdir(parents=True)


def no_stage_recorded(store):
    for record in store.glob("stages/*/stage.json"):
        record.unlink()
    (store / "zarr.json").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        *(header_removed, header_emptied, header_cut, format_changed, begun_again, only_locked, lock_being_made),
        no_stage_recorded,
    ],
    ids=lambda damage: damage.__name__,
)
def test_a_run_that_is_not_finished_or_damaged_is_still_known_as_ours(place, damage):
    damage(place / "run.zarr")
    places.refuse_store(place / "run.zarr", run_store.FORM)
    with pytest.raises(StorageError, match="unfinished"):
        places.refuse_store(place / "run.zarr", run_store.FORM, replace=True)
    if damage not in (only_locked, lock_being_made):  # of which nobody can tell what they were to be
        with pytest.raises(StorageError, match="no store of views"):
            places.refuse_store(place / "run.zarr", views.FORM)


@pytest.mark.parametrize("name", ["described.zarr", "array.zarr", "array2.zarr", "recordings"])
def test_a_run_that_was_begun_in_a_place_of_the_user_is_not_continued(place, name):
    """As an earlier dlcca may have left it: stages and a lock in what is not ours."""
    if name != "recordings":
        shutil.copytree(place / "run.zarr" / "stages", place / name / "stages")
    leave_lock(place / name)
    before = snapshot(place)
    assert refused(run_at, place, name)
    assert changed(before, snapshot(place)) == []


def test_a_run_with_stages_is_not_replaced_by_a_demo(place):
    before = snapshot(place)
    with pytest.raises(StorageError, match="not a dlcca run"):
        run_store.write(place / "run.zarr", made_up())
    assert snapshot(place) == before


def test_the_message_says_what_was_found(place):
    said = {name: run_at(place, name).stderr for name in ("array.zarr", "recordings", "model.zarr", "dangling")}
    assert "a Zarr array of shape [4, 3]" in said["array.zarr"]
    assert "a folder with night-1.csv" in said["recordings"]
    assert "'dlcca-model'" in said["model.zarr"]
    assert "a symbolic link to nowhere, which does not exist" in said["dangling"]
    assert all("[store] path" in text for text in said.values())
    inside = transform_at(place, "left.zarr/new.zarr")
    assert inside.exit_code == 2
    assert "lies inside the input" in inside.stderr


def test_a_store_does_not_contain_its_input(place):
    (place / "run.zarr" / "mine").mkdir()
    shutil.copytree(place / "left.zarr", place / "run.zarr" / "mine" / "left.zarr")
    text = RUN.format(store="run.zarr").replace('"left.zarr"', '"run.zarr/mine/left.zarr"')
    (place / "run.toml").write_text(text)
    before = snapshot(place)
    result = dlcca("run", place / "run.toml")
    assert result.exit_code == 2
    assert "contains the input" in result.stderr
    assert snapshot(place) == before


# Object storage.


def test_a_store_in_object_storage_is_never_written_over_something_else(place, bucket):
    X = common_views()
    sent(bucket, X, 50)
    group = zarr.create_group(places_store(f"{bucket}/group"), attributes={"subject": 7})
    group.create_array("time", data=np.arange(3.0))
    storage().pipe_file(f"{bucket}/recordings/night.edf", b"0" * 100)
    storage().pipe_file(f"{bucket}/notes.txt", b"dear diary")
    before = objects(bucket)
    text = RUN.replace('"left.zarr"', f'"{bucket}/left.zarr"').replace('"right.zarr"', f'"{bucket}/right.zarr"')
    inputs = [f"{bucket}/{name}.zarr" for name in LEFT_RIGHT]
    for target in ("left.zarr", "left.zarr/inside", "group", "recordings", "notes.txt", ""):
        (place / "s3.toml").write_text(text.format(store=f"{bucket}/{target}"))
        assert dlcca("run", place / "s3.toml").exit_code in (2, 4), target
        assert dlcca("transform", place / "model.zarr", *inputs, "--out", f"{bucket}/{target}").exit_code in (2, 4)
        csv = place / "recordings" / "night-1.csv"
        assert dlcca("ingest", csv, "--out", f"{bucket}/{target}", "--workers", 1).exit_code in (2, 4), target
    assert objects(bucket) == before
    assert find(f"{bucket}/absent").is_free
    result = dlcca("transform", place / "model.zarr", *inputs, "--out", f"{bucket}/absent")
    assert result.exit_code in (0, 5), result.output
    assert find(f"{bucket}/absent").is_store("dlcca-transformed")
    assert dlcca("transform", place / "model.zarr", *inputs, "--out", f"{bucket}/absent").exit_code in (0, 5)
    storage().rm(f"{bucket}/absent/zarr.json")
    assert find(f"{bucket}/absent").is_store("dlcca-transformed")
    assert not find(f"{bucket}/absent").finished


def places_store(address):
    from dlcca.storage.files import zarr_store

    return zarr_store(address)

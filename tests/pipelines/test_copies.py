"""A pipeline that was copied or moved: it works on its own files, and never touches those of another."""

import hashlib
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import SettingsError, StorageError, StoreFileError
from dlcca.pipelines import context
from dlcca.pipelines.catalog import OWNER
from dlcca.pipelines.context import opened
from dlcca.pipelines.settings import read
from tests.pipelines.nights import day_of, pipeline_file, recorded, run_night, sensors, start_of, write

SHORT = "[retention]\nviews_days = 0.5\nreplaced_days = 0.01\nmodels = 1\n"


def files_in(folder):
    """What every file and link below a folder holds."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            held = os.readlink(path).encode() if os.path.islink(path) else Path(path).read_bytes()
            found[os.path.relpath(path, folder)] = hashlib.sha256(held).hexdigest()
    return found


def lab(folder):
    """Three nights, with a refit, a recording that was replaced and its day published again."""
    file = pipeline_file(folder, "[refit]\nnew_rows = 0.5\n[retention]\nviews_days = 400\nreplaced_days = 400\n")
    for night in (1, 2):
        recorded(folder, night)
        run_night(file, night)
    write(folder / "incoming" / "night-02-0.edf", sensors(2, 7)[0], start_of(2))
    recorded(folder, 3)
    run_night(file, 3)
    with opened(file) as flow:  # nothing may be waiting in a log of the catalog while bytes are compared
        flow.catalog.do("PRAGMA wal_checkpoint(TRUNCATE)")
    return file


@pytest.fixture(scope="module")
def prod(tmp_path_factory):
    """The folder of such a pipeline, which every test leaves as it is."""
    return lab(tmp_path_factory.mktemp("prod")).parent


def rows(folder, query):
    with closing(sqlite3.connect(folder / "state" / "catalog.sqlite")) as base:
        return base.execute(query).fetchall()


@pytest.mark.slow
def test_a_copied_pipeline_leaves_every_file_of_the_original_as_it_is(prod, tmp_path):
    trial = tmp_path / "trial"
    before = files_in(prod)
    shutil.copytree(prod, trial, symlinks=True)
    file = pipeline_file(trial, SHORT)
    days = rows(trial, "SELECT * FROM partitions ORDER BY day")
    views = len(list((trial / "state" / "views").iterdir()))
    assert views > 0
    again = run_night(file, 5)
    assert (again.done, again.published, again.exit_code) == ([], [], 0)  # nothing is done a second time
    assert rows(trial, "SELECT * FROM partitions ORDER BY day") == days
    recorded(trial, 6)
    assert run_night(file, 6).published == [day_of(6)]
    assert len(list((trial / "state" / "views").iterdir())) == 1  # retention is at work, in the copy
    run_night(file, 9)
    assert files_in(prod) == before


@pytest.mark.slow
def test_a_moved_pipeline_goes_on_where_it_was(tmp_path):
    lab(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    file = pipeline_file(tmp_path / "new", "[refit]\nnew_rows = 0.5\n")
    summary = run_night(file, 4)
    assert (summary.done, summary.published, summary.exit_code) == ([], [], 0)
    assert (summary.found.new, summary.found.duplicates, summary.found.gone) == ([], [], 0)
    recorded(tmp_path / "new", 4)
    assert run_night(file, 4).published == [day_of(4)]
    assert not (tmp_path / "old").exists()


@pytest.mark.slow
def test_no_path_of_the_folder_is_in_the_catalog_or_in_a_published_day(prod):
    import zarr

    for table, columns in {
        "recordings": "path, views, result",
        "models": "address, rows_store, held_store",
        "files": "path, parts",
        "replaced": "path",
    }.items():
        assert str(prod) not in str(rows(prod, f"SELECT {columns} FROM {table}")), table
    assert rows(prod, "SELECT path FROM recordings WHERE id = 1") == [("incoming/night-01-0.edf",)]
    for day in (prod / "published" / "zarr").glob("*.zarr"):
        assert str(prod) not in str(dict(zarr.open_group(str(day), mode="r").attrs))


@pytest.mark.slow
def test_two_pipelines_do_not_share_a_folder_that_lies_elsewhere(tmp_path):
    prod, trial = tmp_path / "prod", tmp_path / "trial"
    elsewhere = f"[outputs]\nzarr = '{tmp_path}/elsewhere/zarr'\n"
    file = pipeline_file(prod, elsewhere)
    recorded(prod, 1)
    run_night(file, 1)
    before = files_in(tmp_path)
    shutil.copytree(prod, trial, symlinks=True)
    copied = pipeline_file(trial, elsewhere + SHORT)
    with pytest.raises(SettingsError, match=r"belongs to the pipeline .*prod/pipeline.toml.*\[outputs\] zarr"):
        run_night(copied, 5)
    shutil.rmtree(trial)
    assert {name: held for name, held in files_in(tmp_path).items() if "catalog" not in name} == {
        name: held for name, held in before.items() if "catalog" not in name
    }
    prod.rename(trial)  # moved: the other is not there any more
    recorded(trial, 2)
    assert run_night(trial / "pipeline.toml", 2).published == [day_of(2)]


@pytest.mark.slow
def test_retention_removes_nothing_through_a_link_and_says_so(tmp_path):
    file = pipeline_file(tmp_path / "lab", SHORT)
    recorded(tmp_path / "lab", 1)
    run_night(file, 1)
    (tmp_path / "lab" / "state" / "views").rename(tmp_path / "larger-disk")
    (tmp_path / "lab" / "state" / "views").symlink_to(tmp_path / "larger-disk")
    before = files_in(tmp_path / "larger-disk")
    for night in (5, 6):
        summary = run_night(file, night)
        assert summary.exit_code == 4
        assert "is not removed: it is not inside a folder of this pipeline" in summary.troubles[0]
    assert files_in(tmp_path / "larger-disk") == before
    said = CliRunner().invoke(app, ["pipeline", "retain", str(file)])
    assert said.exit_code == 0  # by the clock of this machine nothing is old


@pytest.mark.parametrize("state", [".", "../state", "state"])
def test_a_folder_that_was_copied_along_belongs_to_the_copy(tmp_path, state):
    file = pipeline_file(tmp_path / "prod" / "settings")
    file.write_text(file.read_text().replace("[pipeline]", f'[pipeline]\nstate = "{state}"'))
    read(file).state.mkdir(exist_ok=True)
    context.claim(read(file))
    shutil.copytree(tmp_path / "prod", tmp_path / "trial")
    copied = read(tmp_path / "trial" / "settings" / "pipeline.toml")
    for _ in range(2):
        context.claim(copied)
        context.claim(read(file))
    assert (copied.state / OWNER).read_text().splitlines() == [str(copied.path), str(copied.state)]


@pytest.mark.parametrize("by_link", [True, False])
def test_a_copy_with_the_state_of_the_original_is_refused(tmp_path, by_link):
    file = pipeline_file(tmp_path / "prod")
    read(file).state.mkdir()
    context.claim(read(file))
    copied = pipeline_file(tmp_path / "trial")
    if by_link:
        (tmp_path / "trial" / "state").symlink_to(tmp_path / "prod" / "state")
    else:
        copied.write_text(copied.read_text().replace("[pipeline]", '[pipeline]\nstate = "../prod/state"'))
    with pytest.raises(SettingsError, match=r"belongs to the pipeline .*prod/pipeline.toml.*\[pipeline\] state"):
        run_night(copied, 1)


def made(tmp_path):
    settings = read(pipeline_file(tmp_path / "lab"))
    for name in ("views", "work"):
        (settings.state / name).mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data").write_text("of somebody else")
    return settings, outside


def flow_of(settings):
    """The pipeline of settings, without what needs its catalog to be open."""
    return context.Pipeline(settings, catalog=None, workers=None, clock=None)


def test_what_is_not_inside_a_folder_of_the_pipeline_is_never_removed(tmp_path):
    settings, outside = made(tmp_path)
    lab = tmp_path / "lab"
    (settings.state / "link.zarr").symlink_to(outside)
    (settings.state / "linked").symlink_to(outside)
    (outside / "inwards").symlink_to(settings.state / "views")
    before = files_in(tmp_path)
    for target in (
        outside,
        outside / "data",
        settings.state,
        settings.models,
        lab,
        lab / "incoming",
        lab / "pipeline.toml",
        settings.state / ".." / ".." / "outside",
        settings.state / "views" / ".." / ".." / "incoming",
        settings.state / "link.zarr",
        settings.state / "linked" / "data",
        outside / "inwards",
        "views/000001.zarr",
        "s3://bucket/prefix/state/views/000001.zarr",
        "",
        "/",
    ):
        with pytest.raises(StorageError, match="is not removed"):
            flow_of(settings).remove(target)
    assert files_in(tmp_path) == before
    assert (settings.state / "views").is_dir()


def test_what_is_inside_is_removed_and_what_is_not_there_is_no_error(tmp_path):
    settings, _ = made(tmp_path)
    (settings.state / "views" / "one.zarr").mkdir()
    (settings.state / "views" / "two").write_text("a file")
    (settings.state / "views" / "three").symlink_to("two")
    for name in ("three", "one.zarr", "two", "two"):
        flow_of(settings).remove(settings.state / "views" / name)
    assert list((settings.state / "views").iterdir()) == []


def test_a_recorded_path_that_leads_out_of_its_folder_is_refused(tmp_path):
    settings, outside = made(tmp_path)
    assert context.recorded(settings.state, settings.state / "views" / "one.zarr") == "views/one.zarr"
    assert context.located(settings.state, "views/one.zarr") == str(settings.state / "views" / "one.zarr")
    with pytest.raises(StorageError, match="outside"):
        context.recorded(settings.state, outside / "data")
    for said in (str(outside / "data"), "../../outside/data", "s3://bucket/views"):
        with pytest.raises(StoreFileError, match="catalog"):
            context.located(settings.state, said)


@pytest.mark.parametrize("section", ["[pipeline]\nstate", "[model]\npath"])
def test_folders_of_a_pipeline_are_on_a_file_system(tmp_path, section):
    file = pipeline_file(tmp_path)
    file.write_text(file.read_text().replace('[pipeline]\nname = "laboratory"\n', "") + f"{section} = 's3://b/x'\n")
    with pytest.raises(SettingsError, match="a folder on a file system is needed"):
        read(file)

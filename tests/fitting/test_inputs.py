"""Inputs that are incomplete, or that change between a run and its resumption."""

import functools
import http.server
import json
import os
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, simulate
from dlcca.cli import app
from dlcca.clusters.local import local_client
from dlcca.errors import DataError, SettingsError, StaleStage
from dlcca.fitting import pipeline, runner, scan, transform, verification
from dlcca.fitting.job import Source
from dlcca.recordings import ingest
from dlcca.recordings.formats import open_recording
from dlcca.recordings.input_integrity import confirm
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage import inputs
from tests.fitting import jobs
from tests.fitting.jobs import KNN, TIME, embedding, job_on, recordings, small_job, written
from tests.support import repeats

RUN = """
[store]
path = "run.zarr"

[views.left]
source = "left.zarr"

[views.right]
source = "right.zarr"

[landmarks]
count = 60

[neighborhoods]
kind = "knn"
n_neighbors = 40

[cluster]
workers = 1
memory_gib = 2
"""
FILL = 'source = "left.zarr"\nmissing_chunks = "fill"'


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def laid(place, X, chunks, **options):
    """X as a Zarr array whose chunks are all written."""
    array = zarr.create_array(
        str(place), shape=X.shape, chunks=chunks, dtype=X.dtype, config={"write_empty_chunks": True}, **options
    )
    array[...] = X
    return array


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two views of 1000 rows in twenty chunks each, and a run.toml of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    views, _truth = simulate.torus(1000, common="big", random_state=0)
    for name, X in zip(("left", "right"), views, strict=True):
        laid(tmp_path / f"{name}.zarr", X, (50, 3))
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path


# Missing chunks.


@pytest.mark.parametrize(
    ("options", "lost", "told"),
    [
        ({}, ["c/3/0", "c/4/0"], r"2 of 20 chunks \(10 %\) of .*left.zarr are missing: rows 150 to 249\."),
        ({}, ["c/0/0", "c/2/0", "c/19/0"], r"3 of 20 .*: rows 0 to 49, 100 to 149 and 950 to 999\."),
        ({"zarr_format": 2}, ["3.0"], r"1 of 20 chunks \(5 %\) .* rows 150 to 199"),
        ({"shards": (100, 3)}, ["c/1/0"], r"1 of 10 shards \(10 %\) .* rows 100 to 199"),
    ],
)
def test_missing_chunks_of_a_view_are_counted_and_refused_by_default(folder, options, lost, told):
    X = zarr.open_array(str(folder / "left.zarr"), mode="r")[...]
    shutil.rmtree(folder / "left.zarr")
    laid(folder / "left.zarr", X, (50, 3), **options)
    assert dlcca("plan", folder / "run.toml").exit_code == 0
    for name in lost:
        (folder / "left.zarr" / name).unlink()
    for verb in ("plan", "run"):
        refused = dlcca(verb, folder / "run.toml")
        assert refused.exit_code == 3, refused.output
        said = " ".join(refused.stderr.split())
        with pytest.raises(DataError, match=told):
            raise DataError(said)
        assert "view 'left'" in said
        assert "missing_chunks" in said
    assert not (folder / "run.zarr/stages/scan").exists()


def test_a_setting_accepts_missing_chunks_as_fill_values_and_says_how_many(folder):
    for name in ("c/3/0", "c/4/0"):
        (folder / "left.zarr" / name).unlink()
    (folder / "run.toml").write_text(RUN.replace('source = "left.zarr"', FILL))
    planned = dlcca("plan", folder / "run.toml", "--json")
    assert planned.exit_code == 0, planned.output
    told = [line for line in json.loads(planned.stdout)["choices"] if "missing_chunks" in line]
    assert len(told) == 1
    assert "2 of 20 chunks (10 %)" in told[0]
    assert "view 'left'" in told[0]
    (folder / "run.toml").write_text(RUN.replace('source = "left.zarr"', FILL.replace("fill", "fil")))
    wrong = dlcca("plan", folder / "run.toml")
    assert wrong.exit_code == 2
    assert "did you mean 'fill'" in wrong.stderr


def test_an_array_that_was_never_written_is_not_taken_for_zeros(folder):
    shutil.rmtree(folder / "left.zarr")
    zarr.create_array(str(folder / "left.zarr"), shape=(1000, 3), chunks=(50, 3), dtype="float64")
    refused = dlcca("plan", folder / "run.toml")
    assert refused.exit_code == 3
    assert "20 of 20 chunks (100 %)" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_missing_chunks_of_a_zarr_array_in_python_are_refused_or_filled(tmp_path, place):
    views = recordings(2)
    arrays = []
    for v, X in enumerate(views):
        store = str(tmp_path / f"{v}.zarr") if place == "folder" else zarr.storage.MemoryStore()
        array = zarr.create_array(store, shape=X.shape, chunks=(50, 4), dtype=X.dtype)
        array[50:] = X[50:]
        if v:
            array[:50] = X[:50]
        arrays.append(array)
    model = LocalCCA(random_state=0, **TIME)
    with pytest.raises(DataError, match=r"1 of 3 chunks \(33 %\).* missing(: rows 0 to 49)?\..*missing_chunks"):
        model.fit(arrays)
    filled = LocalCCA(random_state=0, missing_chunks="fill", **TIME).fit(arrays)
    (told,) = [line for line in filled.choices_ if "missing_chunks" in line]
    assert "1 of 3 chunks" in told
    assert told in filled.summary()
    zeros = np.concatenate([np.zeros((50, 4)), views[0][50:]])
    expected = LocalCCA(random_state=0, **TIME).fit([zeros, views[1]])
    np.testing.assert_allclose(np.asarray(filled.embedding_), expected.embedding_, atol=1e-8)
    with pytest.raises(DataError, match="1 of 3 chunks"):
        expected.transform(arrays)
    with pytest.raises(DataError, match="1 of 3 chunks"):
        expected.distance(arrays)
    np.testing.assert_allclose(np.asarray(filled.transform(arrays)), expected.embedding_, atol=1e-8)
    with pytest.raises(SettingsError, match="did you mean 'fill'"):
        LocalCCA(missing_chunks="filled").fit(arrays)


def test_missing_chunks_of_new_rows_are_refused_by_a_transform(tmp_path):
    views = recordings(2)
    LocalCCA(random_state=0, **TIME).fit(views).save(tmp_path / "model.zarr")
    sources = written(tmp_path, views, 50)
    (tmp_path / "view1.zarr/c/1/0").unlink()
    positional = ("transform", tmp_path / "model.zarr", *(source.address for source in sources))
    refused = dlcca(*positional, "--out", tmp_path / "new.zarr")
    assert refused.exit_code == 3, refused.output
    assert "1 of 3 chunks (33 %)" in " ".join(refused.stderr.split())
    assert "--missing-chunks" in refused.stderr
    filled = dlcca(*positional, "--out", tmp_path / "new.zarr", "--missing-chunks", "fill", "--json")
    assert filled.exit_code == 0, filled.output
    (told,) = json.loads(filled.stdout)["notes"]
    assert "1 of 3 chunks (33 %)" in told


def test_missing_chunks_of_a_recording_are_refused_when_it_is_ingested(tmp_path):
    rng = np.random.default_rng(0)
    laid(tmp_path / "x.zarr", rng.standard_normal((1000, 3)), (50, 3), attributes={"rate": 50.0})
    shutil.copytree(tmp_path / "x.zarr", tmp_path / "whole.zarr")
    (tmp_path / "x.zarr/c/3/0").unlink()
    text = '[store]\npath = "run.zarr"\n[views.a]\nsource = "x.zarr"\nwindow_s = 0.2\nflat_s = 0\n'
    (tmp_path / "run.toml").write_text(text)
    for asked in ((tmp_path / "run.toml",), (tmp_path / "x.zarr", "--out", tmp_path / "views.zarr")):
        refused = dlcca("ingest", *asked)
        assert refused.exit_code == 3, refused.output
        said = " ".join(refused.stderr.split())
        assert "1 of 20 chunks (5 %)" in said
        assert "rows 150 to 199" in said
        assert "missing_chunks" in said
    (tmp_path / "run.toml").write_text(text + 'missing_chunks = "fill"\n')
    filled = dlcca("ingest", tmp_path / "run.toml", "--json")
    assert filled.exit_code == 0, filled.output
    assert any("1 of 20 chunks (5 %)" in note for note in json.loads(filled.stdout)["notes"])


def test_chunks_along_several_axes_are_counted_each_and_their_rows_named_once(tmp_path):
    array = laid(tmp_path / "x.zarr", np.ones((100, 6)), (10, 2))
    keys = {f"c/{i}/{j}" for i in range(10) for j in range(3)}
    assert inputs.missing_chunks(array, keys) is None
    found = inputs.missing_chunks(array, keys - {"c/4/1", "c/4/2", "c/5/0", "c/9/0"})
    assert found == ("4 of 30 chunks (13 %)", ": rows 40 to 59 and 90 to 99")
    flat = laid(tmp_path / "y.zarr", np.ones(25), (10,), zarr_format=2)
    assert inputs.missing_chunks(flat, {"0", "2"}) == ("1 of 3 chunks (33 %)", ": rows 10 to 19")


# Inputs that change.


def changed(address, rows, by=0.5):
    """Other values in some rows of a view; sizes stay, times do not."""
    array = zarr.open_array(str(address), mode="r+")
    array[rows] = array[rows] + by


def not_sampled(job):
    """A row that is not among those by which the views are known."""
    sampled = np.unique(np.linspace(0, job.n - 1, 64).astype(int))
    return int(np.setdiff1d(np.arange(90, 120), sampled)[0])


class Killed(Exception):
    pass


def run_until(job, stage, client=None):
    """Run a job, and stop it when a stage begins."""

    def on_progress(name, done, blocks):
        if name == stage:
            raise Killed

    with pytest.raises(Killed):
        pipeline.run(job, client, on_progress)


@pytest.mark.each_value
@pytest.mark.parametrize("options", [KNN, TIME])
@pytest.mark.parametrize("stage", ["moments", "landmarks", "metric", "embedding"])
def test_an_input_that_changed_between_a_kill_and_the_resumption_is_refused(tmp_path, options, stage):
    job = small_job(tmp_path, recordings(2), 10, **options)
    run_until(job, stage)
    row = not_sampled(job)
    changed(job.sources[1].address, slice(row, row + 1))
    again = job_on(tmp_path / "run.zarr", job.sources, **options)
    assert again.inputs == job.inputs  # by its sampled rows it is the same input
    with pytest.raises(DataError, match=r"view 'view 2' .* rows 80 to 119 .* --from scan"):
        pipeline.run(again)
    runner.forget(job.address, "scan")
    pipeline.run(again)
    clean = job_on(tmp_path / "clean.zarr", job.sources, **options)
    pipeline.run(clean)
    np.testing.assert_array_equal(embedding(again), embedding(clean))


def test_a_change_that_keeps_sizes_and_times_is_found_when_a_block_is_read(tmp_path):
    job = small_job(tmp_path, recordings(2), 10, **KNN)
    run_until(job, "near")
    row = not_sampled(job)
    place = tmp_path / f"view2.zarr/c/{row // 10}/0"
    before = os.stat(place)
    changed(job.sources[1].address, slice(row, row + 1))
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match=r"view 'view 2' .* rows 80 to 119 .* --from scan"):
        pipeline.run(job)


@pytest.mark.parametrize("stage", repeats.first(1, ["kernel", "near", "checks"]))
def test_an_input_that_changes_while_a_run_goes_on_is_refused(tmp_path, stage):
    job = small_job(tmp_path, recordings(2), 10, **KNN)
    row, done = not_sampled(job), []

    def on_progress(name, finished, blocks):
        if name == stage and not done:
            changed(job.sources[0].address, slice(row, row + 1))
            done.append(name)

    with pytest.raises(DataError, match=r"view 'view 1' .* rows 80 to 119 .* --from scan"):
        pipeline.run(job, on_progress=on_progress)


def test_an_input_that_was_copied_and_has_other_times_is_still_the_same(tmp_path):
    job = small_job(tmp_path, recordings(2), 10, **KNN)
    run_until(job, "near")
    for place in (tmp_path / "view1.zarr").rglob("*"):
        os.utime(place, ns=(10**18, 10**18))
    record = tmp_path / "run.zarr/stages/scan/inputs.json"
    before = record.read_bytes()
    pipeline.run(job)
    after = record.read_bytes()
    assert after != before
    pipeline.run(job)
    assert record.read_bytes() == after
    clean = job_on(tmp_path / "clean.zarr", job.sources, **KNN)
    pipeline.run(clean)
    np.testing.assert_array_equal(embedding(job), embedding(clean))


def test_a_finished_run_is_not_taken_for_that_of_a_changed_input(folder):
    from dlcca.settings import runfile

    asked = runfile.read(folder / "run.toml")
    prepared = runner.prepared(asked.store, asked.views, asked.settings, asked.seed)
    runner.run(*prepared)
    assert verification.look(asked.store).damages == {}
    assert verification.look(asked.store).strangers == []
    row = not_sampled(prepared[0])
    changed(folder / "left.zarr", slice(row, row + 1))
    refused = dlcca("run", folder / "run.toml")
    assert refused.exit_code == 3, refused.output
    said = " ".join(refused.stderr.split())
    assert "view 'left'" in said
    assert "--from scan" in said


def test_a_block_that_was_not_read_yet_may_change(tmp_path):
    job = small_job(tmp_path, recordings(2), 10, **KNN)
    stage = scan.SCAN.of(job).prepare({}, says="")
    confirm(job)
    scan.compute(job, stage, 0)
    row = not_sampled(job)
    changed(job.sources[0].address, slice(row, row + 1))
    pipeline.run(job)
    clean = job_on(tmp_path / "clean.zarr", job.sources, **KNN)
    pipeline.run(clean)
    np.testing.assert_array_equal(embedding(job), embedding(clean))


def test_new_rows_that_changed_between_a_kill_and_the_resumption_are_refused(tmp_path):
    views = recordings(2)
    LocalCCA(random_state=0, **TIME).fit(views).save(tmp_path / "model.zarr")
    sources = {source.name: source for source in written(tmp_path, views, 10)}
    job = transform.prepared(str(tmp_path / "new.zarr"), str(tmp_path / "model.zarr"), sources)
    job = replace(job, rows=40)

    def on_progress(name, finished, blocks):
        if finished == 3:
            raise Killed

    with pytest.raises(Killed):
        transform.run(job, on_progress=on_progress)
    changed(sources["view 2"].address, slice(95, 96))
    with pytest.raises(DataError, match=r"view 'view 2' .* rows 80 to 119 "):
        transform.run(job)


def test_finished_coordinates_are_not_taken_for_those_of_changed_rows(tmp_path):
    views = recordings(2)
    LocalCCA(random_state=0, **TIME).fit(views).save(tmp_path / "model.zarr")
    sources = {source.name: source for source in written(tmp_path, views, 10)}
    job = transform.prepared(str(tmp_path / "new.zarr"), str(tmp_path / "model.zarr"), sources)
    header = transform.run(job)
    assert transform.run(job) == header
    changed(sources["view 2"].address, slice(95, 96))
    with pytest.raises(DataError, match=r"view 'view 2' has changed .* into another store"):
        transform.run(transform.prepared(str(tmp_path / "new.zarr"), str(tmp_path / "model.zarr"), sources))


@pytest.mark.cluster
def test_workers_compare_the_input_too_and_forget_what_was_made_of_another(tmp_path):
    job = small_job(tmp_path, recordings(2), 10, **KNN)
    with local_client(workers=1) as client:
        pipeline.run(job, client)
        for place in (tmp_path / "view1.zarr/c").rglob("0"):
            os.utime(place, ns=(10**18, 10**18))
        pipeline.run(job, client)
        changed(job.sources[0].address, slice(not_sampled(job), not_sampled(job) + 1))
        with pytest.raises(DataError, match=r"view 'view 1' has changed in rows 80 to 119"):
            pipeline.run(job, client)
        runner.forget(job.address, "scan")
        pipeline.run(job, client)
    clean = job_on(tmp_path / "clean.zarr", job.sources, **KNN)
    pipeline.run(clean)
    np.testing.assert_array_equal(embedding(job), embedding(clean))


def test_links_to_chunks_are_followed(tmp_path):
    (source, _) = written(tmp_path, recordings(2), 10)
    (tmp_path / "view1.zarr/c").rename(tmp_path / "elsewhere")
    (tmp_path / "view1.zarr/c").symlink_to(tmp_path / "elsewhere")
    assert source.check_complete() == ""
    (tmp_path / "elsewhere/3/0").unlink()
    with pytest.raises(DataError, match="1 of 15 chunks"):
        source.check_complete()


def test_of_a_web_server_chunks_cannot_be_counted_and_that_is_noted(tmp_path):
    pytest.importorskip("aiohttp", reason="fsspec reads from web servers with aiohttp")
    written(tmp_path, recordings(2), 10)
    handler = functools.partial(SilentFiles, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sources = [Source(f"view {v}", f"http://127.0.0.1:{server.server_port}/view{v}.zarr") for v in (1, 2)]
        assert "cannot be counted" in sources[0].check_complete()
        job = job_on(tmp_path / "run.zarr", tuple(sources), **KNN)
        jobs.run_until(job, "moments")
        changed(tmp_path / "view1.zarr", slice(not_sampled(job), not_sampled(job) + 1))
        with pytest.raises(DataError, match=r"view 'view 1' has changed in rows 80 to 119"):
            pipeline.run(job)
        server.shutdown()


class SilentFiles(http.server.SimpleHTTPRequestHandler):
    """Files without a line for each request."""

    def log_message(self, *_):
        pass


def ingestion(folder, path):
    """Ingesting a recording in blocks of ten windows."""
    recipes = {"a": ViewRecipe.of({"source": [str(path)], "window_s": 0.2}, "a test")}
    job, line = ingest.prepared(str(folder / "views.zarr"), recipes, open_recording)
    return replace(job, rows=10), line


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["zarr", "npy"])
@pytest.mark.parametrize("when", ["between", "during"])
def test_a_recording_that_changes_before_it_is_ingested_is_refused(tmp_path, kind, when):
    X, path = np.random.default_rng(0).standard_normal((1000, 3)), tmp_path / f"x.{kind}"
    if kind == "zarr":
        laid(path, X, (50, 3), attributes={"rate": 50.0})
    else:
        np.savez(tmp_path / "x.npz", x=X, x_fs=50.0)
        path = tmp_path / "x.npz"
    job, line = ingestion(tmp_path, path)

    def change():
        Y = X.copy()
        Y[700:710] += 1
        if kind == "zarr":
            changed(path, slice(700, 710))
        else:
            np.savez(path, x=Y, x_fs=50.0)
            os.utime(path, ns=(10**18, 10**18))

    def on_progress(name, done, blocks):
        if name == "drafts" and done == 3:
            if when == "between":
                raise Killed
            change()

    if when == "between":
        with pytest.raises(Killed):
            ingest.run(job, line, on_progress=on_progress)
        change()
        with pytest.raises((DataError, StaleStage), match=r"x\.zarr.* has changed|from other files"):
            ingest.run(*ingestion(tmp_path, path))
    else:
        with pytest.raises(DataError, match=r"x\.(zarr|npz).* has changed"):
            ingest.run(job, line, on_progress=on_progress)

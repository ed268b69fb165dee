"""Views and runs in object storage: a server of our own on loopback, and the same answers as on a disk."""

import json
import os
import pickle
import socket
from unittest import mock

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import simulate
from dlcca.cli import app
from dlcca.errors import DamagedBlock, DataError, StorageError
from dlcca.fitting import embed, pipeline, runner
from dlcca.fitting.job import Source
from dlcca.recordings.formats import open_recording
from dlcca.storage import retry
from dlcca.storage.blocks import Blocks
from dlcca.storage.files import files_at, zarr_store
from tests.fitting.jobs import KNN, job_on, recordings, run_until, written
from tests.storage.buckets import SECRET, objects, sent, storage
from tests.support import doc_pages

fsspec = pytest.importorskip("fsspec", reason="object storage needs fsspec")
pytest.importorskip("s3fs", reason="object storage needs s3fs: pip install 'dlcca[s3]'")
NOBODY = "http://127.0.0.1:9"  # the port of `discard`, where nothing listens


@pytest.fixture
def unreachable(bucket, monkeypatch):
    """As `bucket`, but with an endpoint that nobody answers at, by fsspec's own configuration."""
    monkeypatch.setenv(retry.VARIABLE, "0")
    once = {"retries": {"total_max_attempts": 1}}
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": NOBODY, "config_kwargs": once})
    return bucket


def flip(name):
    fs = storage()
    content = bytearray(fs.cat_file(name))
    content[5] ^= 4
    fs.pipe_file(name, bytes(content))


def test_small_files_are_put_got_listed_and_removed(bucket):
    files = files_at(bucket)
    assert files.get("stages/a/stage.json") is None
    assert files.names("stages/a/done") == []
    files.put("stages/a/done/00001.json", b"one")
    files.put("stages/a/done/00000.json", b"zero")
    files.put("stages/a/done/00001.json", b"one again")
    files.put("stages/a/stage.json", b"{}")
    files.put("stages/ab/stage.json", b"{}")
    assert files.get("stages/a/done/00001.json") == b"one again"
    assert files.names("stages/a/done") == ["00000.json", "00001.json"]
    assert files.size() == 17
    storage().rm_file(f"{bucket}/stages/a/done/00000.json")  # by someone else: nothing is remembered here
    assert files.names("stages/a/done") == ["00001.json"]
    files.remove("stages/a")
    files.remove("stages/a")
    assert files.names("stages/a/done") == []
    assert files.get("stages/ab/stage.json") == b"{}"


def test_a_stage_comes_back_as_it_was_and_damage_is_found(bucket):
    arrays = {"plain": ((10, 2), "float64", 4)}
    stage = Blocks(f"{bucket}/run.zarr", "metric", "f", 3).prepare(arrays, says="ten rows")
    X = np.random.default_rng(0).uniform(1, 2, (10, 2))
    for block in (2, 0):
        stage.write(block, {"plain": (4 * block, X[4 * block : 4 * block + 4])}, {"block": block})
    again = Blocks(f"{bucket}/run.zarr", "metric", "f", 3).prepare(arrays, says="ten rows")
    assert again.missing() == [1]
    again.write(1, {"plain": (4, X[4:8])}, {"block": 1})
    np.testing.assert_array_equal(stage.read_all("plain"), X)
    assert stage.facts(2) == {"block": 2}
    assert stage.check() == []
    chunks = f"{bucket}/run.zarr/stages/metric/plain/c"
    flip(f"{chunks}/1/0")
    storage().rm_file(f"{chunks}/2/0")
    for block in (1, 2):
        with pytest.raises(DamagedBlock, match=rf"block {block} of 'plain' in stage 'metric' of s3://.* --from metric"):
            stage.read("plain", block)
    assert len(stage.check()) == 2
    np.testing.assert_array_equal(stage.read("plain", 0), X[:4])
    flip(f"{bucket}/run.zarr/stages/metric/done/00000.json")
    with pytest.raises(DamagedBlock, match="the record of block 0"):
        stage.facts(0)


@pytest.mark.slow
def test_a_run_is_the_same_to_the_bit_as_on_a_disk_and_is_resumed_by_block(bucket, tmp_path, monkeypatch):
    views = recordings(2)
    here = job_on(tmp_path / "run.zarr", written(tmp_path, views, 50), **KNN)
    pipeline.run(here)
    sent(bucket, {"view1": views[0], "view2": views[1]}, 50)
    sources = tuple(Source(f"view {v}", f"{bucket}/view{v}.zarr") for v in (1, 2))
    there = job_on(f"{bucket}/run.zarr", sources, **KNN)
    assert there.inputs == here.inputs
    pipeline.run(there)
    expected = zarr.open_array(str(tmp_path / "run.zarr/embedding"), mode="r")[...]
    result = zarr.open_array(zarr_store(f"{bucket}/run.zarr"), path="embedding", mode="r")
    np.testing.assert_array_equal(result[...], expected)

    before = objects(f"{bucket}/run.zarr")
    computed = []
    write = Blocks.write

    def counting(stage, block, parts, facts):
        computed.append((stage.name, block))
        write(stage, block, parts, facts)

    monkeypatch.setattr(Blocks, "write", counting)
    pipeline.run(there)
    assert computed == []
    assert objects(f"{bucket}/run.zarr") == before
    storage().rm_file(f"{bucket}/run.zarr/stages/metric/done/00000.json")
    pipeline.run(there)
    assert computed == [("metric", 0)]
    assert embed.model_of(there).names == embed.model_of(here).names
    runner.forget(f"{bucket}/run.zarr", "coordinates")
    assert [stage.name for stage in runner.progress(f"{bucket}/run.zarr")][-1] == "readout"


def test_a_missing_bucket_is_an_error_that_names_the_address(bucket):
    files = files_at("s3://no-such-bucket/run.zarr")
    for ask in (lambda: files.get("a"), lambda: files.names("a"), lambda: files.put("a", b"")):
        with pytest.raises(StorageError, match=r"s3://no-such-bucket/run\.zarr/a cannot be .*: the bucket does not"):
            ask()
    with pytest.raises(StorageError, match=r"s3://no-such-bucket/view\.zarr.* the bucket does not exist"):
        Source("left", "s3://no-such-bucket/view.zarr").open()
    with pytest.raises(StorageError, match=r"view 'left': no Zarr array can be opened at s3://recordings/"):
        Source("left", f"{bucket}/nothing.zarr").open()


def test_an_endpoint_that_does_not_answer_is_an_error_and_tells_nothing_of_it(unreachable):
    files = files_at(unreachable)
    for ask in (
        lambda: files.get("a"),
        lambda: files.names("a"),
        lambda: files.put("a", b""),
        lambda: files.remove("a"),
        lambda: Source("left", unreachable).open(),
        lambda: Blocks(unreachable, "metric", "f", 1).prepare({}, says=""),
        lambda: Blocks(unreachable, "metric", "f", 1).write(0, {"plain": (0, np.ones((2, 2)))}, {}),
    ):
        with pytest.raises(StorageError, match=r"s3://recordings/.*its endpoint does not answer") as caught:
            ask()
        assert NOBODY not in str(caught.value)
        assert SECRET not in str(caught.value)
    for verb in ("status", "verify", "report"):
        told = CliRunner().invoke(app, [verb, unreachable])
        assert told.exit_code == 4
        assert f"{unreachable}/" in told.stderr


def test_an_endpoint_that_takes_the_request_and_is_silent_is_told_too(bucket, monkeypatch):
    monkeypatch.setenv(retry.VARIABLE, "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bounds = {"read_timeout": 0.2, "retries": {"total_max_attempts": 1}}
        configured = {"endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}", "config_kwargs": bounds}
        monkeypatch.setitem(fsspec.config.conf, "s3", configured)
        for ask in (lambda: files_at(bucket).get("a"), lambda: Source("left", bucket).open()):
            with pytest.raises(StorageError, match=r"s3://recordings/.* does not answer"):
                ask()


def test_missing_chunks_of_a_view_in_a_bucket_are_refused_with_one_listing(bucket, tmp_path, monkeypatch):
    views = recordings(2)
    sent(bucket, {"view1": views[0], "view2": views[1]}, 10)
    storage().rm_file(f"{bucket}/view2.zarr/c/3/0")
    sources = [Source(f"view {v}", f"{bucket}/view{v}.zarr") for v in (1, 2)]
    assert sources[0].check_complete() == ""
    calls = []
    fs = type(files_at(bucket).fs)
    monkeypatch.setattr(fs, "_find", counting(fs._find, calls))
    monkeypatch.setattr(fs, "_info", counting(fs._info, calls))
    with pytest.raises(DataError, match=r"view 'view 2': 1 of 15 chunks \(7 %\) of s3://.*rows 30 to 39\."):
        sources[1].check_complete()
    assert len(calls) <= 3  # one for the listing, and what Zarr asks to open the array
    filled = Source("view 2", f"{bucket}/view2.zarr", missing_chunks="fill")
    assert "1 of 15 chunks" in filled.check_complete()


def test_a_view_in_a_bucket_that_changed_since_a_run_was_stopped_is_refused(bucket, tmp_path):
    views = recordings(2)
    sent(bucket, {"view1": views[0], "view2": views[1]}, 10)
    sources = tuple(Source(f"view {v}", f"{bucket}/view{v}.zarr") for v in (1, 2))
    job = job_on(tmp_path / "run.zarr", sources, **KNN)
    run_until(job, "moments")
    row = next(row for row in range(90, 120) if row not in np.linspace(0, job.n - 1, 64).astype(int))
    array = zarr.open_array(zarr_store(f"{bucket}/view2.zarr"), mode="r+")
    array[row] = array[row] + 1
    again = job_on(tmp_path / "run.zarr", sources, **KNN)
    assert again.inputs == job.inputs
    with pytest.raises(DataError, match=r"view 'view 2' has changed in rows 80 to 119 .* --from scan"):
        pipeline.run(again)
    array[row] = views[1][row]  # as it was; its chunk may have another ETag
    run_until(again, "moments")


def counting(function, calls):
    async def counted(*args, **kwargs):
        calls.append(function.__name__)
        return await function(*args, **kwargs)

    return counted


def test_a_recording_in_a_bucket_is_read_as_one_on_a_disk(bucket, tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 3))
    for address in (bucket, str(tmp_path)):
        sent(address, {"x": X}, 7, rate=50.0, channels=["a", "b", "c"])
    there, here = (open_recording(f"{address}/x.zarr") for address in (bucket, tmp_path))
    (signal,), (expected,) = there.signals, here.signals
    assert (
        (signal.rate, signal.names, signal.n)
        == (expected.rate, expected.names, expected.n)
        == (50, ["a", "b", "c"], 60)
    )
    np.testing.assert_array_equal(signal.read(5, 40, [2, 0]), expected.read(5, 40, [2, 0]))
    sent_to_a_worker = pickle.loads(pickle.dumps(signal))
    np.testing.assert_array_equal(sent_to_a_worker.read(0, 60, [0, 1, 2]), X)


def test_a_recording_that_is_not_there_is_told_from_a_storage_that_does_not_serve(bucket, monkeypatch):
    with pytest.raises(DataError, match=r"s3://recordings/.*nothing\.zarr' cannot be read as Zarr"):
        open_recording(f"{bucket}/nothing.zarr")
    with pytest.raises(StorageError, match="the bucket does not exist"):
        open_recording("s3://no-such-bucket/x.zarr")
    sent(bucket, {"x": np.ones((60, 3))}, 7, rate=50.0)
    (signal,) = open_recording(f"{bucket}/x.zarr").signals
    monkeypatch.setenv(retry.VARIABLE, "0")
    once = {"retries": {"total_max_attempts": 1}}
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": NOBODY, "config_kwargs": once})
    for ask in (lambda: open_recording(f"{bucket}/x.zarr"), lambda: pickle.loads(pickle.dumps(signal)).read(0, 9, [0])):
        with pytest.raises(StorageError, match="its endpoint does not answer"):
            ask()


def test_missing_credentials_are_told(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setitem(
        fsspec.config.conf, "s3", {"default_block_size": 2**20}
    )  # so that it is not the one from before
    with pytest.raises(StorageError, match=r"s3://recordings/.* no credentials are set"):
        files_at(bucket).get("a")


def test_a_run_that_is_not_there_is_told_from_one_that_cannot_be_reached(bucket):
    told = CliRunner().invoke(app, ["status", f"{bucket}/run.zarr"])
    assert told.exit_code == 3
    assert f"there is no run at {bucket}/run.zarr" in told.stderr


PAGE = doc_pages.ROOT / "docs/how-to/object-storage.md"
#: To be added to the run file of the page, which leaves all this to itself.
SMALL = """
[landmarks]
count = 150

[neighborhoods]
kind = "knn"
n_neighbors = 40

[cluster]
workers = 1
memory_gib = 2
"""


@pytest.mark.slow
@pytest.mark.cluster
def test_the_page_on_object_storage_runs_and_its_run_is_resumed_by_block(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded, results, store = "lab-recordings", "lab-results", "s3://lab-results/monday/run.zarr"
    for name in (recorded, results):
        storage().mkdir(name)
    views, _truth = simulate.torus(1500, common="big", random_state=0)
    sent(f"s3://{recorded}/monday", dict(zip(("left", "right"), views, strict=True)), 400)
    (shown,) = [block.text for block in doc_pages.blocks(PAGE) if block.language == "toml"]
    (tmp_path / "run.toml").write_text(shown + SMALL)
    with mock.patch.dict(os.environ):  # what the page exports is forgotten
        doc_pages.do(PAGE)
    assert (tmp_path / "monday.html").exists()

    def dlcca(*arguments):
        told = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert told.exit_code == 0, told.output
        assert SECRET not in told.output
        return told

    before = objects(f"{store}/stages")
    assert before
    embedding = zarr.open_group(zarr_store(store), mode="r")["embedding"][...]
    assert json.loads(dlcca("run", "run.toml", "--json").stdout)["n_common"] == 1
    assert objects(f"{store}/stages") == before
    deleted = f"{store}/stages/kernel/done/00001.json"
    assert deleted.removeprefix("s3://") in before
    storage().rm_file(deleted)
    dlcca("run", "run.toml", "--quiet")
    after = objects(f"{store}/stages")
    assert after.keys() == before.keys()
    changed = {name.partition("/stages/")[2] for name in after if after[name] != before[name]}
    assert "kernel/done/00001.json" in changed
    assert all(name.startswith("kernel/") for name in changed)
    dlcca("run", "run.toml", "--from", "spectrum", "--quiet")
    np.testing.assert_array_equal(zarr.open_group(zarr_store(store), mode="r")["embedding"][...], embedding)
    status = json.loads(dlcca("status", store, "--json").stdout)
    assert status["shapes"]["embedding"] == [1500, 2]
    assert status["bytes"] == sum(about["size"] for about in storage().find(store, detail=True).values())
    for name in storage().find(results):
        content = storage().cat_file(name)
        assert SECRET.encode() not in content
        assert b"127.0.0.1" not in content
    flip(next(name for name in storage().find(f"{store}/stages/kernel/distances_0/c")))
    damaged = CliRunner().invoke(app, ["verify", store])
    assert damaged.exit_code == 3
    assert "distances_0" in damaged.stderr

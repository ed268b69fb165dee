"""Object storage on a bad day: requests that fail, are slow or break off, and a storage that is gone for a while."""

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import SettingsError, StorageError
from dlcca.storage import retry
from dlcca.storage.files import files_at, zarr_store
from tests.fitting.jobs import recordings
from tests.storage.buckets import SECRET, sent, storage
from tests.storage.flaky_server import FAULTS, FlakyServer, schedule
from tests.support import fork_server

fsspec = pytest.importorskip("fsspec", reason="object storage needs fsspec")
pytest.importorskip("s3fs", reason="object storage needs s3fs: pip install 'dlcca[s3]'")

pytestmark = pytest.mark.faults


@pytest.fixture
def flaky(bucket, object_server, monkeypatch):
    """The server of `bucket` behind one that fails on demand; all of this process and its workers go through it."""
    monkeypatch.setattr(retry, "_record", retry._Record())
    monkeypatch.setattr(retry, "PAUSES_S", (0.05, 1.0))
    with FlakyServer(object_server, faulty=False) as server, fork_server.not_used():
        configured = {"endpoint_url": server.url, "config_kwargs": {"read_timeout": 1}}
        monkeypatch.setitem(fsspec.config.conf, "s3", configured)
        monkeypatch.setenv("FSSPEC_S3", json.dumps(configured))  # for the workers
        yield server


def asked_once(monkeypatch):
    """Without the help of botocore, which would hide a single fault from us."""
    configured = fsspec.config.conf["s3"]
    once = {**configured["config_kwargs"], "retries": {"total_max_attempts": 1}}
    monkeypatch.setitem(fsspec.config.conf, "s3", {**configured, "config_kwargs": once})


def test_one_of_so_many_requests_fails_and_every_kind_as_often():
    faults = [fault for fault, _ in zip(schedule(20, seed=1), range(20 * 80), strict=False)]
    assert sum(fault is not None for fault in faults) == 80
    assert {faults.count(kind) for kind in FAULTS} == {10}


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_happens_to_a_request_the_operation_is_done(flaky, bucket, monkeypatch, fault):
    asked_once(monkeypatch)
    files, content = files_at(bucket), bytes(range(256)) * 40
    group = zarr.create_group(zarr_store(f"{bucket}/b"))
    X = np.arange(40.0).reshape(20, 2)
    array = group.create_array("array", shape=X.shape, dtype=X.dtype, chunks=(20, 2))

    def faulty(do):
        """What comes of it when its first two requests meet the fault: aiohttp itself repeats one that is cut off."""
        flaky.plan = iter([fault] if fault in ("slow", "silent") else [fault, fault])
        answer = do()
        assert next(flaky.plan, None) is None
        return answer

    faulty(lambda: files.put("a/one.json", content))
    assert faulty(lambda: files.get("a/one.json")) == content
    faulty(lambda: array.__setitem__(slice(None), X))
    np.testing.assert_array_equal(faulty(lambda: array[:]), X)
    if fault != "silent":  # of which each takes a second
        assert faulty(lambda: files.names("a")) == ["one.json"]
        assert faulty(files.size) > len(content)
        assert faulty(lambda: list(group.keys())) == ["array"]
        faulty(lambda: files.remove("a"))
        assert files.names("a") == []
    assert (retry.retries() == 0) == (fault == "slow")


def test_what_will_not_change_is_not_asked_again(flaky, bucket):
    with pytest.raises(StorageError, match="the bucket does not exist"):
        files_at("s3://no-such-bucket/run.zarr").names("a")
    assert files_at(bucket).get("nothing") is None
    assert retry.retries() == 0


def test_objects_that_the_storage_did_not_remove_are_removed_in_the_end(flaky, bucket, monkeypatch):
    files = files_at(bucket)
    for name in ("stage.json", "done/0.json", "done/1.json"):
        files.put(f"stages/a/{name}", b"{}")
    refused = iter(["0.json"])
    delete = type(files.fs)._bulk_delete

    async def leaves_one(fs, names, **options):
        """As s3fs does when the storage says of one object among many that it could not be removed."""
        kept = next(refused, None)
        return await delete(fs, [name for name in names if kept is None or not name.endswith(kept)], **options)

    monkeypatch.setattr(type(files.fs), "_bulk_delete", leaves_one)
    files.remove("stages/a")
    assert storage().find(f"{bucket}/stages") == []
    assert retry.retries() == 1


def test_a_storage_that_is_gone_is_given_up_in_time_and_told_once(flaky, bucket, monkeypatch, caplog):
    monkeypatch.setenv(retry.VARIABLE, "1")
    asked_once(monkeypatch)
    files = files_at(bucket)
    files.put("a", b"1")
    flaky.cut()
    with caplog.at_level(logging.WARNING, "dlcca.storage"), pytest.raises(StorageError) as told:
        files.get("a")
    assert "its endpoint does not answer" in str(told.value)
    assert "DLCCA_STORAGE_RETRY_S = 1" in str(told.value)
    assert "What is finished is kept" in str(told.value)
    assert retry.retries() >= 2
    (line,) = caplog.messages
    assert "cannot be read: its endpoint does not answer" in line
    assert "retried for up to 1 s" in line
    flaky.mend()
    assert files.get("a") == b"1"


def test_one_that_never_answered_is_given_up_sooner(flaky, bucket, monkeypatch):
    assert retry._Attempts("").limit_s == retry.FIRST_RETRY_S < retry.RETRY_S
    files = files_at(bucket)
    files.put("a", b"1")
    assert retry._Attempts("").limit_s == retry.RETRY_S
    monkeypatch.setenv(retry.VARIABLE, "0")
    flaky.cut()
    with pytest.raises(StorageError, match="its endpoint does not answer"):
        files.get("a")
    monkeypatch.delenv(retry.VARIABLE)
    assert retry._Attempts("").limit_s == retry.FIRST_RETRY_S


@pytest.mark.parametrize("said", ["a while", "-1", "nan", "inf"])
def test_a_retry_time_that_is_no_number_is_refused(monkeypatch, said):
    monkeypatch.setenv(retry.VARIABLE, said)
    with pytest.raises(SettingsError, match="a number of seconds is needed"):
        retry.retry_s()


RUN = """
[store]
path = "ADDRESS/run.zarr"
seed = 3

[views.left]
source = "ADDRESS/left.zarr"
window_s = 0.2

[views.right]
source = "ADDRESS/right.zarr"
window_s = 0.2

[landmarks]
count = 60

[neighborhoods]
window = 9

[cluster]
workers = 1
memory_gib = 2
"""


@pytest.fixture(scope="module")
def movements():
    """Two recordings of 2400 samples, which make two blocks of windows."""
    return dict(zip(("left", "right"), recordings(2, 2400), strict=True))


@pytest.fixture(scope="module")
def on_disk(movements, tmp_path_factory):
    """The embedding of a run on this machine's disk."""
    folder = tmp_path_factory.mktemp("disk")
    prepare(folder, str(folder), movements)
    dlcca("run", folder / "run.toml", "--quiet")
    return zarr.open_group(str(folder / "run.zarr"), mode="r")["embedding"][:]


def prepare(folder, address, movements):
    """Recordings at an address, and the run.toml of a run there."""
    sent(address, movements, 1000, rate=10.0)
    (folder / "run.toml").write_text(RUN.replace("ADDRESS", address))


def dlcca(*arguments, ends=(0, 5)):
    told = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert told.exit_code in ends, told.output
    assert SECRET not in told.output
    return told


def embedding_at(address):
    return zarr.open_group(zarr_store(f"{address}/run.zarr"), mode="r")["embedding"][:]


def finished(address):
    """The records of finished blocks."""
    return {name for name in storage().find(f"{address}/run.zarr") if "/done/" in name}


@pytest.mark.slow
@pytest.mark.cluster
def test_with_every_twentieth_request_failing_all_verbs_end_right(flaky, bucket, movements, on_disk, tmp_path, capfd):
    prepare(tmp_path, bucket, movements)
    flaky.faulty = True
    store = f"{bucket}/run.zarr"
    dlcca("ingest", tmp_path / "run.toml", "--quiet")
    dlcca("run", tmp_path / "run.toml", "--quiet")
    assert json.loads(dlcca("status", store, "--json").stdout)["shapes"]["embedding"] == [1200, 2]
    dlcca("verify", store)
    dlcca("report", store, "--out", tmp_path / "report.html")
    assert set(flaky.faults) == set(FAULTS)
    assert sum(flaky.faults.values()) >= flaky.requests // 20 - 1
    assert "retried for" in capfd.readouterr().err
    flaky.faulty = False
    np.testing.assert_allclose(embedding_at(bucket), on_disk, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_storage_that_is_gone_ends_a_run_which_goes_on_later_and_bears_it_for_a_while(
    flaky, bucket, movements, on_disk, tmp_path, monkeypatch
):
    prepare(tmp_path, bucket, movements)
    monkeypatch.setenv(retry.VARIABLE, "2")
    flaky.cut_at = "stages/gram/done/"
    command = [sys.executable, "-m", "dlcca", "run", str(tmp_path / "run.toml"), "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 4, ended.stderr
    (said,) = [line for line in ended.stderr.splitlines() if line.startswith("dlcca: ")]
    assert "its endpoint does not answer" in said
    assert "What is finished is kept: run again when the storage is available." in said

    flaky.mend()
    before = finished(bucket)
    assert any("/stages/metric/done/" in name for name in before)
    monkeypatch.setenv(retry.VARIABLE, "60")
    flaky.written.clear()
    flaky.cut_at, flaky.gone_s = "stages/coordinates/done/", 4.0
    dlcca("run", tmp_path / "run.toml", "--quiet")
    assert flaky.cut_at is None  # it was gone, and came back
    again = {name.strip("/") for name in flaky.written} & before
    assert again == set()
    np.testing.assert_allclose(embedding_at(bucket), on_disk, rtol=0, atol=1e-8)

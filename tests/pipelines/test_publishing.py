"""Days as readers see them, recordings of several files, and recordings in object storage."""

import json
import os
import threading
from datetime import timedelta
from pathlib import Path

import edfio
import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import zarr
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import StorageError
from dlcca.export import to_xarray
from dlcca.pipelines import embed, publish
from dlcca.pipelines.context import opened
from dlcca.storage import transformed
from tests.pipelines.nights import RATE, day_of, pipeline_file, recorded, run_night, sensors, start_of, write
from tests.storage.buckets import forget_storages
from tests.storage.object_server import ObjectServer

pytestmark = pytest.mark.slow


def dlcca(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_day_is_read_by_everyday_tools(tmp_path):
    file = pipeline_file(tmp_path, "[outputs]\nday_begins_h = 12\npage = ''\n")
    recorded(tmp_path, 1)
    after_midnight = start_of(1) + timedelta(hours=5)
    write(tmp_path / "incoming" / "late.edf", sensors(2)[0], after_midnight)
    assert run_night(file, 1).published == [day_of(1)]  # both are of one night
    place = tmp_path / "published" / "zarr" / f"{day_of(1)}.zarr"
    assert dlcca("verify", place).exit_code == 0
    assert (place / "reason" / "c" / "0").is_file()  # also a chunk of zeros, so that a lost one is noticed
    assert json.loads(dlcca("status", place, "--json").stdout)["samples"] == 1280
    made = to_xarray(place)
    assert made.time.values[0] == np.datetime64(start_of(1).replace(tzinfo=None))
    assert made.time.values[640] == np.datetime64(after_midnight.replace(tzinfo=None))
    rows = ds.dataset(tmp_path / "published" / "parquet", partitioning="hive").to_table().to_pandas()
    assert set(rows["date"]) == {day_of(1)}
    assert rows.groupby("file").size().to_dict() == {"late.edf": 640, "night-01-0.edf": 640}
    np.testing.assert_array_equal(rows[["c1", "c2"]].to_numpy(), made.embedding.values)
    told = dlcca("pipeline", "status", file)
    assert "Model 1 of" in told.output
    assert f"1 day is published, {day_of(1)} to {day_of(1)}, 1280 rows." in told.output
    history = dlcca("pipeline", "history", file, "--file", "late.edf", "--kind", "done")
    assert len(history.output.splitlines()) == 1
    assert dlcca("pipeline", "run", file, "--quiet").output == ""
    assert json.loads(dlcca("pipeline", "retain", file, "--dry-run", "--json").stdout)["exit_code"] == 0
    back = dlcca("pipeline", "rollback", file)
    assert (back.exit_code, "there is none to roll back to" in back.output) == (2, True)
    assert dlcca("pipeline", "backfill", file, "--from", "yesterday").exit_code == 2


def test_a_day_waits_for_a_recording_that_could_not_be_stored_but_not_for_ever(tmp_path, monkeypatch):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    recorded(tmp_path, 2)
    recorded(tmp_path, 2, 1)
    ingest = embed.ingest

    def failing(flow, recording):
        if recording["id"] == 3:
            raise OSError(5, "Input/output error")
        return ingest(flow, recording)

    monkeypatch.setattr(embed, "ingest", failing)
    for night in (2, 3):
        summary = run_night(file, night)
        assert (summary.exit_code, summary.published) == (4, [])
    given_up = run_night(file, 4)
    assert (given_up.exit_code, given_up.published) == (4, [day_of(2)])
    monkeypatch.undo()
    mended = run_night(file, 5)
    assert (mended.exit_code, mended.published, len(mended.done)) == (0, [day_of(2)], 1)
    assert zarr.open_group(str(tmp_path / f"published/zarr/{day_of(2)}.zarr"))["time"].shape == (1280,)


def test_what_somebody_removed_is_published_again_and_a_day_without_recordings_is_withdrawn(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    (tmp_path / f"published/parquet/date={day_of(1)}/rows.parquet").unlink()
    assert run_night(file, 2).published == [day_of(1)]
    recorded(tmp_path, 4, name="night-01-0.edf")  # the same name, and another day
    summary = run_night(file, 3)
    assert summary.published == [day_of(1), day_of(4)]
    assert [path.name for path in (tmp_path / "published/zarr").glob("*.zarr")] == [f"{day_of(4)}.zarr"]
    assert not (tmp_path / f"published/parquet/date={day_of(1)}/rows.parquet").exists()
    with opened(file) as flow:
        assert flow.catalog.value("SELECT count(*) FROM history WHERE kind = 'withdrawn'") == 1
        assert publish.due(flow) == []


def test_a_result_that_was_damaged_since_is_made_again_and_never_published(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    (chunk,) = (tmp_path / "state" / "results").glob("*/embedding/c/0/0")
    chunk.write_bytes(chunk.read_bytes()[:-3] + b"xyz")
    recorded(tmp_path, 1, 1)  # a late one of the same day, which is published with it
    before = zarr.open_group(str(tmp_path / f"published/zarr/{day_of(1)}.zarr"))["embedding"][:]
    summary = run_night(file, 2)
    assert (summary.exit_code, summary.published) == (4, [])
    assert "is damaged" in summary.troubles[0]
    np.testing.assert_array_equal(
        zarr.open_group(str(tmp_path / f"published/zarr/{day_of(1)}.zarr"))["embedding"][:], before
    )
    for column in (tmp_path / "state" / "views").glob("000001*/views/left/c/0/0"):
        column.write_bytes(b"and its views besides")
    mended = run_night(file, 3)
    assert (mended.exit_code, mended.published, len(mended.done)) == (0, [day_of(1)], 1), mended.lines()
    after = zarr.open_group(str(tmp_path / f"published/zarr/{day_of(1)}.zarr"))["embedding"][:]
    np.testing.assert_array_equal(after[:640], before)


def test_readers_see_a_day_before_or_after_and_never_half_of_it(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    place, table = tmp_path / f"published/zarr/{day_of(1)}.zarr", tmp_path / f"published/parquet/date={day_of(1)}"
    opened_before = to_xarray(place)  # lazy: nothing of it has been read
    over, seen, troubles = threading.Event(), set(), []

    def read_on():
        while not over.wait(0.02):  # leaves the others some of the processor
            try:
                rows = pq.read_table(table / "rows.parquet", partitioning=None)
                seen.add(("parquet", rows.num_rows, len(set(rows["file"].to_pylist()))))
                assert set(transformed.damages(str(place)).values()) == {None}
            except Exception as error:
                troubles.append(error)

    reader = threading.Thread(target=read_on)
    reader.start()
    try:
        for part in (1, 2):
            recorded(tmp_path, 1, part)
            assert run_night(file, 1 + part).published == [day_of(1)]
    finally:
        over.set()
        reader.join(60)
    assert troubles == []
    assert seen <= {("parquet", 640 * n, n) for n in (1, 2, 3)}
    assert len(seen) > 1  # it was reading while days changed
    assert opened_before.embedding.values.shape == (640, 2)
    assert np.isfinite(opened_before.embedding.values).all()
    assert to_xarray(place).embedding.shape == (1920, 2)


def test_something_of_somebody_else_is_not_replaced(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    theirs = tmp_path / "published" / "zarr" / f"{day_of(1)}.zarr"
    theirs.mkdir(parents=True)
    (theirs / "notes.txt").write_text("mine")
    summary = run_night(file, 1)
    assert summary.exit_code == 4
    assert "is not a link made by this pipeline" in summary.troubles[0]
    assert (theirs / "notes.txt").read_text() == "mine"


def test_a_recording_may_be_of_two_files_with_a_day_in_their_name(tmp_path):
    file = pipeline_file(tmp_path, sources="companions = '*_right.edf'\nday_pattern = '(\\d{4})(\\d\\d)(\\d\\d)_'")
    text = file.read_text().replace("incoming/*.edf", "incoming/*_left.edf")
    text = text.replace("[views.left]\n", "[views.left]\nsource = '*_left.edf'\n")
    file.write_text(text.replace("[views.right]\n", "[views.right]\nsource = '*_right.edf'\n"))
    X, z = sensors(1)
    for side, columns in (("left", range(3)), ("right", range(3, 6))):
        signals = [
            edfio.EdfSignal(X[:, c], RATE, label=f"{side[0].upper()}{i + 1}", physical_dimension="uV")
            for i, c in enumerate(columns)
        ]
        edfio.Edf(signals).write(tmp_path / "incoming" / f"20220304_{side}.edf")
    summary = run_night(file, 1)
    assert summary.published == ["2022-03-04"]
    embedding = zarr.open_group(str(tmp_path / "published/zarr/2022-03-04.zarr"))["embedding"][:, 0]
    assert abs(np.corrcoef(embedding, z.reshape(-1, 4).mean(axis=1))[0, 1]) > 0.95


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """An address in object storage that is served from this machine."""
    pytest.importorskip("moto.server", reason="the server of these tests is moto: pip install 'moto[server]'")
    fsspec = pytest.importorskip("fsspec")
    with ObjectServer() as (host, port):
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": str(tmp_path / "none"),
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        }.items():
            monkeypatch.setenv(name, value)
        forget_storages()
        fs = fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True)
        fs.mkdir("nights")
        yield fs
    forget_storages()


def test_recordings_in_object_storage_are_embedded_once_as_well(tmp_path, bucket):
    file = pipeline_file(tmp_path)
    file.write_text(file.read_text().replace("incoming/*.edf", "s3://nights/ward-7/**/*.edf"))
    for path in (recorded(tmp_path, 1), recorded(tmp_path, 2)):
        bucket.put_file(str(path), f"nights/ward-7/deep/{path.name}")
    bucket.pipe_file("nights/ward-7/notes.txt", b"no recording")
    summary = run_night(file, 1)
    assert summary.exit_code == 0, summary.lines()
    assert [path.rsplit("/", 1)[-1] for path in summary.done] == ["night-01-0.edf", "night-02-0.edf"]
    assert summary.published == [day_of(1), day_of(2)]
    assert list((tmp_path / "state").glob("work/*")) == []  # no copy is kept
    bucket.copy("nights/ward-7/deep/night-02-0.edf", "nights/ward-7/again.edf")
    again = run_night(file, 2)
    assert ([Path(path).name for path in again.found.duplicates], again.done) == (["again.edf"], [])
    bucket.rm("nights/ward-7", recursive=True)
    assert run_night(file, 3).found.gone == 3
    bucket.rmdir("nights")
    with pytest.raises(StorageError, match=r"the bucket nights of .* no longer exists"):
        run_night(file, 4)
    other = pipeline_file(tmp_path / "other")
    other.write_text(other.read_text().replace("incoming/*.edf", "s3://knights/ward-7/*.edf"))
    done = dlcca("pipeline", "run", other)
    assert done.exit_code == 2
    assert "there is no bucket knights" in done.output
    assert os.path.exists(tmp_path / f"published/zarr/{day_of(1)}.zarr")

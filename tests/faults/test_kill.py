"""Runs that are killed, and recordings that are not as they should be."""

import functools
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

from dlcca.clusters.local import local_client
from dlcca.engine import work
from dlcca.errors import DataError, StaleStage, StorageError
from dlcca.fitting import pipeline, scan
from dlcca.fitting.job import Source
from dlcca.storage.blocks import Blocks
from tests.faults import killed_run
from tests.fitting.jobs import KNN, TIME, embedding, job_on, recordings, small_job, written
from tests.support import fork_server

pytestmark = pytest.mark.faults


@functools.cache
def whole_run():
    """The embedding of a run that nothing disturbed, and how many blocks each stage had, in the order of the stages."""
    blocks = Counter()
    write = Blocks.write

    def counting(stage, block, parts, facts):
        blocks[stage.name] += 1
        write(stage, block, parts, facts)

    with tempfile.TemporaryDirectory() as folder, patch.object(Blocks, "write", counting):
        job = small_job(Path(folder), recordings(2), 7, **KNN)
        pipeline.run(job)
        return embedding(job), dict(blocks)


def undisturbed():
    return whole_run()[0]


@pytest.fixture
def counted(monkeypatch):
    """Blocks written, by the name of their stage."""
    whole_run()  # not to be counted
    calls = Counter()
    write = Blocks.write

    def counting(stage, block, parts, facts):
        calls[stage.name] += 1
        write(stage, block, parts, facts)

    monkeypatch.setattr(Blocks, "write", counting)
    return calls


def killed_at(place, job):
    """Run the job in a process of its own, which is killed at a place."""
    run = fork_server.process(killed_run.until, place, job)
    run.start()
    run.join(300)
    assert run.exitcode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("stage", "block", "within"),
    [
        ("scan", 2, ""),
        ("landmarks", None, ""),
        ("landmarks", 0, "in "),
        ("near", 1, ""),
        ("near", 3, "in "),
        ("metric", 0, "in "),
        ("kernel", 2, "in "),
        ("bandwidth", 0, ""),
        ("gram", 2, ""),
        ("coordinates", 0, ""),
        ("embedding", None, ""),
        ("embedding", 3, "in "),
    ],
)
def test_a_killed_run_is_finished_by_the_next_which_computes_only_what_is_missing(
    stage, block, within, counted, tmp_path
):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    record = f"stages/{stage}/stage.json" if block is None else f"{within}stages/{stage}/done/{block:05d}.json"
    killed_at(record, job)
    pipeline.run(job)
    blocks = whole_run()[1]
    order = list(blocks)
    after = order[order.index(stage) + 1 :]
    assert counted == {stage: blocks[stage] - (block or 0), **{name: blocks[name] for name in after}}
    np.testing.assert_array_equal(embedding(job), undisturbed())


def test_a_run_killed_again_and_again_comes_to_its_end(counted, tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    assert whole_run()[1]["gram"] == 4
    for place in ("stages/scan/done/00001.json", "in stages/near/done/00002.json", "stages/gram/done/00003.json"):
        killed_at(place, job)
    pipeline.run(job)
    once = dict.fromkeys(("gram", "spectrum", "readout", "signs", "checks"), 1)
    assert counted == {**once, "coordinates": 4, "embedding": 4}
    np.testing.assert_array_equal(embedding(job), undisturbed())


@pytest.mark.cluster
def test_a_worker_that_is_killed_is_replaced_and_the_answer_is_the_same(tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())

        def kill_one(stage, done, _of):
            if stage == "near" and done == 1 and pids:
                os.kill(pids.pop(), signal.SIGKILL)

        pipeline.run(job, client, kill_one)
    np.testing.assert_array_equal(embedding(job), undisturbed())


def tell_and_die(log, stage, block):
    """Note a block, write it, and at the first time end this worker before it can say that it is done."""
    with open(log, "a") as file:
        file.write(f"{block}\n")
    stage.write(block, {}, {"block": block})
    died = Path(f"{log}.died")
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.cluster
def test_a_block_whose_worker_died_before_it_could_tell_is_not_computed_again(tmp_path):
    log, stage = tmp_path / "log", Blocks(str(tmp_path / "run.zarr"), "scan", "any", 4).prepare({}, says="nothing")
    with local_client(workers=1) as client:
        work.do_missing(tell_and_die, str(log), stage, client)
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3"]
    assert stage.missing() == []


def row_between_samples(n, near):
    """A row that `identity` does not look at."""
    looked_at = set(np.linspace(0, n - 1, 64).astype(int).tolist())
    return next(row for row in range(near, n) if row not in looked_at)


def with_a_gap(folder, value):
    """Sources of two views, the second with a value that is not finite, and its row."""
    views = recordings(2)
    row = row_between_samples(150, 100)
    mended = views[1][row, 2]
    views[1][row, 2] = value
    sources = written(folder, views, 7)
    mend = lambda: zarr.open_array(sources[1].address).__setitem__((row, 2), mended)  # noqa: E731
    return sources, row, mend


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gap_is_named_by_view_row_channel_and_block_and_what_is_finished_is_kept(value, counted, tmp_path):
    sources, row, mend = with_a_gap(tmp_path, value)
    job = job_on(tmp_path / "run.zarr", sources, **KNN)
    what = "NaN" if np.isnan(value) else "infinity"
    message = rf"view 'view 2' holds {what} in row {row}, channel 2 \(1 such entries in 1 row.*\(block 2\)"
    with pytest.raises(DataError, match=message):
        pipeline.run(job)
    assert scan.SCAN.of(job).missing() == [2, 3]
    mend()
    counted.clear()
    pipeline.run(job)
    assert counted["scan"] == 2
    np.testing.assert_array_equal(embedding(job), undisturbed())


def test_a_gap_found_by_a_worker_is_the_same_error_and_once_mended_the_same_client_finishes(tmp_path):
    sources, row, mend = with_a_gap(tmp_path, np.nan)
    job = job_on(tmp_path / "run.zarr", sources, **KNN)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        with pytest.raises(DataError, match=rf"view 'view 2' holds NaN in row {row}, channel 2 .*\(block 2\)") as error:
            pipeline.run(job, client)
        mend()
        pipeline.run(job, client)
        assert "block 2" in str(error.value)  # somebody still holds the error, and with it the failed task
    np.testing.assert_array_equal(embedding(job), undisturbed())


def truncated(file):
    file.write_bytes(file.read_bytes()[:-5])


def flipped(file):
    content = bytearray(file.read_bytes())
    content[7] ^= 16
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [truncated, flipped])
def test_a_damaged_chunk_of_a_view_is_named_by_view_and_rows_before_anything_runs(damage, tmp_path):
    sources = written(tmp_path, recordings(2), 7)
    damage(tmp_path / "view2.zarr/c/9/0")
    with pytest.raises(DataError, match=r"view 'view 2' cannot be read in rows 0 to 149: "):
        job_on(tmp_path / "run.zarr", sources, **KNN)


@pytest.mark.parametrize("damage", [truncated, flipped])
def test_a_chunk_damaged_on_the_way_is_named_by_view_and_rows_and_what_is_finished_is_kept(damage, tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    chunk = tmp_path / "view2.zarr/c/9/0"  # rows 63 to 69
    whole = chunk.read_bytes()
    damage(chunk)
    with pytest.raises(DataError, match=r"view 'view 2' cannot be read in rows 42 to 83: "):
        pipeline.run(job)
    assert scan.SCAN.of(job).missing() == [1, 2, 3]
    chunk.write_bytes(whole)
    pipeline.run(job)
    np.testing.assert_array_equal(embedding(job), undisturbed())


def test_a_damaged_block_of_a_stage_stops_the_run_and_is_named(tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    killed_at("stages/kernel/done/00000.json", job)
    flipped(tmp_path / "run.zarr/stages/near/links_1/c/2/0")
    with pytest.raises(Exception, match=r"block 2 of 'links_1' in stage 'near' of .*run\.zarr.*--from near"):
        pipeline.run(job)


def test_views_of_different_lengths_are_refused(tmp_path):
    X, Y = recordings(2)
    with pytest.raises(DataError, match="differ in length: 'view 1' has 150, 'view 2' has 149 samples"):
        small_job(tmp_path, [X, Y[:-1]], 7, **KNN)


@pytest.mark.parametrize(("n", "told"), [(0, "0 samples"), (1, "1 sample;")])
def test_views_without_samples_are_refused(n, told, tmp_path):
    sources = written(tmp_path, [X[:n] for X in recordings(2)], 7)
    with pytest.raises(DataError, match=f"the views have {told}.* at least 2 are needed"):
        job_on(tmp_path / "run.zarr", sources, **{**TIME, "landmarks": 2})


@pytest.mark.parametrize("dtype", ["complex128", "S4", "datetime64[s]"])
@pytest.mark.filterwarnings("ignore")  # Zarr's, that not every dtype is in its standard
def test_views_that_hold_no_real_numbers_are_refused(dtype, tmp_path):
    X, Y = recordings(2)
    with pytest.raises(DataError, match=r"view 'view 2' has dtype .*; real numbers are needed"):
        small_job(tmp_path, [X, np.zeros(Y.shape, dtype)], 7, **KNN)


@pytest.mark.parametrize("shape", [(), (150,), (150, 2, 2), (150, 0)])
def test_views_of_another_shape_are_refused(shape, tmp_path):
    (first,) = written(tmp_path, recordings(1), 7)
    zarr.create_array(
        str(tmp_path / "other.zarr"), shape=shape, dtype="float64", chunks=tuple(max(1, d) for d in shape)
    )
    with pytest.raises(DataError, match=r"view 'other' has shape \(.*; \(samples, channels\) is needed"):
        job_on(tmp_path / "run.zarr", (first, Source("other", str(tmp_path / "other.zarr"))), **KNN)


def test_a_view_that_is_constant_is_refused_and_named(tmp_path):
    X, _ = recordings(2)
    job = small_job(tmp_path, [X, np.full((150, 3), 0.5)], 7, **KNN)
    with pytest.raises(DataError, match="view 'view 2' is constant"):
        pipeline.run(job)


def test_no_views_at_all_are_refused(tmp_path):
    from dlcca.fitting.job import make_job
    from dlcca.settings.fit import Settings

    with pytest.raises(DataError, match="no views were given"):
        make_job(str(tmp_path / "run.zarr"), (), Settings(), 0)


def test_a_view_that_is_not_there_is_named(tmp_path):
    (first,) = written(tmp_path, recordings(1), 7)
    missing = Source("eeg", str(tmp_path / "nowhere.zarr"))
    with pytest.raises(StorageError, match=r"view 'eeg': no Zarr array can be opened at .*nowhere\.zarr"):
        job_on(tmp_path / "run.zarr", (first, missing), **KNN)


def test_a_view_that_goes_away_on_the_way_is_named_and_what_is_finished_is_kept(tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    killed_at("stages/near/done/00001.json", job)
    (tmp_path / "view1.zarr").rename(tmp_path / "away")
    with pytest.raises(StorageError, match=r"view 'view 1': no Zarr array can be opened at .*view1\.zarr"):
        pipeline.run(job)
    (tmp_path / "away").rename(tmp_path / "view1.zarr")
    pipeline.run(job)
    np.testing.assert_array_equal(embedding(job), undisturbed())


def test_recordings_that_changed_since_the_last_run_are_told_from_those_it_knew(tmp_path):
    sources = written(tmp_path, recordings(2), 7)
    job = job_on(tmp_path / "run.zarr", sources, **KNN)
    pipeline.run(job)
    zarr.open_array(sources[0].address)[0, 0] += 1.0
    with pytest.raises(StaleStage, match=r"'scan' in .*run\.zarr was built from other inputs"):
        pipeline.run(job_on(tmp_path / "run.zarr", sources, **KNN))

"""Blocks that fail and workers that die: retried a bounded number of times, and reported."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed import Client, LocalCluster

from dlcca.engine.scheduler import RETRIES
from dlcca.engine.work import do_missing, watched
from dlcca.errors import StorageError
from dlcca.storage import event_log
from dlcca.storage.blocks import Blocks


def falls(job, stage, block):
    """Fails as often as the job says, at one block."""
    tries = Path(job.folder) / f"{block}"
    tries.touch()
    with open(tries, "a") as file:
        file.write(".")
    if block == 1 and len(tries.read_text()) <= job.falls:
        raise StorageError("the disk is full")
    if job.seconds:
        time.sleep(job.seconds)
    stage.write(block, {}, {})


@pytest.fixture
def stage(tmp_path):
    return Blocks(str(tmp_path / "run.zarr"), "near", "f", 4).prepare({}, says="")


def job_of(tmp_path, falls, seconds=0.0):
    return SimpleNamespace(address=str(tmp_path / "run.zarr"), folder=str(tmp_path), falls=falls, seconds=seconds)


@pytest.fixture
def client():
    threads = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**threads) as cluster, Client(cluster) as opened:
        yield opened


def awaited(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_a_block_that_fails_once_is_retried_and_reported(stage, client, tmp_path):
    said = []
    with event_log.recording(stage.address, "a test") as log, watched(client, log, said.append):
        do_missing(falls, job_of(tmp_path, falls=1), stage, client)
        awaited(lambda: log.counts["retry"])
    assert stage.missing() == []
    (retry,) = [event for event in event_log.read(stage.address) if event["event"] == "retry"]
    assert (retry["stage"], retry["block"], retry["times"], retry["at_most"]) == ("near", 1, 1, RETRIES)
    assert retry["error"] == "StorageError: the disk is full"
    assert said == [
        f"block 1 of 'near' failed on {retry['worker']} (StorageError: the disk is full); retry 1 of at most {RETRIES}."
    ]


def test_a_block_that_always_fails_is_given_up_after_a_bounded_number_of_times(stage, client, tmp_path):
    with event_log.recording(stage.address, "a test") as log, watched(client, log, lambda text: None):
        with pytest.raises(StorageError, match="the disk is full"):
            do_missing(falls, job_of(tmp_path, falls=99), stage, client)
        awaited(lambda: log.counts["block given up"])
    assert len((tmp_path / "1").read_text()) == RETRIES + 1
    assert [event["event"] for event in event_log.read(stage.address)].count("retry") == RETRIES
    assert 1 in stage.missing()


@pytest.mark.slow
@pytest.mark.cluster
def test_a_lost_worker_is_reported_with_its_tasks_that_are_retried(stage, tmp_path):
    said = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        event_log.recording(stage.address, "a test") as log,
        watched(client, log, said.append),
    ):
        pids = list(client.run(os.getpid).values())

        def kill_one(_stage, done, _blocks):
            if done == 1 and pids:
                os.kill(pids.pop(), signal.SIGKILL)

        do_missing(falls, job_of(tmp_path, falls=0, seconds=0.3), stage, client, kill_one)
        awaited(lambda: log.counts["worker lost"])
    assert stage.missing() == []
    lost = [event for event in event_log.read(stage.address) if event["event"] == "worker lost"]
    assert lost[0]["worker"].startswith("tcp://127.0.0.1:")
    if lost[0]["tasks"]:
        assert any("was lost" in text for text in said)

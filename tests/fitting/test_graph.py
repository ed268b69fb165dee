"""What a run asks of the scheduler stays small, whatever its kind: few tasks, and no arrays inside them."""

import numpy as np
import pytest

from dlcca.engine import work
from dlcca.fitting import embed, pipeline
from dlcca.storage.blocks import Blocks
from tests.fitting.graphs import GraphWatch
from tests.fitting.jobs import KNN, TIME, patch_stage, recordings, small_job
from tests.support import repeats

KINDS = {
    "alternating, float32": (2, "float32", KNN),
    "alternating of 3 views, float64": (3, "float64", KNN),
    "average of 3 views, float64": (3, "float64", {**KNN, "fusion": "average"}),
    "average of 3 views, float64, sparse": (3, "float64", {**KNN, "fusion": "average", "kernel": "sparse"}),
    "one view, dense": (2, "float32", TIME),
    "one view, dense, float64": (2, "float64", TIME),
}
MEGABYTE = 1_000_000


@pytest.fixture
def client():
    """Of a worker in a thread of this process; loopback only."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("kind", repeats.first(4, KINDS))
def test_a_block_takes_fewer_than_twenty_tasks_in_all_and_each_is_small(kind, client, tmp_path):
    K, dtype, options = KINDS[kind]
    job = small_job(tmp_path, recordings(K, dtype=dtype), 7, block_rows=14, **options)
    watch = GraphWatch.of(client)
    pipeline.run(job, client)
    assert watch.tasks >= 4 * job.n_blocks  # it did see the run
    assert watch.tasks < 20 * job.n_blocks
    assert watch.largest_bytes < MEGABYTE / 50


def test_rows_that_the_user_gave_do_not_travel_in_every_task(client, tmp_path):
    rng = np.random.default_rng(0)
    n, m = 1000, 300
    landmarks, neighborhoods = rng.permutation(n)[:m], rng.integers(0, n, (m, 500))
    assert neighborhoods.nbytes > MEGABYTE
    options = {**KNN, "landmarks": landmarks, "neighborhoods": neighborhoods, "fusion": "alternating"}
    job = small_job(tmp_path, recordings(2, n), 100, block_rows=500, **options)
    watch = GraphWatch.of(client)
    pipeline.run(job, client)
    assert watch.largest_bytes < MEGABYTE


def test_the_scheduler_never_holds_more_than_a_wave(client, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "WAVE", 3)
    job = small_job(tmp_path, recordings(2), 7, block_rows=14, **TIME)
    assert job.n_blocks > 6
    watch = GraphWatch.of(client)
    pipeline.run(job, client)
    assert watch.most_at_once <= 2 * 3  # finished tasks are forgotten a moment later


def test_a_task_reads_no_more_records_when_there_are_more_blocks(tmp_path, monkeypatch):
    """Not even the last ones, which need a sum over all blocks: the time of a run would grow with their square."""
    asked: dict[str, list[int]] = {}
    finish, entry = embed.finish, Blocks._entry

    def counting(job, stage, block):
        reads = []
        with monkeypatch.context() as patched:
            patched.setattr(Blocks, "_entry", lambda stage, block: reads.append(stage.name) or entry(stage, block))
            finish(job, stage, block)
        asked.setdefault(str(job.n_blocks), []).append(len(reads))

    patch_stage(monkeypatch, "embedding", compute=counting)
    for block_rows in (14, 42):
        folder = tmp_path / str(block_rows)
        folder.mkdir()
        pipeline.run(small_job(folder, recordings(2), 7, block_rows=block_rows, **TIME))
    assert list(asked) == ["11", "4"]
    assert {count for counts in asked.values() for count in counts} == {2}  # signs, and its own coordinates

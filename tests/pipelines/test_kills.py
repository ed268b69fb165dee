"""Nights that are killed at moments drawn at random, again and again, and what is left of them."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

from dlcca.storage import transformed
from tests.pipelines.nights import day_of, pipeline_file, recorded

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
#: How a night ends that was killed at an operation, or by the clock.
KILLED = (-signal.SIGKILL, -signal.SIGPROF)
#: Kills in all (`make chaos` asks for more), nights of one pipeline before it is left in peace, and pipelines at most:
#: some nights are over before their moment has come.
KILLS, NIGHTS, MOST_PIPELINES = int(os.environ.get("DLCCA_TEST_KILLS", "5")), 6, 12


class Nights:
    """The process that runs nights in forks of itself."""

    def __init__(self, folder):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        self.count_file = folder / "count.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipelines.killer"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, file, die_at=0, die_after_s=0.0):
        """How a night ended: its exit code, or minus the signal."""
        asked = {"file": str(file), "die_at": die_at, "die_after_s": die_after_s, "count_file": str(self.count_file)}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["status"]

    def measured(self):
        """Operations and seconds of the last night that came to its end."""
        operations, seconds = self.count_file.read_text().split()
        return int(operations), float(seconds)

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    made = Nights(tmp_path_factory.mktemp("killer"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def arrived(tmp_path_factory):
    """A pipeline whose first night fits a model, embeds three recordings, and refits because the system has changed."""
    folder = tmp_path_factory.mktemp("arrived")
    pipeline_file(folder)
    recorded(folder, 1)
    recorded(folder, 1, 1)
    recorded(folder, 2, changed=True)
    return folder


SETTINGS = "[model]\nfirst_rows = 1000\n"


def published(folder):
    """Contents by day, as readers see them; every partition must be whole."""
    found = {}
    for link in sorted((folder / "published" / "zarr").glob("*.zarr")):
        assert set(transformed.damages(str(link)).values()) == {None}
        group = zarr.open_group(str(link), mode="r")
        told = group.attrs["recordings"]
        assert sum(entry["rows"] for entry in told) == group["time"].shape[0]
        found[link.stem] = tuple(entry["content"] for entry in told)
    for file in sorted((folder / "published" / "parquet").glob("date=*/*.parquet")):
        table = pq.read_table(file, partitioning=None)
        assert table.num_rows == 640 * len(set(table["file"].to_pylist()))
    return found


def check_consistent(folder):
    """Whatever the moment of a kill: the catalog is sound, and what it calls done is there."""
    if not (folder / "state" / "catalog.sqlite").exists():
        return
    with closing(sqlite3.connect(folder / "state" / "catalog.sqlite")) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if base.execute("PRAGMA user_version").fetchone()[0] == 0:
            return  # killed before there were tables
        rows = base.execute("SELECT result, day FROM recordings WHERE status = 'done'").fetchall()
        days = base.execute("SELECT day FROM partitions").fetchall()
        (current,) = base.execute("SELECT count(*) FROM models WHERE status = 'current'").fetchone()
    for result, _day in rows:
        assert set(transformed.damages(str(folder / "state" / result)).values()) == {None}
    assert current <= 1
    assert {day for (day,) in days} <= published(folder).keys()


def fresh(arrived, folder):
    shutil.copytree(arrived, folder)
    file = pipeline_file(folder, more=SETTINGS)
    file.write_text(file.read_text().replace("count = 120", "count = 60"))
    return file


def test_a_night_killed_at_random_moments_is_finished_by_the_next_and_embeds_nothing_twice(nights, arrived, tmp_path):
    whole = fresh(arrived, tmp_path / "whole")
    assert nights.run(whole) == 5  # the second day is unlike the first
    (operations, seconds), expected = nights.measured(), published(whole.parent)
    assert list(expected) == [day_of(1), day_of(2)]
    reference = {day: embedding_of(whole.parent, day) for day in expected}
    rng, killed = np.random.default_rng(6), Counter()
    for number in range(MOST_PIPELINES):
        file = fresh(arrived, tmp_path / str(number))
        for turn in range(NIGHTS):
            if turn % 2:  # whatever it is doing then
                moment = {"die_after_s": float(rng.uniform(0.01, 0.4 * seconds))}
            else:
                moment = {"die_at": int(rng.integers(1, 0.4 * operations))}
            status = nights.run(file, **moment)
            check_consistent(file.parent)
            if status not in KILLED:
                assert status in (0, 3, 5)
                break
            killed[status] += 1
            if killed.total() == KILLS:
                break
        finished_as(nights, file, expected, reference)
        if killed.total() == KILLS:
            break
    assert killed.total() == KILLS, killed
    assert min(killed[way] for way in KILLED) > 0, killed


def finished_as(nights, file, expected, reference):
    """A night that is left in peace comes to what one comes to that never was killed, and embeds nothing twice."""
    assert nights.run(file) in (0, 5)  # 5 if the alarm was still to be raised
    check_consistent(file.parent)
    assert published(file.parent) == expected
    for day, embedding in reference.items():
        np.testing.assert_allclose(embedding_of(file.parent, day), embedding, atol=1e-5)
    blocks = Counter((file.parent / "blocks.txt").read_text().splitlines())
    assert set(blocks.values()) == {1}, blocks
    assert one_result_each(file.parent)
    assert nights.run(file) == 0  # nothing is left to do


def embedding_of(folder, day):
    return zarr.open_group(str(folder / "published" / "zarr" / f"{day}.zarr"), mode="r")["embedding"][:]


def one_result_each(folder):
    with closing(sqlite3.connect(folder / "state" / "catalog.sqlite")) as base:
        rows = base.execute(
            "SELECT status, count(*), count(DISTINCT content) FROM recordings GROUP BY status"
        ).fetchall()
        models = base.execute("SELECT version, status FROM models ORDER BY version").fetchall()
    return rows == [("done", 3, 3)] and models == [(1, "kept"), (2, "current")]

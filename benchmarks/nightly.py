"""What a night costs in which nothing is new, and how long it takes to look at ten thousand files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.measure import Row, share, single_threaded, timed
from dlcca.pipelines.context import opened
from dlcca.pipelines.recordings import discover
from tests.pipelines.nights import pipeline_file, recorded, run_night

#: Seconds that each may take.
NOTHING_NEW_S, DISCOVERY_S = 2.0, 2.0
FILES, QUICK_FILES = 10_000, 1000


def rows(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        yield from nothing_new(Path(scratch) / "laboratory")
        yield from discovery(Path(scratch) / "many", QUICK_FILES if quick else FILES)


def nothing_new(folder: Path) -> Iterator[Row]:
    """`dlcca pipeline run` as cron would call it, after a night that has done everything."""
    file = pipeline_file(folder)
    recorded(folder, 1)
    run_night(file, 1)
    command = [sys.executable, "-m", "dlcca", "pipeline", "run", str(file), "--quiet"]
    took = timed(lambda: subprocess.run(command, check=True, env=single_threaded()), repeats=3)
    yield share("nightly", "dlcca pipeline run with nothing new, the whole command", took.wall, NOTHING_NEW_S, "<= 1")


def discovery(folder: Path, files: int) -> Iterator[Row]:
    """Files that the catalog has none of, and then all of."""
    file = pipeline_file(folder)
    for number in range(files):
        (folder / "incoming" / f"{number:05d}.edf").write_bytes(b"%d" % number)
    with opened(file, clock=lambda: datetime.now(UTC) + timedelta(hours=1)) as flow:
        first = timed(lambda: discover(flow))
        known = timed(lambda: discover(flow), repeats=3)
    yield share("nightly", f"{files:,} files that are new, read and kept", first.wall, None)
    yield share("nightly", f"{files:,} files that are known, looked at", known.wall, DISCOVERY_S, "<= 1")

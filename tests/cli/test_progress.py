"""Progress: bars on a terminal, now and then a line in a log."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlcca.cli.progress import ProgressLog, RunProgress, StageProgress


def awaited(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_stage_is_a_line_when_it_is_done():
    lines = []
    with ProgressLog(lines.append) as log:
        log.update("scan", 4, 4)  # by an earlier run
        for done in range(1, 5):
            log.update("near", done, 4)
        log.update("kernel", 0, 2)
    assert len(lines) == 1
    assert lines[0].split("  ", 1)[1] == "near: 3 of 4 blocks in 0 s"


def test_a_long_stage_is_a_line_each_minute_also_while_no_block_is_finished():
    lines = []
    with ProgressLog(lines.append, every_s=0.02) as log:
        log.update("near", 10, 40)
        awaited(lambda: len(lines) >= 2)
        log.update("near", 30, 40)
        awaited(lambda: "30 of 40 blocks, " in lines[-1])
        log.update("near", 40, 40)
    assert "near: 10 of 40 blocks, none of them in the last 0 s" in lines[0]
    assert "left" in next(line for line in lines if "30 of 40" in line)
    assert lines[-1].endswith("near: 30 of 40 blocks in 0 s")


def test_a_line_tells_the_rate_and_the_time_that_is_left():
    stage = StageProgress(began=0.0, found=10, done=30, blocks=50, updated=0.0)
    assert stage.line("near", 10.0) == "near: 30 of 50 blocks, 2 a second, about 10 s left"
    assert stage.line("near", 3600.0) == "near: 30 of 50 blocks, 3 minutes each, about 60 minutes left"


SHOW = """
import time
from dlcca.cli.verb import Console
console = Console(as_json=False, quiet=False, debug=False)
with console.progress(expected={"scan": 1.0, "near": 3.0}) as update:
    update("scan", 0, 1)
    update("scan", 1, 1)
    for done in range(41):
        update("near", done, 40)
        time.sleep(0.01)
console.next_steps(("look", "dlcca report run.zarr"))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_are_bars_with_rate_and_time_and_a_line_stays_of_them():
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    shown = subprocess.Popen(
        [sys.executable, "-c", SHOW], stderr=theirs, stdout=theirs, cwd=Path(__file__).parents[2], env=environment
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert shown.wait(timeout=60) == 0
    for words in (b"starting", b"all stages", b"near", b"/40", b"blocks/s", b"s left"):
        assert words in text
    *_, last, following, step = text.decode().strip().splitlines()
    assert "2 stages in" in last
    assert "longest: near" in last
    assert (following, step) == ("Next:", "  look   dlcca report run.zarr")


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_left_of_all_stages_follows_from_what_was_done_and_from_the_plan():
    clock = Clock()
    whole = RunProgress({"scan": 1.0, "near": 4.0, "kernel": 5.0}, clock)
    whole.update("scan", 0, 10)
    assert whole.left_s() is None
    clock.now = 3.0
    whole.update("scan", 10, 10)
    assert whole.share() == pytest.approx(0.1)
    assert whole.left_s() == pytest.approx(27.0)  # three times slower than planned
    whole.update("near", 0, 8)
    clock.now = 9.0
    whole.update("near", 4, 8)
    assert whole.share() == pytest.approx(0.3)
    assert whole.left_s() == pytest.approx(21.0)
    assert whole.sentence() == "2 stages in 9.0 s; longest: near 6.0 s, scan 3.0 s"


def test_what_an_earlier_run_did_is_neither_awaited_nor_counted():
    clock = Clock()
    whole = RunProgress({"scan": 100.0, "near": 4.0, "kernel": 4.0}, clock)
    whole.update("scan", 10, 10)
    whole.update("near", 4, 8)
    assert whole.share() == 0
    clock.now = 2.0
    whole.update("near", 8, 8)
    assert whole.share() == pytest.approx(2 / 6)
    assert whole.left_s() == pytest.approx(4.0)
    assert whole.sentence() == "1 stage in 2.0 s; longest: near 2.0 s"


def test_of_a_run_that_found_all_done_no_line_stays():
    whole = RunProgress({"scan": 1.0})
    whole.update("scan", 3, 3)
    assert (whole.sentence(), whole.share(), whole.left_s()) == ("", 0.0, None)

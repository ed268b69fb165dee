"""Progress in a log, where there is no terminal."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlcca.cli.minutes import Minutes, _Stage


def awaited(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_stage_is_a_line_when_it_is_done():
    lines = []
    with Minutes(lines.append) as minutes:
        minutes.tell("scan", 4, 4)  # by an earlier run
        for done in range(1, 5):
            minutes.tell("near", done, 4)
        minutes.tell("kernel", 0, 2)
    assert len(lines) == 1
    assert lines[0].split("  ", 1)[1] == "near: 3 of 4 blocks in 0 s"


def test_a_long_stage_is_a_line_each_minute_also_while_no_block_is_finished():
    lines = []
    with Minutes(lines.append, every_s=0.02) as minutes:
        minutes.tell("near", 10, 40)
        awaited(lambda: len(lines) >= 2)
        minutes.tell("near", 30, 40)
        awaited(lambda: "30 of 40 blocks, " in lines[-1])
        minutes.tell("near", 40, 40)
    assert "near: 10 of 40 blocks, none of them in the last 0 s" in lines[0]
    assert "left" in next(line for line in lines if "30 of 40" in line)
    assert lines[-1].endswith("near: 30 of 40 blocks in 0 s")


def test_a_line_tells_the_rate_and_the_time_that_is_left():
    stage = _Stage(began=0.0, found=10, done=30, blocks=50, told=0.0)
    assert stage.line("near", 10.0) == "near: 30 of 50 blocks, 2 a second, about 10 s left"
    assert stage.line("near", 3600.0) == "near: 30 of 50 blocks, 3 minutes each, about 60 minutes left"


SHOW = """
from dlcca.cli.voice import Voice
with Voice(as_json=False, quiet=False, debug=False).bars() as tell:
    for done in range(41):
        tell("near", done, 40)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_are_bars_with_rate_and_time():
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    shown = subprocess.Popen(
        [sys.executable, "-c", SHOW], stderr=theirs, cwd=Path(__file__).parents[1], env=environment
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
    for words in (b"near", b"40/40", b"blocks/s", b"0:00:00"):
        assert words in text

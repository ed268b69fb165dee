"""Two drivers at once, drivers that are killed, and those who want to be told."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.pipelines import nightly_run, summary
from dlcca.pipelines.context import opened
from dlcca.pipelines.settings import NotifySection
from tests.pipelines.nights import pipeline_file

ROOT = Path(__file__).parents[2]
#: A driver that has begun its night, and goes on when it is told to.
DRIVER = """
import sys
from dlcca.pipelines import nightly_run as night

with night.begun(sys.argv[1], "run") as (flow, summary):
    print("begun", flush=True)
    sys.stdin.readline()
    night.nightly(flow, summary)
"""


@pytest.fixture
def driver(tmp_path):
    """A process that is at work on the pipeline in a folder."""
    started = []

    def start():
        command = [sys.executable, "-c", DRIVER, str(tmp_path / "pipeline.toml")]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "begun\n"
        return process

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()
        if process.poll() is None:
            process.kill()
        process.wait(timeout=60)


def dlcca(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(("busy", "code"), [("leave", 0), ("fail", 4)])
def test_of_two_drivers_one_runs_and_the_other_leaves_with_a_message(tmp_path, driver, busy, code):
    file = pipeline_file(tmp_path)
    file.write_text(file.read_text().replace('name = "laboratory"', f'busy = "{busy}"'))
    first = driver()
    second = dlcca("pipeline", "run", file)
    assert second.exit_code == code
    assert "another run of this pipeline is in progress; this one ends" in second.output
    told = json.loads(dlcca("pipeline", "run", file, "--json").stdout)
    assert (told["busy"], told["exit_code"]) == (True, code)
    assert dlcca("pipeline", "status", file).exit_code == 0  # who only asks does not wait
    first.stdin.write("\n")
    first.stdin.flush()
    assert first.wait(timeout=120) == 0
    assert dlcca("pipeline", "run", file).exit_code == 0
    with opened(file) as flow:  # those that left are no runs
        assert [row["exit_code"] for row in flow.catalog.all("SELECT exit_code FROM runs")] == [0, 0]


@pytest.mark.faults
def test_a_driver_that_was_killed_leaves_no_lock_behind(tmp_path, driver):
    file = pipeline_file(tmp_path)
    first = driver()
    os.kill(first.pid, signal.SIGKILL)
    first.wait(timeout=60)
    assert dlcca("pipeline", "run", file).exit_code == 0
    with opened(file) as flow:
        assert [row["ended"] is None for row in flow.catalog.all("SELECT ended FROM runs ORDER BY id")] == [True, False]


SUMMARY = {"exit_code": 5, "news": True, "text": "something is unlike"}


def told_by_command(code):
    return (sys.executable, "-c", code)


def test_a_command_gets_the_summary(tmp_path):
    code = (
        f"import os, sys; open({str(tmp_path / 'told')!r}, 'w').write(sys.stdin.read() + os.environ['DLCCA_SUMMARY'])"
    )
    assert summary.notify(NotifySection(command=told_by_command(code)), SUMMARY) == []
    assert (tmp_path / "told").read_text() == json.dumps(SUMMARY) + SUMMARY["text"]


@pytest.mark.parametrize(
    ("code", "timeout_s", "complaint"),
    [
        ("import sys; sys.exit('no such mailbox')", 60.0, "in 2 attempts: it ended with 1 no such mailbox"),
        ("import time; time.sleep(60)", 0.5, "longer than timeout_s = 0.5"),
    ],
)
def test_a_command_that_fails_or_hangs_is_tried_again_and_given_up(code, timeout_s, complaint):
    asked = NotifySection(command=told_by_command(code), timeout_s=timeout_s, attempts=2)
    (trouble,) = summary.notify(asked, SUMMARY)
    assert complaint in trouble


def ended_within(pid, seconds):
    """A killed process is gone, or a zombie, once the kernel has delivered the signal, which is not at once."""
    stat = Path(f"/proc/{pid}/stat")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_what_a_command_that_hangs_has_started_ends_with_it(tmp_path):
    asked = NotifySection(
        command=("sh", "-c", f"sleep 300 & echo $! > {tmp_path / 'pid'}; wait"), timeout_s=1, attempts=1
    )
    (trouble,) = summary.notify(asked, SUMMARY)
    assert "longer than timeout_s = 1" in trouble
    assert ended_within(int((tmp_path / "pid").read_text()), 30)


def test_a_command_that_is_not_there_is_only_told_of():
    (trouble,) = summary.notify(NotifySection(command=("no-such-program-anywhere",), attempts=1), SUMMARY)
    assert "no-such-program-anywhere: No such file" in trouble


class Hook(BaseHTTPRequestHandler):
    """Refuses the first message, and takes the second; what comes to /hang it never answers."""

    received: ClassVar[list] = []
    over = threading.Event()

    def do_POST(self):
        if self.path == "/hang":
            self.over.wait(60)
            return
        self.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(503 if len(self.received) == 1 else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    Hook.received, Hook.over = [], threading.Event()
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Hook.over.set()
    server.shutdown()
    server.server_close()
    thread.join(timeout=60)


def test_a_webhook_that_refuses_is_asked_again(hook):
    assert summary.notify(NotifySection(webhook=f"{hook}/token-of-ours"), SUMMARY) == []
    assert Hook.received == [SUMMARY, SUMMARY]


def test_a_webhook_that_never_answers_is_given_up_and_its_secret_is_not_told(hook, monkeypatch):
    monkeypatch.setenv("OUR_HOOK", f"{hook}/hang")
    (trouble,) = summary.notify(NotifySection(webhook_env="OUR_HOOK", timeout_s=0.2, attempts=2), SUMMARY)
    assert trouble.startswith("the webhook at 127.0.0.1 was not notified in 2 attempts")
    assert "hang" not in trouble
    monkeypatch.delenv("OUR_HOOK")
    assert "OUR_HOOK is not set" in summary.notify(NotifySection(webhook_env="OUR_HOOK"), SUMMARY)[0]


def test_who_is_told_when():
    trouble, news, nothing = SUMMARY, {"exit_code": 0, "news": True}, {"exit_code": 0, "news": False}
    for when, expected in {"trouble": [1, 0, 0], "news": [1, 1, 0], "always": [1, 1, 1]}.items():
        asked = NotifySection(command=("true",), when=when)
        assert [summary.is_wanted(asked, told) for told in (trouble, news, nothing)] == list(map(bool, expected))
    assert not summary.is_wanted(NotifySection(when="always"), trouble)  # nobody to tell


def test_a_night_that_cannot_be_told_of_ends_as_it_would_have(tmp_path):
    file = pipeline_file(tmp_path, "[notify]\ncommand = 'no-such-program-anywhere'\nwhen = 'always'\nattempts = 1\n")
    assert nightly_run.run(file).exit_code == 0
    with opened(file) as flow:
        assert flow.catalog.value("SELECT kind FROM history") == "notify"

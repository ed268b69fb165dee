"""Prefect for real: a server with its own database, a schedule of a minute that fires, a night on a Dask cluster."""

import importlib.util
import os
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import zarr
from typer.testing import CliRunner

from dlcca.cli import app
from tests.pipelines.nights import day_of, pipeline_file, recorded
from tests.support.help_examples import example_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

#: From the start of the server to the end of the night; a minute of it may go by before the schedule fires.
PATIENCE_S = 480

#: Services of the server that have no part in a schedule; without them it takes less of the machine.
IDLE = ("EVENT_PERSISTER", "FOREMAN", "LATE_RUNS", "PAUSE_EXPIRATIONS", "TRIGGERS", "CANCELLATION_CLEANUP")


@pytest.fixture
def settings_of_prefect(tmp_path):
    """Environment of the server and of whoever speaks to it; all that Prefect keeps is in the test's own folder."""
    if importlib.util.find_spec("prefect") is None:  # not imported here, which takes seconds
        pytest.skip("Prefect is not installed: pip install 'dlcca[prefect]'")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    services = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in IDLE}
    return {
        **os.environ, **services, "PREFECT_HOME": str(tmp_path / "prefect"), "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "NO_PROXY": "127.0.0.1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path, folder: Path | None = None):
    """A program with its children, ended with the block."""
    with open(log, "w") as out:
        program = subprocess.Popen(command, env=environment, cwd=folder, stdout=out, stderr=out, start_new_session=True)
    try:
        yield program
    finally:
        os.killpg(program.pid, signal.SIGTERM)
        try:
            program.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait(20)


def wait_for(what: str, found, until: float, watched: subprocess.Popen, log: Path):
    """What ``found`` returns, once that is something."""
    while time.monotonic() < until:
        answer = found()
        if answer:
            return answer
        assert watched.poll() is None, f"ended while waiting for {what}: {log.read_text()[-3000:]}"
        time.sleep(1)
    raise AssertionError(f"waited too long for {what}: {log.read_text()[-3000:]}")


class Counting:
    """Counts what workers have computed."""

    name, count = "counting", 0

    def install(self, scheduler):
        from distributed.diagnostics.plugin import SchedulerPlugin

        counting = self

        class Plugin(SchedulerPlugin):
            def transition(self, key, start, finish, *args, **kwargs):
                counting.count += (start, finish) == ("processing", "memory")

        scheduler.add_plugin(Plugin(), name="counting")
        return self


def asked(http, path: str, **body):
    """An answer of the server; nothing while it does not answer."""
    import httpx

    try:
        answer = http.post(path, json=body)
    except httpx.HTTPError:
        return None
    return answer.json() if answer.status_code == 200 else None


def serves_the_example(folder: Path, environment: dict[str, str], http, until: float):
    """The deployment that the example in the help makes, as it is printed; it is ended when the server knows of it."""
    pipeline_file(folder).write_text(pipeline_file(folder).read_text().replace('"laboratory"', '"example"'))
    _dlcca, *words = shlex.split(example_of("pipeline serve"))
    log = folder / "serve.log"

    def known():
        made = asked(http, "/deployments/filter") or []
        return [deployment for deployment in made if deployment["name"] == "example" and deployment["schedules"]]

    with running([sys.executable, "-m", "dlcca", *words], environment, log, folder) as served:
        return wait_for("the deployment of the example", known, until, served, log)[0]


def bad_night(folder: Path, environment: dict[str, str]) -> str:
    """What Prefect says of a night with a file that is no recording."""
    file = pipeline_file(folder)
    (folder / "incoming" / "night-01-0.edf").write_bytes(b"not a recording" * 100)
    code = f"from dlcca.pipelines.prefect_flow import night\nstate = night({str(file)!r}, return_state=True)\n"
    code += "print(state.type.value, '|', state.message)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.stdout or done.stderr


def test_a_schedule_of_prefect_fires_and_ends_with_the_published_partition(tmp_path, settings_of_prefect):
    """And a night that ends badly fails there as well, and the example in the help serves: while the schedule lets us
    wait."""
    import httpx
    from distributed import LocalCluster

    until = time.monotonic() + PATIENCE_S
    server_log, log = tmp_path / "server.log", tmp_path / "serve.log"
    environment = settings_of_prefect
    api, port = environment["PREFECT_API_URL"], environment["PREFECT_API_URL"].split(":")[2].split("/")[0]
    start = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui"]
    file = pipeline_file(tmp_path / "laboratory")
    recorded(file.parent, 1)
    with (
        running(start, environment, server_log) as server,
        LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        httpx.Client(base_url=api, trust_env=False, timeout=30) as http,
    ):
        computed = Counting().install(cluster.scheduler)
        cluster_file = tmp_path / "cluster.toml"
        cluster_file.write_text(f'kind = "existing"\naddress = "{cluster.scheduler_address}"\n')
        wait_for("the server", lambda: asked(http, "/deployments/filter") is not None, until, server, server_log)

        serve = [sys.executable, "-m", "dlcca", "pipeline", "serve", str(file)]
        serve += ["--schedule", "* * * * *", "--cluster", str(cluster_file)]
        with running(serve, environment, log) as served:

            def ended():
                runs = asked(http, "/flow_runs/filter") or []
                over = [run for run in runs if run["state_type"] in ("COMPLETED", "FAILED", "CRASHED")]
                return [run for run in over if run["auto_scheduled"]]

            bad = bad_night(tmp_path / "bad", environment)
            example = serves_the_example(tmp_path / "example", environment, http, until)
            (night, *_) = wait_for("the first night", ended, until, served, log)
            tasks = asked(http, "/task_runs/filter", flow_runs={"id": {"any_": [night["id"]]}})

    assert (night["state_type"], night["auto_scheduled"]) == ("COMPLETED", True), night["state"]
    expected, began = (datetime.fromisoformat(night[name]) for name in ("expected_start_time", "start_time"))
    assert began > expected - timedelta(seconds=5)  # Prefect begins a moment early, so as not to be late
    assert night["expected_start_time"][17:19] == "00"  # on the minute, as cron says
    assert "Published: " + day_of(1) in night["state"]["message"]
    names = {task["name"].rsplit("-", 1)[0] for task in tasks}
    assert {"discover", "first fit", f"embed {day_of(1)}", "publish", "drift", "retention"} <= names
    assert computed.count > 0
    assert example["schedules"][0]["schedule"]["cron"] == "30 2 * * *"
    assert bad.startswith("FAILED | exit code 3: "), bad[-3000:]
    assert "night-01-0.edf" in bad
    rows = zarr.open_group(str(file.parent / f"published/zarr/{day_of(1)}.zarr"), mode="r")["embedding"]
    assert rows.shape[0] == 640
    with closing(sqlite3.connect(file.parent / "state" / "catalog.sqlite")) as base:
        first = base.execute("SELECT verb, exit_code FROM runs ORDER BY id").fetchone()
    assert first == ("prefect", 0)


def test_without_prefect_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "prefect", None)
    monkeypatch.delitem(sys.modules, "dlcca.pipelines.prefect_flow", raising=False)
    file = pipeline_file(tmp_path)
    answer = CliRunner().invoke(app, ["pipeline", "serve", str(file)])
    assert answer.exit_code == 2
    assert "pip install 'dlcca[prefect]'" in answer.stderr

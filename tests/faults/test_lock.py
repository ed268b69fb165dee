"""Several runs on one store: one writes, the others are refused, and what a dead one leaves is taken over by one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, simulate
from dlcca.cli import app
from dlcca.storage import lock

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
RUN = """
[store]
path = "run.zarr"
seed = 3
[views.left]
source = "left.zarr"
[views.right]
source = "right.zarr"
[landmarks]
count = 60
[neighborhoods]
kind = "knn"
n_neighbors = 20
[cluster]
workers = 1
memory_gib = 2
"""


def started(*arguments, cwd, **options):
    """A process of its own, whose words are kept."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=environment, **pipes, **options)


def dlcca(*arguments, cwd):
    return started("-m", "dlcca", *arguments, cwd=cwd)


def awaited(condition, what, patience_s=120):
    """Wait for something that has to come; how long it takes is not what is tested."""
    end = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


def ended(process, patience_s=300):
    out, err = process.communicate(timeout=patience_s)
    return process.returncode, out, err


@pytest.fixture
def folder(tmp_path):
    views, _truth = simulate.torus(600, common="big", random_state=0)
    for name, X in zip(("left", "right"), views, strict=True):
        zarr.create_array(str(tmp_path / f"{name}.zarr"), shape=X.shape, chunks=(200, 3), dtype=X.dtype)[...] = X
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path


@pytest.fixture
def processes():
    """Processes that are ended with the test, should it fail."""
    some = []
    yield some
    for process in some:
        if process.poll() is None:
            process.kill()
        if not process.stdout.closed:  # also of one that ended by itself, and was not asked for its words
            process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.cluster
def test_of_two_runs_at_once_the_second_is_refused_and_one_that_was_killed_is_taken_over(folder, processes):
    first = dlcca("run", "run.toml", "--quiet", cwd=folder)
    processes.append(first)
    awaited(lambda: lock.holder(str(folder / "run.zarr")), "the lock of the first run")
    os.kill(first.pid, signal.SIGSTOP)  # neither done nor dead
    code, _, told = ended(dlcca("run", "run.toml", cwd=folder))
    assert code == 4
    host = os.uname().nodename
    for words in (f"dlcca run with pid {first.pid} on {host}, since 2", "ago", "run.zarr is in use"):
        assert words in told
    told = CliRunner().invoke(app, ["status", str(folder / "run.zarr"), "--json"])
    assert json.loads(told.stdout)["lock"]["pid"] == first.pid
    assert f"with pid {first.pid} on {host}" in CliRunner().invoke(app, ["status", str(folder / "run.zarr")]).stdout
    first.kill()
    first.communicate(timeout=60)
    code, _, told = ended(dlcca("run", "run.toml", "--json", cwd=folder))
    assert code == 0, told
    assert lock.holder(str(folder / "run.zarr")) is None
    views = [zarr.open_array(str(folder / f"{name}.zarr"))[...] for name in ("left", "right")]
    expected = LocalCCA(neighborhoods="knn", n_neighbors=20, landmarks=60, random_state=3).fit(views).embedding_
    result = zarr.open_group(str(folder / "run.zarr"), mode="r")["embedding"][...]
    np.testing.assert_allclose(result, expected, atol=1e-8, rtol=0)
    events = [json.loads(line) for line in (folder / "run.zarr/log/events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events][-2:] == ["finished", "sealed"]


TAKER = """
import sys, time
from pathlib import Path
from dlcca.errors import StoreInUse
from dlcca.storage import lock

folder, mine, all_of_us, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def together(what):
    (folder / f"{what}-{mine}").touch()
    while len(list(folder.glob(f"{what}-*"))) < all_of_us:
        time.sleep(0.001)

for number in range(rounds):
    store = folder / f"{number}.zarr"
    together(f"ready{number}")
    try:
        with lock.held(str(store), "a taker"):
            (folder / f"won{number}-{mine}").touch()
            together(f"tried{number}")
    except StoreInUse:
        together(f"tried{number}")
"""


def test_of_eight_that_take_over_at_once_one_wins(tmp_path, processes):
    from tests.faults.stores import leave_lock

    rounds = 12
    for number in range(rounds):
        if number % 3:  # else there is no lock
            leave_lock(tmp_path / f"{number}.zarr", number)
    (tmp_path / "taker.py").write_text(TAKER)
    for mine in range(8):
        arguments = [str(tmp_path / "taker.py"), str(tmp_path), str(mine), "8", str(rounds)]
        processes.append(started(*arguments, cwd=tmp_path))
    assert [ended(process)[0] for process in processes] == [0] * 8
    winners = [len(list(tmp_path.glob(f"won{number}-*"))) for number in range(rounds)]
    assert winners == [1] * rounds
    assert list(tmp_path.glob("*.zarr/stages/lock/*")) == []


#: Holds a store and finishes a block of it now and then, until it is told to stop.
OWNER = """
import sys, time
import numpy as np
from dlcca.errors import StoreInUse
from dlcca.storage import lock
from dlcca.storage.blocks import Blocks

lock.RENEW_S, lock.DEAD_S = 0.2, 2.0
try:
    with lock.held(sys.argv[1], "an owner"):
        stage = Blocks(sys.argv[1], sys.argv[2], "f", 10_000).prepare({}, says="")
        for block in range(10_000):
            stage.write(block, {}, {"by": sys.argv[2]})
            time.sleep(0.1)
except StoreInUse as error:
    print(error)
    sys.exit(error.exit_code)
"""


def test_a_run_that_slept_while_another_machine_took_over_stops_before_it_writes(tmp_path, processes):
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("only root may give a process another host name")
    store, script = tmp_path / "run.zarr", tmp_path / "owner.py"
    script.write_text(OWNER)
    first = started(str(script), str(store), "first", cwd=tmp_path)
    processes.append(first)
    done = store / "stages/first/done"
    awaited(lambda: done.is_dir() and len(list(done.glob("*.json"))) > 2, "the first blocks")
    os.kill(first.pid, signal.SIGSTOP)
    elsewhere = f"hostname elsewhere && exec {sys.executable} {script} {store} second"

    def second_holds():
        """It is refused until the first one has been silent for long."""
        if not processes[1:] or processes[-1].poll() is not None:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            second = subprocess.Popen(["unshare", "--uts", "sh", "-c", elsewhere], env=environment, **pipes)
            processes.append(second)
        found = lock.holder(str(store))
        return found is not None and found.process is not None and found.process.host == "elsewhere"

    awaited(second_holds, "the second run to take over")
    before = sorted(done.glob("*.json"))
    os.kill(first.pid, signal.SIGCONT)
    code, told, _ = ended(first)
    assert code == 4
    assert "was taken over by an owner with pid" in told
    assert "on elsewhere" in told
    assert sorted(done.glob("*.json")) == before
    assert lock.holder(str(store)).process.host == "elsewhere"  # and keeps it

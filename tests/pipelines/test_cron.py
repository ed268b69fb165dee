"""Cron for real: a crontab that `dlcca pipeline install` wrote fires under Debian's cron, and a night is published.

All of it happens in a mount namespace of its own, with a spool of its own: the crontab of the machine is not touched.
So the commands of docs/how-to/scheduling.md, which install things, are given there as well.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import zarr

from tests.pipelines.nights import day_of, pipeline_file, recorded
from tests.support.doc_pages import ROOT

pytestmark = pytest.mark.slow

#: A minute until it fires, and time for a night.
PATIENCE_S = 180

#: Hides the spool and the tables of the machine, its units, and where its own cron would keep its number.
PRIVATE = """
mount --make-rprivate / &&
mount --bind "$1/spool" /var/spool/cron/crontabs &&
mount --bind "$1/empty" /etc/cron.d &&
mount --bind "$1/empty-table" /etc/crontab &&
{ [ ! -d /etc/systemd/system ] || mount --bind "$1/units" /etc/systemd/system; } &&
mount -t tmpfs tmpfs /run &&
shift && exec "$@"
"""


@pytest.fixture
def private(tmp_path):
    """A command that has another one run with a cron of its own; skips where that cannot be."""
    missing = [name for name in ("cron", "crontab", "unshare", "nsenter") if shutil.which(name) is None]
    if missing or not Path("/etc/crontab").exists():
        pytest.skip(f"{', '.join(missing) or '/etc/crontab'} is not there: apt-get install cron")
    if os.geteuid() != 0:
        pytest.skip("only root can start a cron")
    place = tmp_path / "cron"
    for name in ("spool", "empty", "units"):
        (place / name).mkdir(parents=True)
    (place / "empty-table").touch()
    command = ["unshare", "--mount", "sh", "-c", PRIVATE, "sh", str(place)]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")
    return command


@contextmanager
def cron(private: list[str]):
    """Debian's cron in a namespace; gives the command that has another one run in the same."""
    daemon = subprocess.Popen([*private, "cron", "-f"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while Path(f"/proc/{daemon.pid}/comm").read_text().strip() != "cron":  # unshare and sh become it
            assert daemon.poll() is None, "cron did not start"
            assert time.monotonic() < until, "cron did not start in time"
            time.sleep(0.05)
        yield ["nsenter", f"--mount=/proc/{daemon.pid}/ns/mnt"]
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(20)


def test_the_commands_of_the_page_on_scheduling_install_and_remove(tmp_path, private):
    """In one process within the namespace."""
    if not Path("/etc/systemd/system").is_dir():
        pytest.skip("there is no /etc/systemd/system that could be hidden, where root's units would go")
    file = pipeline_file(tmp_path / "laboratory")
    page = "d.do(d.ROOT / 'docs/how-to/scheduling.md')"
    tell = f"import subprocess as s; from tests.support import doc_pages as d; {page}"
    done = subprocess.run(
        [*private, sys.executable, "-c", f"{tell}; print(s.run(['crontab', '-l']).returncode)"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path / "config")},
        cwd=file.parent, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "dlcca" not in done.stdout  # what was put into the crontab is out of it again
    units = tmp_path / "cron" / "units"
    assert {path.name for path in units.glob("dlcca-*")} == {"dlcca-laboratory.service", "dlcca-laboratory.timer"}


def next_second() -> None:
    """Cron knows a change by the second in which it was made, and takes two within one for one: keep them apart."""
    time.sleep(1.1)


def table(inside: list[str]) -> str:
    return subprocess.run([*inside, "crontab", "-l"], capture_output=True, text=True, check=False).stdout


def ended_run(catalog: Path):
    """Verb and exit code of the first run that has ended."""
    if not catalog.exists():
        return None
    with closing(sqlite3.connect(catalog)) as base:
        if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():  # it is being made
            return None
        return base.execute("SELECT verb, exit_code FROM runs WHERE ended IS NOT NULL ORDER BY id").fetchone()


def test_a_crontab_entry_fires_and_ends_with_the_published_partition(tmp_path, private):
    machine = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False)
    file = pipeline_file(tmp_path / "laboratory")
    recorded(file.parent, 1)
    install = [sys.executable, "-m", "dlcca", "pipeline", "install", "--cron", str(file)]
    with cron(private) as inside:
        next_second()
        subprocess.run([*inside, "sh", "-c", "echo '# mine' | crontab -"], check=True)
        next_second()
        subprocess.run([*inside, *install, "--schedule", "* * * * *", "--apply"], check=True)
        written = table(inside)
        until = time.monotonic() + PATIENCE_S
        log = file.parent / "state" / "cron.log"
        while not (ended := ended_run(file.parent / "state" / "catalog.sqlite")):
            told = log.read_text() if log.exists() else "nothing"
            assert time.monotonic() < until, f"cron has not run it in time; it says: {told}"
            time.sleep(0.5)
        removed = subprocess.run([*inside, *install, "--remove", "--yes"], capture_output=True, text=True, check=True)
        left = table(inside)
        wait_until_quiet(file, until)

    assert written.startswith("# mine\n")
    assert "* * * * * cd " in written
    assert ended == ("run", 0)
    rows = zarr.open_group(str(file.parent / f"published/zarr/{day_of(1)}.zarr"), mode="r")["embedding"]
    assert rows.shape[0] == 640
    assert f"Published: {day_of(1)}." in log.read_text()
    assert (left, removed.stdout) == ("# mine\n", "Removed from crontab.\n")
    assert subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False).stdout == machine.stdout


def wait_until_quiet(file: Path, until: float) -> None:
    """Until nobody runs the pipeline any more: what cron has started outlives it."""
    while subprocess.run(["pgrep", "-f", f"pipeline run {file}"], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < until, "the pipeline still runs"
        time.sleep(0.2)

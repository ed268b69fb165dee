"""Processes that a test starts, kills and looks for afterwards, those included that they have started themselves."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
MARK = "DLCCA_TEST_PROCESS"
SHARED_MEMORY = "/dev/shm/"


@dataclass
class Family:
    """Processes that carry a mark in their environment and hand it on, so that they are found without their parents."""

    folder: Path  # for their logs and temporary files
    environment: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        """Run a module of Python (or whatever comes before it) with the mark; what it says goes to a file."""
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        ours = {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), MARK: self.mark}
        with open(self.folder / log, "ab") as said:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.folder,
                env={**os.environ, **single, **ours, **self.environment},
            )
        self._started.append(process)
        return process

    def alive(self) -> list[psutil.Process]:
        """Whoever carries the mark and is not dead."""
        for process in self._started:
            process.poll()  # or it would stay as a zombie
        return [process for process in psutil.process_iter() if _mark_of(process) == self.mark]

    def shared_memory(self) -> set[Path]:
        """Semaphores and memory that these processes share, by their files; empty where the system does not tell."""
        found = set()
        for process in self.alive():
            try:
                lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            except OSError:
                continue
            found |= {Path(line[line.index(SHARED_MEMORY) :]) for line in lines if SHARED_MEMORY in line}
        return {file for file in found if not file.name.endswith("(deleted)")}

    def scratch(self) -> list[Path]:
        """Folders that workers have left; of one that was killed, they go when the next worker starts."""
        return [file for file in (self.folder / "tmp").rglob("worker-*") if file.is_dir()]

    def await_end(self, patience_s: float = 30) -> list[psutil.Process]:
        """Wait until nobody is alive; those that are nevertheless."""
        end = time.monotonic() + patience_s
        while (left := self.alive()) and time.monotonic() < end:
            time.sleep(0.05)
        return left

    def end(self) -> None:
        """Kill whoever is alive."""
        for process in self.alive():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        for started in self._started:
            started.wait(timeout=30)
        self.await_end()


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None


def workers_below(pid: int) -> list[psutil.Process]:
    """Worker processes that a nanny in this process has started."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [child for child in children if "spawn_main" in " ".join(_command(child))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class Cluster:
    """A scheduler and workers, each with its nanny, as an administrator starts them; on loopback."""

    def __init__(self, family: Family, workers: int = 2) -> None:
        self.family, self.count = family, workers
        self.port = _free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.nannies: list[subprocess.Popen[bytes]] = []

    def mend(self) -> None:
        """Start what does not run; workers end by themselves when their scheduler is gone."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.stop()
            address = ("--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0")
            self.scheduler = self._started("dask_scheduler", *address, log="scheduler.log")
        self.nannies = [nanny for nanny in self.nannies if nanny.poll() is None]
        while len(self.nannies) < self.count:
            options = ("--host", "127.0.0.1", "--nthreads", "1", "--dashboard-address", "127.0.0.1:0")
            self.nannies.append(self._started("dask_worker", self.address, *options, log="workers.log"))

    def stop(self) -> None:
        """End all that runs, as a service manager does: asked first, killed after a while."""
        running = [process for process in (*self.nannies, self.scheduler) if process is not None]
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=20)

    def _started(self, program: str, *options: str, log: str) -> subprocess.Popen[bytes]:
        return self.family.start(sys.executable, "-m", f"distributed.cli.{program}", *options, log=log)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])

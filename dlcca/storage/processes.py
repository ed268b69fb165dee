"""Which process this is, in words that tell it from every other one; and whether another is still there."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process of some machine. A pid alone would not do: it is used again, and each container counts its own."""

    host: str
    boot: str  # a name of the time since the machine was started
    space: str  # within which the pid is counted
    pid: int
    started: str  # when, by the clock of its machine

    @property
    def is_nearby(self) -> bool:
        """Whether this process could see it."""
        return (self.host, self.boot, self.space) == surroundings()

    @property
    def is_there(self) -> bool:
        """Whether it still runs; only for one that is nearby."""
        return start_of(self.pid) == self.started


def this_process() -> Process:
    return Process(*surroundings(), os.getpid(), start_of(os.getpid()) or "")


@cache
def surroundings() -> tuple[str, str, str]:
    """Host, boot and space of this process."""
    return socket.gethostname(), _boot(), _space()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        import psutil  # type: ignore[import-untyped]

        return f"{psutil.boot_time():.0f}"


def _space() -> str:
    """The namespace of pids: those of another one cannot be asked for."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def start_of(pid: int) -> str | None:
    """When a process was started, as the system counts it; None if there is none, or it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _start_elsewhere(pid)
    except OSError:
        return _start_elsewhere(pid)
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return None if fields[0] in "ZX" else fields[19]  # a zombie waits for nothing but its parent


def _start_elsewhere(pid: int) -> str | None:
    """Where the system has no /proc."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.0f}"
    except psutil.NoSuchProcess:
        return None

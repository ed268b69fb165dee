"""One writer at a time: a lock in the store, with the process that owns it.

::

    run.zarr/stages/lock/00000.json   host, pid and start of the owner; its modification time is the last heartbeat

The file with the largest number is the lock. A process that finds its owner dead creates the file with the next number,
which only one can (`Files.create`), checks that nobody else has done so, and removes the earlier files. So two
processes never both own the lock, and none removes a file that another one has just created.

An owner on this machine is dead when its process has ended; the same pid with another start time is another process.
An owner on another machine is known only by its heartbeat, every `RENEW_S`; after `DEAD_S` without one, by the clock of
the storage, it counts as dead. It may still wake up, as a laptop that was closed for an hour: so an owner checks its
lock before it goes on, and stops if another process has taken over.
"""

import os
import random
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from dlcca.errors import DlccaError, StorageError, StoreInUse
from dlcca.storage.files import canonical, files_at, is_remote, local_path
from dlcca.storage.manifest import ZARR_JSON, group_json, sealed, unsealed

FOLDER = "stages/lock"
#: Between two heartbeats.
RENEW_S = 30.0
#: An owner on another machine counts as dead after this long without a heartbeat. Storage operations are retried for
#: two minutes.
DEAD_S = 300.0
#: Attempts of a process that competes with others, with pauses of up to a second.
ROUNDS = 8
_NAME = re.compile(r"\d{5,}\.json")


# Processes and owners.


@dataclass(frozen=True)
class Process:
    """A process of some machine. A pid alone is not enough: it is reused, and each container counts its own."""

    host: str
    boot: str  # identifies the time since the machine was started
    space: str  # the namespace of the pid
    pid: int
    started: str  # when, by the clock of its machine


def this_process() -> Process:
    return Process(*surroundings(), os.getpid(), start_of(os.getpid()) or "")


def surroundings() -> tuple[str, str, str]:
    """Host, boot and pid namespace of this process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = f"{psutil.boot_time():.0f}"
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return socket.gethostname(), boot, space


def start_of(pid: int) -> str | None:
    """When a process was started, as the system counts it; None if there is none, or it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()  # the name before may contain anything
        return None if fields[0] in "ZX" else fields[19]  # a zombie has ended
    except OSError as error:
        if isinstance(error, FileNotFoundError | ProcessLookupError) and Path("/proc/self/stat").exists():
            return None
    try:  # the system has no /proc
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.0f}"
    except psutil.NoSuchProcess:
        return None


@dataclass(frozen=True)
class Owner:
    """The owner of a store, by the file of its lock."""

    address: str
    number: int
    process: Process | None  # None if the file cannot be read
    doing: str = ""
    since: str = ""  # ISO 8601, UTC

    @property
    def name(self) -> str:
        return name_of(self.number)

    @property
    def silent_s(self) -> float | None:
        """Seconds since the last heartbeat; None if the lock has been removed."""
        return files_at(self.address).age_s(self.name)

    @property
    def is_dead(self) -> bool:
        process = self.process
        if process is not None and (process.host, process.boot, process.space) == surroundings():  # it can be seen
            return start_of(process.pid) != process.started
        silent = self.silent_s
        return silent is None or silent > DEAD_S

    def facts(self) -> dict[str, Any]:
        """For ``--json``."""
        process = {} if self.process is None else {"host": self.process.host, "pid": self.process.pid}
        age, silent = _seconds_since(self.since) if self.since else None, self.silent_s
        rounded = {name: None if s is None else round(s) for name, s in (("age_s", age), ("silent_s", silent))}
        return {**process, "doing": self.doing, "since": self.since, **rounded, "dead": self.is_dead}

    def sentence(self) -> str:
        """Which process it is and since when, for messages."""
        silent = self.silent_s
        heartbeat = "" if silent is None else f"; last heartbeat {duration(silent)} ago"
        if self.process is None:
            return f"somebody whose lock {self.address}/{self.name} cannot be read{heartbeat}"
        began = datetime.fromisoformat(self.since).astimezone()
        return (
            f"{self.doing or 'another process'} with pid {self.process.pid} on {self.process.host}, since "
            f"{began:%Y-%m-%d %H:%M:%S %Z} ({duration(_seconds_since(self.since))} ago{heartbeat})"
        )


def name_of(number: int) -> str:
    """The file of a lock."""
    return f"{FOLDER}/{number:05d}.json"


def numbers(address: str) -> list[int]:
    """The numbers of the lock files of a store, rising; the last one is the lock."""
    return sorted(int(name.removesuffix(".json")) for name in files_at(address).names(FOLDER) if _NAME.fullmatch(name))


def holder(address: str) -> Owner | None:
    """The owner of a store, alive or dead; None if there is none."""
    known = numbers(address)
    return read_owner(address, known[-1]) if known else None


def read_owner(address: str, number: int) -> Owner:
    """The owner by a lock file; one that cannot be read has an owner too."""
    found = files_at(address).get(name_of(number))
    try:
        content = unsealed(found or b"")
        process = Process(*(content[key] for key in ("host", "boot", "space", "pid", "started")))
        return Owner(address, number, process, content["doing"], content["since"])
    except (ValueError, KeyError):
        return Owner(address, number, None)


def _seconds_since(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


def duration(seconds: float) -> str:
    """A time, for messages."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


# The lock.


@dataclass
class Lock:
    """A lock that this process owns. A thread writes its heartbeat."""

    owner: Owner
    content: bytes
    place: str  # the canonical address
    generation: str  # unique among the locks of the store; a later one sorts behind, as far as clocks agree
    lost: StoreInUse | None = None
    _seen_at: float = field(default_factory=lambda: _clock())  # when it was last confirmed
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def keep(self) -> None:
        """Start the heartbeat."""
        self._thread = threading.Thread(target=self._heartbeat, name="dlcca-lock", daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """An error if another process has taken over; the storage is read if the last look is old, as after a sleep."""
        if self.lost is None and _clock() - self._seen_at > 2 * RENEW_S:
            self._look()
        if self.lost is not None:
            raise self.lost

    def release(self) -> None:
        """Remove the lock. That of a process that has taken over is left alone."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        with suppress(DlccaError, OSError):
            files_at(self.owner.address).delete(self.owner.name)
        if not is_remote(self.owner.address):
            with suppress(OSError):  # others are there
                (local_path(self.owner.address) / FOLDER).rmdir()

    def _heartbeat(self) -> None:
        while not self._over.wait(RENEW_S) and self.lost is None:
            try:
                self._look()
                if self.lost is None:
                    files_at(self.owner.address).renew(self.owner.name, self.content)
            except (DlccaError, OSError):
                continue  # the storage does not answer: writers get the error, and here it is tried again
        if self._over.is_set():  # it may have been renewed after its removal
            with suppress(DlccaError, OSError):
                files_at(self.owner.address).delete(self.owner.name)

    def _look(self) -> None:
        """Whether this is still the lock; twice, because a competitor that finds the owner alive withdraws at once."""
        for again in (True, False):
            found = holder(self.owner.address)
            is_last = found is not None and found.number == self.owner.number
            if is_last and files_at(self.owner.address).get(self.owner.name) == self.content:
                self._seen_at = _clock()
                return
            if again:
                time.sleep(1)
        taker = "Its lock was removed" if found is None else f"It was taken over by {found.sentence()}"
        self.lost = StoreInUse(
            f"{self.owner.address} is no longer locked by this process. {taker}: this one had sent no heartbeat for "
            "too long. Was it suspended? It stops before both write at the same time; what is finished is kept."
        )


#: The locks of the caller; another thread of the same process has its own.
_HELD: ContextVar[tuple[Lock, ...]] = ContextVar("held", default=())


@contextmanager
def held(address: str, doing: str) -> Iterator[Lock]:
    """Own the store at an address, and everything below it, until the end of the block.

    ``doing`` is shown to other processes. A store that the caller owns already, or that is inside one, is not locked
    again.
    """
    outer = _held_by_caller(address)
    if outer is not None:
        yield outer
        return
    folders = [] if is_remote(address) else [local_path(address) / "stages", local_path(address)]
    created = [folder for folder in folders if not folder.exists()]
    try:
        lock = _acquired(address, doing)
        lock.keep()
        token = _HELD.set((*_HELD.get(), lock))
        try:
            yield lock
        finally:
            _HELD.reset(token)
            lock.release()
    finally:
        for folder in created:
            if folder.name == "stages" and files_at(address).get(ZARR_JSON) == group_json({}):
                break  # an error came before the first stage was made: this folder identifies the store as ours
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def confirm(address: str) -> None:
    """An error if the caller has owned the store and another process has taken it over."""
    lock = _held_by_caller(address)
    if lock is not None:
        lock.confirm()


def generation(address: str) -> str:
    """The generation of the caller's lock of the store; empty if it has none."""
    lock = _held_by_caller(address)
    return "" if lock is None else lock.generation


def refuse_others(address: str) -> None:
    """An error if another live process owns the store."""
    found = None if _held_by_caller(address) is not None else holder(address)
    if found is not None and not found.is_dead:
        raise _in_use(found)


def _in_use(by: Owner) -> StoreInUse:
    return StoreInUse(
        f"{by.address} is in use by {by.sentence()}. Two at once would overwrite each other: wait for it to end and "
        "run the same command again, or give another store. If it has died, this is detected at once on its own "
        f"machine, and on others {duration(DEAD_S)} after its last heartbeat: then run again."
    )


def _acquired(address: str, doing: str) -> Lock:
    files = files_at(address)
    for _ in range(ROUNDS):
        known = numbers(address)
        if known and not (found := read_owner(address, known[-1])).is_dead:
            raise _in_use(found)
        now, token, process = datetime.now(UTC), uuid.uuid4().hex, this_process()
        mine = Owner(address, known[-1] + 1 if known else 0, process, doing, now.isoformat(timespec="seconds"))
        content = sealed({**asdict(process), "doing": doing, "since": mine.since, "token": token})
        if not files.create(mine.name, content):
            continue  # another process was faster
        # Another one may have listed the locks at the same time: if it found none, it has counted from 0.
        others = [number for number in numbers(address) if number not in (*known, mine.number)]
        if all(read_owner(address, number).is_dead for number in others):
            for number in known:
                files.delete(name_of(number))
            return Lock(mine, content, canonical(address), f"{now:%Y%m%dT%H%M%S.%fZ}-{token[:12]}")
        files.delete(mine.name)
        time.sleep(random.uniform(0.1, 1))
    raise StorageError(f"{address} cannot be locked: other processes try at the same time. Run again.")


def _held_by_caller(address: str) -> Lock | None:
    """The lock by which the caller owns a store or one around it."""
    held_now = _HELD.get()
    place = canonical(address) if held_now else ""
    return next((lock for lock in held_now if place == lock.place or place.startswith(f"{lock.place}/")), None)


def _clock() -> float:
    """Seconds that also pass while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()

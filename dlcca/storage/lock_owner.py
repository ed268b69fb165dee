"""Who holds a store, read from the files of its lock: which process, since when, and whether it is dead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dlcca.storage import exclusive_create
from dlcca.storage.checksummed_json import unsealed
from dlcca.storage.files import files_at
from dlcca.storage.processes import Process

FOLDER = "stages/lock"
#: After so long without a sign of life an owner on another machine counts as dead. A storage that does not answer is
#: asked for two minutes.
DEAD_S = 300.0
_NAME = re.compile(r"\d{5,}\.json")


@dataclass(frozen=True)
class Owner:
    """Who holds a store, as its lock says."""

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
        """Seconds since its last sign of life; None if the lock is gone meanwhile."""
        return exclusive_create.age_s(self.address, self.name)

    @property
    def is_dead(self) -> bool:
        if self.process is not None and self.process.is_nearby:
            return not self.process.is_there
        silent = self.silent_s
        return silent is None or silent > DEAD_S

    def facts(self) -> dict[str, Any]:
        """For machines."""
        process = {} if self.process is None else {"host": self.process.host, "pid": self.process.pid}
        age = None if not self.since else round(_seconds_since(self.since))
        known = {**process, "doing": self.doing, "since": self.since, "age_s": age}
        return {**known, "silent_s": None if (s := self.silent_s) is None else round(s), "dead": self.is_dead}

    def sentence(self) -> str:
        """Who it is and since when, for people."""
        silent = self.silent_s
        sign = "" if silent is None else f"; last sign of life {told(silent)} ago"
        if self.process is None:
            return f"somebody whose lock {self.address}/{self.name} cannot be read{sign}"
        began = datetime.fromisoformat(self.since).astimezone()
        return (
            f"{self.doing or 'another process'} with pid {self.process.pid} on {self.process.host}, since "
            f"{began:%Y-%m-%d %H:%M:%S %Z} ({told(_seconds_since(self.since))} ago{sign})"
        )


def name_of(number: int) -> str:
    """The file of a lock."""
    return f"{FOLDER}/{number:05d}.json"


def numbers(address: str) -> list[int]:
    """Of the locks of a store, rising; the last one holds."""
    return sorted(int(name.removesuffix(".json")) for name in files_at(address).names(FOLDER) if _NAME.fullmatch(name))


def holder(address: str) -> Owner | None:
    """Who holds a store, alive or dead; None if nobody does."""
    known = numbers(address)
    return read(address, known[-1]) if known else None


def read(address: str, number: int) -> Owner:
    """The owner of a lock; one that cannot be read has an owner too."""
    found = files_at(address).get(name_of(number))
    try:
        content = unsealed(found or b"")
        process = Process(*(content[key] for key in ("host", "boot", "space", "pid", "started")))
        return Owner(address, number, process, content["doing"], content["since"])
    except (ValueError, KeyError):
        return Owner(address, number, None)


def _seconds_since(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


def told(seconds: float) -> str:
    """A time, for people."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"

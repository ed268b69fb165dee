"""What tells without opening a file that it has not changed."""

from __future__ import annotations

import os
import stat as kinds
from dataclasses import dataclass


@dataclass(frozen=True)
class Stat:
    """How a file looks from outside."""

    size: int
    stamp: str
    changed: float | None  # seconds since 1970; None where a storage does not tell


def stat_of(path: str) -> Stat | None:
    """Of a file, or of all files in a folder that is a recording; None if there is neither (any more)."""
    try:
        found = os.stat(path)
        if kinds.S_ISDIR(found.st_mode):
            return _stat_of_folder(path)
    except OSError:
        return None
    if not kinds.S_ISREG(found.st_mode):  # who opened a pipe or a device would wait for ever
        return None
    # The time of the last change of the entry tells even of a copy whose date was set back.
    stamp = f"{found.st_mtime_ns}.{found.st_ctime_ns}"
    return Stat(found.st_size, stamp, max(found.st_mtime, found.st_ctime))


def _stat_of_folder(path: str) -> Stat:
    inner = [os.stat(os.path.join(where, name)) for where, _, names in os.walk(path) for name in names]
    latest = max((max(each.st_mtime, each.st_ctime) for each in inner), default=os.stat(path).st_mtime)
    return Stat(sum(each.st_size for each in inner), f"{len(inner)}.{latest}", latest)


def stamp_of(parts: list[str]) -> str:
    """Of all files of a recording together."""
    return " ".join(found.stamp for path in parts if (found := stat_of(path)) is not None)

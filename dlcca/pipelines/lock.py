"""One driver at a time: a lock that the system releases, however its holder ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dlcca.errors import StorageError


class Busy(StorageError):
    """Another driver is at work."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock, or say at once that somebody else does.

    It is the write lock of an empty SQLite database: on every system the locks of a process that was killed are gone,
    and no stale file is left that somebody would have to remove.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        base = sqlite3.connect(path, timeout=0, isolation_level=None)
    except (sqlite3.DatabaseError, OSError) as error:
        raise StorageError(f"the lock {path} cannot be opened: {error}.") from error
    try:
        try:
            base.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Busy("another driver of this pipeline is at work") from error
            raise StorageError(f"the lock {path} cannot be taken: {error}.") from error
        yield
    finally:
        base.close()

"""Recordings in object storage: listed, looked at and copied, with the patience that stores have."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines.stats import Stat
from dlcca.storage.files import files_at
from dlcca.storage.retry import patiently

#: Read at a time.
CHUNK_BYTES = 1 << 20


def _system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the name of the object in it."""
    at: Any = files_at(address)
    return at.fs, at.root


def listed(pattern: str, known_before: bool = False) -> Iterator[tuple[str, Stat]]:
    """Objects whose names match; a prefix without any * stands for all that is below it.

    A prefix that holds nothing is empty, as object storage has no folders; a bucket that is not there is an error.
    """
    protocol, _, rest = pattern.partition("://")
    magic = glob.has_magic(pattern)
    base = re.split(r"[*?\[]", rest, maxsplit=1)[0].rpartition("/")[0] if magic else rest.rstrip("/")
    fs, root = _system(f"{protocol}://{base}")

    def find() -> dict[str, Any]:
        try:
            return dict(fs.find(root, detail=True))
        except FileNotFoundError:
            return {}

    found = patiently(f"the source {pattern} cannot be listed", find)
    if not found:
        _refuse_absent(fs, rest.partition("/")[0], pattern, known_before)
    wanted = _matcher(rest) if magic else None
    for name in sorted(found):
        if (wanted is None or wanted(name)) and not name.endswith("/"):
            yield f"{protocol}://{name}", _stat(found[name])


def _refuse_absent(fs: Any, bucket: str, pattern: str, known_before: bool) -> None:
    if not bucket or patiently(f"the source {pattern} cannot be looked at", lambda: fs.exists(bucket)):
        return
    if known_before:
        raise StorageError(f"the bucket {bucket} of {pattern} is not there, though it was. Nothing was changed.")
    raise SettingsError(f"[sources] files = {pattern!r}: there is no bucket {bucket}. Mend the address, or make it.")


def _matcher(pattern: str) -> Callable[[str], Any]:
    """As for files: a * does not cross a /, a ** does."""
    parts = [fnmatch.translate(part)[4:-3].replace(".*", "[^/]*") for part in pattern.split("**/")]
    return re.compile("(?:.*/)?".join(parts)).fullmatch


def stat_of(address: str) -> Stat | None:
    """Of one object; None if it is not there."""
    fs, name = _system(address)

    def ask() -> Any:
        try:
            return fs.info(name)
        except FileNotFoundError:
            return None

    found = patiently(f"{address} cannot be looked at", ask)
    return None if found is None else _stat(found)


def _stat(info: dict[str, Any]) -> Stat:
    changed = info.get("LastModified") or info.get("mtime") or info.get("created")
    if isinstance(changed, datetime):
        changed = (changed if changed.tzinfo else changed.replace(tzinfo=UTC)).timestamp()
    stamp = info.get("ETag") or info.get("etag") or changed
    return Stat(int(info.get("size") or 0), str(stamp), None if changed is None else float(changed))


def digest(address: str) -> str:
    """SHA-256 of an object, read part by part."""
    fs, name = _system(address)

    def read() -> str:
        made = hashlib.sha256()
        with fs.open(name, "rb") as file:
            while part := file.read(CHUNK_BYTES):
                made.update(part)
        return made.hexdigest()

    return patiently(f"{address} cannot be read", read)


def copy(address: str, place: Path) -> None:
    """An object as a file here."""
    fs, name = _system(address)
    place.parent.mkdir(parents=True, exist_ok=True)
    patiently(f"{address} cannot be read", lambda: fs.get_file(name, str(place)))

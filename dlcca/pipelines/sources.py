"""Files of recordings, on this machine or in object storage: listed, checked for changes, hashed and copied."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines.settings import SourceSection
from dlcca.storage.files import files_at
from dlcca.storage.retry import with_retries


@dataclass(frozen=True)
class Stat:
    """What is known of a file without opening it."""

    size: int
    stamp: str  # changes when the file changes
    changed: float | None  # seconds since 1970; None where the storage does not report it


@dataclass(frozen=True)
class Seen:
    """A recording in a listing: its main file and those that belong to it.

    Paths are as in [sources] files: relative to the folder of pipeline.toml if the pattern is.
    """

    path: str  # of the main file
    parts: tuple[str, ...]  # all files, the main one first; sidecars last
    n_read: int  # how many of them are opened; the others are sidecars
    size: int
    stamp: str
    changed: float | None  # the last change of any of them
    missing: str = ""  # a companion that does not exist (yet)


def seen(sources: SourceSection, folder: Path, known_before: bool) -> Iterator[Seen]:
    """All recordings that match the patterns, sorted by name.

    ``known_before`` says whether the sources have ever contained a file. If not, a missing folder is an error in the
    settings; if so, a disk that is not mounted.
    """
    found: set[str] = set()
    for pattern in sources.files:
        for path, main in _list(pattern, folder, known_before):
            if path not in found:
                found.add(path)
                yield _with_companions(path, main, pattern, sources, folder)


def _list(pattern: str, folder: Path, known_before: bool) -> Iterator[tuple[str, Stat]]:
    if is_object(pattern):
        yield from _list_objects(pattern, known_before)
        return
    full = str(folder / pattern)
    _refuse_missing(_root(full), pattern, known_before)
    for path in sorted(glob.iglob(full, recursive=True)):
        found = _stat_file(path)
        if found is not None:
            yield _as_named(path, pattern, folder), found


def _as_named(path: str, pattern: str, folder: Path) -> str:
    """A path found by a pattern, relative to the folder if the pattern is."""
    return path if os.path.isabs(pattern) else path.removeprefix(os.path.join(str(folder), ""))


def _root(pattern: str) -> Path:
    """The folder above all wildcards."""
    root = Path(pattern)
    while glob.has_magic(str(root)):
        root = root.parent
    return root


def closed_folders(sources: SourceSection, folder: Path) -> dict[str, str]:
    """Folders below the sources that cannot be read, each with the reason."""
    closed: dict[str, str] = {}
    for pattern in sources.files:
        where = str(folder / pattern).rpartition("/")[0]
        if is_object(pattern) or not glob.has_magic(where):
            continue  # a single folder, which was listed, or object storage, which has no folders
        errors: list[OSError] = []
        for inner, folders, _names in os.walk(_root(where), onerror=errors.append):
            folders[:] = [name for name in folders if not name.startswith(".")]  # no pattern matches these
            try:
                os.stat(f"{inner}/.")
            except OSError as error:
                errors.append(error)
        paths = [_as_named(error.filename.removesuffix("/."), pattern, folder) for error in errors]
        closed |= {path: error.strerror or str(error) for path, error in zip(paths, errors, strict=True)}
    return closed


def _refuse_missing(root: Path, pattern: str, known_before: bool) -> None:
    try:
        if root.is_dir():
            os.scandir(root).close()
            os.stat(f"{root}/.")  # a folder that can be listed may still not be entered
            return
        if root.exists():
            return
    except OSError as error:
        raise StorageError(f"the source {root} cannot be read: {error.strerror or error}.") from error
    if known_before:
        raise StorageError(f"the source {root} no longer exists: is its disk mounted? Nothing was changed.")
    raise SettingsError(f"[sources] files = {pattern!r}: there is no folder {root}. Correct the path, or create it.")


def _with_companions(path: str, main: Stat, pattern: str, sources: SourceSection, folder: Path) -> Seen:
    parts, stats, missing = [path], [main], ""
    for form in (*sources.companions, *sources.sidecars):
        parts.append(_companion(path, pattern, form))
        found = _stat(parts[-1], folder)
        if found is None:
            missing = missing or parts[-1]
        else:
            stats.append(found)
    return Seen(
        path=path,
        parts=tuple(parts),
        n_read=1 + len(sources.companions),
        size=sum(found.size for found in stats),
        stamp=" ".join(found.stamp for found in stats),
        changed=max((found.changed for found in stats if found.changed is not None), default=None),
        missing=missing,
    )


def _companion(path: str, pattern: str, form: str) -> str:
    """The companion of a file: its name is ``form``, with the text that the * of the pattern stands for."""
    before, _, after = pattern.rsplit("/", 1)[-1].partition("*")
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{form.replace('*', name[len(before) : len(name) - len(after)])}"


def why_incomplete(found: Seen, sources: SourceSection, folder: Path, now: datetime, unchanged: bool) -> str:
    """Why a recording is not complete yet; "" if it is. ``unchanged``: the last listing had the same file."""
    if found.missing:
        return f"its companion {os.path.basename(found.missing)} does not exist yet"
    if found.size == 0:
        return "it is empty"
    if sources.complete == "marker":
        place, slash, name = found.path.rpartition("/")
        marker = sources.marker.replace("*", name)
        exists = _stat(f"{place}{slash}{marker}", folder) is not None
        return "" if exists else f"its marker {marker} does not exist yet"
    if found.changed is None:
        return "" if unchanged else "it was seen for the first time"
    age = now.timestamp() - found.changed
    if age >= sources.settle_s or (age < 0 and unchanged):  # from the future: the clock was set back
        return ""
    when = f"{age:.0f} s ago" if age >= 0 else "in the future of this machine's clock"
    return f"it changed {when}, and settle_s = {sources.settle_s:g}"


def names_of(paths: Iterable[str], most: int = 3) -> str:
    """The first names of some paths, for messages."""
    names = [os.path.basename(path) for path in paths]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _stat(path: str, folder: Path) -> Stat | None:
    return _stat_object(path) if is_object(path) else _stat_file(os.path.join(folder, path))


def _stat_file(path: str) -> Stat | None:
    """Of a file, or of all files in a folder that is a recording; None if it does not exist or is a device."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            return _stat_folder(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):  # opening a pipe or a device could block forever
        return None
    # ctime also changes for a copy with an old modification time.
    stamp = f"{found.st_mtime_ns}.{found.st_ctime_ns}"
    return Stat(found.st_size, stamp, max(found.st_mtime, found.st_ctime))


def _stat_folder(path: str) -> Stat:
    inner = [os.stat(os.path.join(where, name)) for where, _, names in os.walk(path) for name in names]
    latest = max((max(each.st_mtime, each.st_ctime) for each in inner), default=os.stat(path).st_mtime)
    return Stat(sum(each.st_size for each in inner), f"{len(inner)}.{latest}", latest)


def has_stamp(parts: Sequence[str], stamp: str) -> bool:
    """Whether the files of a recording still have a stamp; objects are replaced as a whole, and not checked."""
    if any(is_object(path) for path in parts):
        return True
    return stamp == " ".join(found.stamp for path in parts if (found := _stat_file(path)) is not None)


def digest(parts: Sequence[str]) -> str:
    """SHA-256 of the content of all files of a recording, whatever their names."""
    each = [_digest(path) for path in parts]
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def _digest(path: str) -> str:
    if is_object(path):
        fs, name = _file_system(path)
        return with_retries(f"{path} cannot be read", lambda: _sha256(fs.open(name, "rb")))
    return _digest_folder(path) if os.path.isdir(path) else _digest_file(path)


def _sha256(opened: Any) -> str:
    with opened as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_file(path: str) -> str:
    try:
        return _sha256(open(path, "rb"))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error


def _digest_folder(path: str) -> str:
    """Of a recording that is a folder, such as Zarr, including the names in it."""
    made = hashlib.sha256()
    for where, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            inner = os.path.join(where, name)
            made.update(f"{os.path.relpath(inner, path)} {_digest_file(inner)}\n".encode())
    return made.hexdigest()


def local_files(parts: Sequence[str], scratch: Path) -> list[str]:
    """The files on this machine: as they are, or copied from object storage to a folder."""
    found = []
    for path in parts:
        if is_object(path):
            scratch.mkdir(parents=True, exist_ok=True)
            copy = str(scratch / path.rsplit("/", 1)[-1])
            fs, name = _file_system(path)
            with_retries(f"{path} cannot be read", partial(fs.get_file, name, copy))
            path = copy
        found.append(path)
    return found


# Object storage.


def is_object(path: str) -> bool:
    """Whether a path is an address in object storage."""
    return "://" in path


def _file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the name of the object in it."""
    at: Any = files_at(address)
    return at.fs, at.root


def _list_objects(pattern: str, known_before: bool) -> Iterator[tuple[str, Stat]]:
    """Objects whose names match; a prefix without wildcards stands for all objects below it.

    An empty prefix contains no objects; a missing bucket is an error.
    """
    protocol, _, rest = pattern.partition("://")
    magic = glob.has_magic(pattern)
    base = re.split(r"[*?\[]", rest, maxsplit=1)[0].rpartition("/")[0] if magic else rest.rstrip("/")
    fs, root = _file_system(f"{protocol}://{base}")

    def find() -> dict[str, Any]:
        try:
            return dict(fs.find(root, detail=True))
        except FileNotFoundError:
            return {}

    found = with_retries(f"the source {pattern} cannot be listed", find)
    if not found:
        _refuse_missing_bucket(fs, rest.partition("/")[0], pattern, known_before)
    matches = _matcher(rest) if magic else None
    for name in sorted(found):
        if (matches is None or matches(name)) and not name.endswith("/"):
            yield f"{protocol}://{name}", _stat_of(found[name])


def _refuse_missing_bucket(fs: Any, bucket: str, pattern: str, known_before: bool) -> None:
    if not bucket or with_retries(f"the source {pattern} cannot be listed", lambda: fs.exists(bucket)):
        return
    if known_before:
        raise StorageError(f"the bucket {bucket} of {pattern} no longer exists. Nothing was changed.")
    raise SettingsError(f"[sources] files = {pattern!r}: there is no bucket {bucket}. Correct the address, or make it.")


def _matcher(pattern: str) -> Callable[[str], Any]:
    """As for files: * does not match a /, and ** does."""
    parts = [fnmatch.translate(part)[4:-3].replace(".*", "[^/]*") for part in pattern.split("**/")]
    return re.compile("(?:.*/)?".join(parts)).fullmatch


def _stat_object(address: str) -> Stat | None:
    fs, name = _file_system(address)

    def info() -> Any:
        try:
            return fs.info(name)
        except FileNotFoundError:
            return None

    found = with_retries(f"{address} cannot be read", info)
    return None if found is None else _stat_of(found)


def _stat_of(info: dict[str, Any]) -> Stat:
    changed = info.get("LastModified") or info.get("mtime") or info.get("created")
    if isinstance(changed, datetime):
        changed = (changed if changed.tzinfo else changed.replace(tzinfo=UTC)).timestamp()
    stamp = info.get("ETag") or info.get("etag") or changed
    return Stat(int(info.get("size") or 0), str(stamp), None if changed is None else float(changed))

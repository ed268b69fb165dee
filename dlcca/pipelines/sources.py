"""Files of recordings, on this machine or in object storage: listed, checked for changes, hashed and copied."""

import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines.settings import SourceSection
from dlcca.storage.files import files_at, is_remote, storage_errors
from dlcca.storage.retry import with_retries


class Stat(NamedTuple):
    """What is known of a file without opening it."""

    size: int
    stamp: str  # changes when the file changes
    changed: float | None  # seconds since 1970; None where the storage does not report it
    modified: float | None  # the same, of the content alone


@dataclass(frozen=True)
class Seen:
    """A recording in a listing: its main file and those that belong to it."""

    path: str  # of the main file; like all paths here, relative to the folder of pipeline.toml if the pattern is
    parts: tuple[str, ...]  # all files, the main one first; sidecars last
    n_read: int  # how many of them are opened; the others are sidecars
    size: int
    stamp: str
    changed: float | None  # the last change of any of them
    modified: float | None = None  # that of the content of the main file
    missing: str = ""  # a companion that does not exist (yet)


def seen(sources: SourceSection, folder: Path, known_before: bool) -> Iterator[Seen]:
    """All recordings that match the patterns, by name; ``known_before``: the sources have contained a file before."""
    found: set[str] = set()
    for pattern in sources.files:
        listed = _list_objects(pattern, known_before) if is_remote(pattern) else _list(pattern, folder, known_before)
        for path, main in listed:
            if path not in found:
                found.add(path)
                yield _with_companions(path, main, pattern, sources, folder)


def _list(pattern: str, folder: Path, known_before: bool) -> Iterator[tuple[str, Stat]]:
    _refuse_missing(_root(str(folder / pattern)), pattern, known_before)
    for path in sorted(glob.iglob(str(Path(pattern)), root_dir=folder, recursive=True)):
        if found := _stat_file(os.path.join(folder, path)):
            yield path, found


def _root(pattern: str) -> Path:
    """The folder above all wildcards."""
    return next(path for path in (Path(pattern), *Path(pattern).parents) if not glob.has_magic(str(path)))


def closed_folders(sources: SourceSection, folder: Path) -> dict[str, str]:
    """Folders below the sources that cannot be read, each with the reason."""
    closed: dict[str, str] = {}
    for pattern in sources.files:
        where = str(folder / pattern).rpartition("/")[0]
        if is_remote(pattern) or not glob.has_magic(where):
            continue  # a single folder, which was listed, or object storage, which has no folders
        errors: list[OSError] = []
        for inner, folders, _names in os.walk(_root(where), onerror=errors.append):
            folders[:] = [name for name in folders if not name.startswith(".")]  # no pattern matches these
            try:
                os.stat(f"{inner}/.")
            except OSError as error:
                errors.append(error)
        for failure in errors:
            path = failure.filename.removesuffix("/.")
            path = path if os.path.isabs(pattern) else os.path.relpath(path, folder)
            closed[path] = failure.strerror or str(failure)
    return closed


def _refuse_missing(root: Path, pattern: str, known_before: bool) -> None:
    with storage_errors(f"the source {root}", "read"):
        if root.is_dir():
            os.scandir(root).close()
            os.stat(f"{root}/.")  # a folder that can be listed may still not be entered
        if root.exists():
            return
    if known_before:  # and not a wrong setting
        raise StorageError(f"the source {root} no longer exists: is its disk mounted? Nothing was changed.")
    raise SettingsError(f"[sources] files = {pattern!r}: there is no folder {root}. Correct the path, or create it.")


def _with_companions(path: str, main: Stat, pattern: str, sources: SourceSection, folder: Path) -> Seen:
    place, slash, name = path.rpartition("/")
    before, _, after = pattern.rsplit("/", 1)[-1].partition("*")
    star = name[len(before) : len(name) - len(after)]  # what the * of the pattern stands for
    forms = (*sources.companions, *sources.sidecars)
    parts = (path, *(f"{place}{slash}{form.replace('*', star)}" for form in forms))
    stats = [main, *(_stat(part, folder) for part in parts[1:])]
    exist = [found for found in stats if found is not None]
    size, stamp = sum(found.size for found in exist), " ".join(found.stamp for found in exist)
    changed = max((found.changed for found in exist if found.changed is not None), default=None)
    missing = next((part for part, found in zip(parts, stats, strict=True) if found is None), "")
    return Seen(path, parts, 1 + len(sources.companions), size, stamp, changed, main.modified, missing)


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
    if not is_remote(path):
        return _stat_file(os.path.join(folder, path))
    found = _in_storage(path, "read", lambda fs, name: fs.info(name), missing_ok=True)
    return None if found is None else _stat_of(found)


def _stat_file(path: str) -> Stat | None:
    """Of a file, or of all files in a folder that is a recording; None if it does not exist or is a device."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            inner = [os.stat(os.path.join(where, name)) for where, _, names in os.walk(path) for name in names]
            latest = max((max(each.st_mtime, each.st_ctime) for each in inner), default=found.st_mtime)
            return Stat(sum(each.st_size for each in inner), f"{len(inner)}.{latest}", latest, found.st_mtime)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):  # opening a pipe or a device could block forever
        return None
    # ctime also changes for a copy with an old modification time.
    stamp = f"{found.st_mtime_ns}.{found.st_ctime_ns}"
    return Stat(found.st_size, stamp, max(found.st_mtime, found.st_ctime), found.st_mtime)


def has_stamp(parts: Sequence[str], stamp: str) -> bool:
    """Whether the files of a recording still have a stamp; objects are replaced as a whole, and not checked."""
    if any(map(is_remote, parts)):
        return True
    return stamp == " ".join(found.stamp for path in parts if (found := _stat_file(path)) is not None)


def digest(parts: Sequence[str]) -> str:
    """SHA-256 of the content of all files of a recording, whatever their names."""
    each = [_digest(path) for path in parts]
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def _digest(path: str) -> str:
    if os.path.isdir(path):  # a recording that is a folder, such as Zarr; including the names in it
        made = hashlib.sha256()
        for where, folders, names in os.walk(path):
            folders.sort()
            for inner in (os.path.join(where, name) for name in sorted(names)):
                made.update(f"{os.path.relpath(inner, path)} {_digest(inner)}\n".encode())
        return made.hexdigest()
    with storage_errors(path, "read"):  # also if it was removed since it was listed
        if is_remote(path):
            return _in_storage(path, "read", lambda fs, name: _sha256(fs.open(name, "rb")))
        return _sha256(open(path, "rb"))


def _sha256(opened: Any) -> str:
    with opened as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def local_files(parts: Sequence[str], scratch: Path) -> list[str]:
    """The files on this machine: as they are, or copied from object storage to a folder."""
    found = []
    for path in parts:
        if is_remote(path):
            scratch.mkdir(parents=True, exist_ok=True)
            copy = str(scratch / path.rsplit("/", 1)[-1])
            _in_storage(path, "read", lambda fs, name, copy=copy: fs.get_file(name, copy))
            path = copy
        found.append(path)
    return found


def _in_storage(address: str, done: str, operation: Callable[..., Any], *, missing_ok: bool = False) -> Any:
    """The result, with retries, of an operation on the file system of an address and the name of the object in it."""
    at: Any = files_at(address)

    def attempt() -> Any:
        with suppress(*[FileNotFoundError] * missing_ok):
            return operation(at.fs, at.root)

    return with_retries(f"{address} cannot be {done}", attempt)


def _list_objects(pattern: str, known_before: bool) -> Iterator[tuple[str, Stat]]:
    """Objects whose names match, or all below a prefix without wildcards; a missing bucket is an error."""
    protocol, _, rest = pattern.partition("://")
    bucket, magic = rest.partition("/")[0], glob.has_magic(pattern)
    base = re.split(r"[*?\[]", rest, maxsplit=1)[0].rpartition("/")[0] if magic else rest.rstrip("/")
    address = f"{protocol}://{base}"
    found = _in_storage(address, "listed", lambda fs, root: fs.find(root, detail=True), missing_ok=True) or {}
    if not found and bucket and not _in_storage(address, "listed", lambda fs, _: fs.exists(bucket)):
        if known_before:
            raise StorageError(f"the bucket {bucket} of {pattern} no longer exists. Nothing was changed.")
        hint = "Correct the address, or make it."
        raise SettingsError(f"[sources] files = {pattern!r}: there is no bucket {bucket}. {hint}")
    # As for files: * does not match a /, and ** does.
    parts = [fnmatch.translate(part)[4:-3].replace(".*", "[^/]*") for part in rest.split("**/")]
    matches = re.compile("(?:.*/)?".join(parts)).fullmatch
    for name in sorted(found):
        if (not magic or matches(name)) and not name.endswith("/"):
            yield f"{protocol}://{name}", _stat_of(found[name])


def _stat_of(info: dict[str, Any]) -> Stat:
    changed = info.get("LastModified") or info.get("mtime") or info.get("created")
    if isinstance(changed, datetime):
        changed = (changed if changed.tzinfo else changed.replace(tzinfo=UTC)).timestamp()
    stamp = str(info.get("ETag") or info.get("etag") or changed)
    changed = None if changed is None else float(changed)
    return Stat(int(info.get("size") or 0), stamp, changed, changed)

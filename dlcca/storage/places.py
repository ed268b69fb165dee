"""Whether something may be written at a place: checked before anything is created there, also a lock.

A store is created at a free place, in an empty folder, or where a store of the same format exists, finished or not. A
file is replaced only if it is an earlier output of the same kind. Anything else is refused, with a description of what
was found. A store may not be, contain or lie inside one of its inputs, and nothing is written into a Zarr array or into
another store.

An unfinished store has no header yet, and the header of a finished one may be damaged. Both are recognized by the
records of their stages: a sealed ``stages/NAME/stage.json``. If an error came before the first one was written, the
store is recognized by its lock, its log, the folder of its first stage or a store inside it, if there is nothing else.
"""

import glob
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dlcca.errors import SettingsError, StorageError
from dlcca.storage import lock
from dlcca.storage.files import canonical, files_at, is_remote, local_path, storage_errors
from dlcca.storage.formats import FORMATS, Format
from dlcca.storage.manifest import ATTEMPT, OF_RECORDINGS, ZARR_JSON, attributes_in, group_json, node_in, readable
from dlcca.storage.retry import with_retries

RECORDINGS = "recordings"
#: The first stages of stores that are made block by block.
_FIRST_STAGES = ("scan", "drafts", "transform")
#: The format of the store that a stage belongs to; other stages are those of a run.
_FORMAT_OF_STAGE = {**dict.fromkeys(OF_RECORDINGS, "dlcca-views"), "transform": "dlcca-transformed"}
#: All names at the top of a store that is made block by block.
_NAMES = {
    *(ZARR_JSON, "stages", RECORDINGS, "log", "model", "compare", "quality", "embedding", "time", "reason"),
    *("strength", "eigenvalues", "landmarks", "distance", "outside", "segment", "rows", "views", "columns", "scaling"),
}
#: What a killed process leaves of a file that was being written, or of a check of its workers.
_SCRATCH = re.compile(r"(\..+\.|check-)[0-9a-f]{32}")
#: Keys that every header of a store has; one that is damaged still has most of them.
_HEADER_KEYS = ("format", "version", "checksum")


@dataclass(frozen=True)
class Found:
    """What is at a place."""

    description: str = ""  # for messages; "" if nothing is there, or an empty folder
    format: str = ""  # of a store of dlcca
    finished: bool = False  # whether the store has its header

    @property
    def is_free(self) -> bool:
        return not self.description

    def is_store(self, format: str) -> bool:
        """Whether it is a store of this format; of an unfinished one the format may not be known yet."""
        return self.format in (format, _ANY) if not self.finished else self.format == format


#: The format of an unfinished store of which only the lock, or the recordings, are there.
_ANY = "dlcca"


#: Files and stores, by paths or addresses.
Places = Iterable[str | Path]


def refuse_store(
    address: str | Path, form: Format, *, inputs: Places = (), setting: str = "path", replace: bool = False
) -> None:
    """An error unless a store of this format may be written at an address.

    ``inputs`` are addresses of everything that the store is made from, including the model; ``setting`` is what the
    user has to change. With ``replace`` the store is written as a whole, and one that is there is removed: it may not
    be one that was made block by block, which holds more than what is written now.
    """
    address = str(address)
    found = find(address)
    if found.description == _BELOW_A_FILE:
        raise StorageError(f"{address} cannot be written: it is {_BELOW_A_FILE}. Give another {setting}.")
    usable = found.is_store(form.name)
    if usable and replace:  # not if it was made block by block, or is not finished
        usable = found.finished and {*files_at(address).names("stages")} <= {"lock", ZARR_JSON}
    if not found.is_free and not usable:
        noun = f"no {form.noun}" if form.noun.startswith("store") else f"not a dlcca {form.noun}"
        raise _occupied(address, noun, found.description, setting)
    owner, _, name = address.rstrip("/").rpartition("/")  # views of recordings may be a part of another store
    _refuse_around(address, inputs, setting, owner if form.name == "dlcca-views" and name == RECORDINGS else "")


def refuse_new(address: str | Path, *, inputs: Places = (), setting: str = "path") -> None:
    """An error if anything is at an address, but for an empty folder."""
    found = find(address)
    if not found.is_free:
        raise StorageError(f"{address} exists: it is {found.description}. Give another {setting}, or move it away.")
    _refuse_around(str(address), inputs, setting)


@contextmanager
def replacing(path: Path, form: Format) -> Iterator[Any]:
    """A group to write a whole store to, beside its place; it is moved there at the end, or removed after an error.

    A store of the same format is replaced; anything else is refused, and so is a store that another process writes to.
    A symbolic link stays, and its target is replaced.
    """
    import zarr

    with storage_errors(path, "written"):
        refuse_store(path, form, replace=True)
        path = Path(os.path.realpath(path))
        lock.refuse_others(str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        new, old = scratch / "new", scratch / "old"
        try:
            yield zarr.create_group(str(new), zarr_format=3)
            for file in new.rglob("*"):  # a power cut could leave the move without the files
                if file.is_file():
                    with open(file, "rb") as opened:
                        os.fsync(opened.fileno())
            lock.refuse_others(str(path))
            refuse_store(path, form, replace=True)  # another process may have written there meanwhile
            if path.exists():
                os.rename(path, old)
            os.rename(new, path)
        finally:
            if old.exists() and not path.exists():  # stopped between the two moves
                os.rename(old, path)
            shutil.rmtree(scratch, ignore_errors=True)


def refuse_folder(
    folder: str | Path, *, is_ours: Callable[[Path], bool] | None = None, noun: str = "", setting: str = "--out"
) -> None:
    """An error if a folder for several files is a file, a dangling link, or belongs to Zarr.

    With ``is_ours``, a folder that is not empty has to be one of ours.
    """
    place = Path(folder)
    found = find(place)
    is_zarr = found.format or found.description.startswith(_ZARR)
    if not found.is_free and (is_zarr or not place.is_dir()):
        raise StorageError(f"{place} cannot be made: it is {found.description}. Give another {setting}.")
    if not found.is_free and is_ours is not None and not is_ours(place):
        raise _occupied(place, f"not {noun}", found.description, setting)
    _refuse_around(str(place), (), setting)


def refuse_file(
    path: str | Path, is_ours: Callable[[Path], bool], noun: str, *, inputs: Places = (), setting: str = "--out"
) -> None:
    """An error unless a file may be written at a path: one that is there must be an earlier output of this kind."""
    place = Path(path)
    _refuse_around(str(place), inputs, setting)
    if os.path.lexists(place):
        if place.is_dir():
            raise StorageError(f"{place} is a folder; give the name of a file ({setting}).")
        if not place.is_file() or not is_ours(place):
            raise _occupied(place, f"not {noun}", find(place).description, setting)


def find(address: str | Path) -> Found:
    """What is at an address."""
    said = str(address)
    names = _remote_names(said) if is_remote(said) else _local_names(local_path(said))
    if isinstance(names, str):
        return Found(names)
    if not names:
        return Found()
    files = files_at(said)
    header = _get(files, ZARR_JSON)
    node, attributes = node_in(header), attributes_in(header)
    if said_format := _format_in(header):
        return Found(f"a store of the format {said_format!r}", said_format, finished=True)
    for name, kind in ((".zarray", "array"), (".zgroup", "group")):
        if name in names:
            return Found(f"{_ZARR} {kind} of version 2")
    if node.get("node_type") == "array" and "shape" in node:
        return Found(f"{_ZARR} array of shape {node['shape']}")
    is_group = node.get("node_type") == "group"
    is_damaged_header = sum(key in attributes for key in _HEADER_KEYS) > 1
    if is_group and attributes and not is_damaged_header:
        return Found(f"{_ZARR} group with the attributes {_listed(sorted(attributes))}")
    format = _unfinished(said, files, names)
    if format is not None:
        what = f" of the format {format!r}" if format != _ANY else ""
        return Found(f"an unfinished store{what}", format)
    if is_group:
        return Found(f"{_ZARR} group with {_listed([name for name in names if name != ZARR_JSON])}")
    return Found(f"a folder with {_listed(names)}")


_ZARR, _BELOW_A_FILE = "a Zarr", "a place below a file"


def _unfinished(address: str, files: Any, names: list[str]) -> str | None:
    """The format that an unfinished store will have, or one whose header is damaged; None if there is none."""
    stages = files.names("stages") if "stages" in names else []
    if "attempt" in readable(_get(files, ATTEMPT)):
        return "dlcca-run"
    recorded = (stage for stage in stages if "fingerprint" in readable(_get(files, f"stages/{stage}/stage.json")))
    is_all_ours = all(name in _NAMES or _SCRATCH.fullmatch(name) for name in names)
    stage = next(recorded, None) or next((first for first in _FIRST_STAGES if is_all_ours and first in stages), None)
    if stage is not None:
        return _FORMAT_OF_STAGE.get(stage, "dlcca-run")
    if not is_all_ours:
        return None
    # After an error before the first stage there is a folder for stages and nothing else.
    is_only_begun = {*names} <= {"stages", ZARR_JSON} and {*stages} <= {"lock", ZARR_JSON}
    headers = (_get(files, place) for place in (ZARR_JSON, f"stages/{ZARR_JSON}"))
    is_only_begun = is_only_begun and all(header in (None, group_json({})) for header in headers)
    if "stages" in names and (lock.numbers(address) or is_only_begun):
        return _ANY
    if "model" in names and find(f"{address.rstrip('/')}/model").format:
        return "dlcca-run"
    if "log" in names and (_get(files, "log/events.jsonl") or b"").startswith(b'{"time"'):
        return "dlcca-run"
    within = f"{address.rstrip('/')}/{RECORDINGS}"
    return _ANY if RECORDINGS in names and find(within).is_store("dlcca-views") else None


def _format_in(header: bytes | None) -> str:
    """The format of a store by its header; "" if it is none of ours."""
    said = attributes_in(header).get("format")
    return said if node_in(header).get("node_type") == "group" and isinstance(said, str) and said in FORMATS else ""


def _get(files: Any, name: str) -> bytes | None:
    """A file; empty if it is there and is no file."""
    try:
        return files.get(name)
    except StorageError as error:
        if isinstance(error.__cause__, IsADirectoryError | NotADirectoryError):
            return b""
        raise


def _local_names(place: Path) -> list[str] | str:
    """The names in a folder, none if it is not there; or what else it is."""
    if place.is_symlink() and not place.exists():
        return f"a symbolic link to {os.readlink(place)}, which does not exist"
    with storage_errors(place, "read"), suppress(FileNotFoundError):
        try:
            return sorted(os.listdir(place))
        except NotADirectoryError:
            return f"a file of {place.stat().st_size} bytes" if place.exists() else _BELOW_A_FILE
    return []


def _remote_names(address: str) -> list[str] | str:
    files: Any = files_at(address)
    root = files.root.rstrip("/")
    try:
        found = with_retries(f"{address} cannot be listed", lambda: files.fs.ls(root, detail=True, refresh=True))
    except FileNotFoundError:
        return []
    if len(found) == 1 and found[0]["name"].rstrip("/") == root and found[0]["type"] == "file" and found[0]["size"]:
        return f"an object of {found[0]['size']} bytes"
    names = (entry["name"].rstrip("/").rpartition("/")[2] for entry in found if entry["name"].rstrip("/") != root)
    return sorted(names)


def _occupied(place: str | Path, verdict: str, description: str, setting: str) -> StorageError:
    return StorageError(
        f"{place} exists and is {verdict}: it is {description}. It was left as it is. Give another {setting}, or move "
        "it away."
    )


def _listed(names: list[str], most: int = 4) -> str:
    return (", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")) or "nothing"


def _refuse_around(address: str, inputs: Places, setting: str, within: str = "") -> None:
    """An error if a place is, contains or lies inside an input, or lies inside a Zarr array or a store of ours.

    It may lie inside the store ``within``, and in a Zarr group of the user's: stores are groups too.
    """
    for said in map(str, inputs):
        is_pattern = "://" not in said and glob.has_magic(said) and not os.path.exists(said)
        for file in sorted(glob.glob(said)) if is_pattern else [said]:
            relations = {"is": _is_same(address, file), "lies inside": _is_within(address, file)}
            for relation, holds in {**relations, "contains": _is_within(file, address)}.items():
                if holds:
                    hint = f"Give another {setting}, apart from the input."
                    raise SettingsError(f"{address} {relation} the input {file}. {hint}")
    for parent in _parents(address):
        files, what = files_at(parent), ""
        with suppress(StorageError):  # a folder that may not be read
            header = files.get(ZARR_JSON)
            if node_in(header).get("node_type") == "array":
                what = f"{_ZARR} array"
            elif format := _format_in(header):
                what = "" if within and _is_same(parent, within) else f"a store of the format {format!r}"
            elif files.get(".zarray") is not None:
                what = f"{_ZARR} array of version 2"
        if what:
            raise StorageError(f"{address} lies inside {parent}, which is {what}. Give another {setting}.")


def _is_same(one: str, other: str) -> bool:
    one, other = canonical(one), canonical(other)
    try:  # one folder may have two names: another mount, or letters of another case
        return one == other or os.path.samefile(one, other)
    except OSError:  # one is not there, or is in object storage
        return False


def _is_within(inner: str, outer: str) -> bool:
    """Whether a place lies inside another one."""
    return any(_is_same(parent, outer) for parent in _parents(inner))


def _parents(address: str) -> list[str]:
    """The folders around a place, or the prefixes around one in object storage."""
    protocol, separator, path = canonical(address).rpartition("://")
    return [f"{protocol}{separator}{parent}" for parent in PurePosixPath(path).parents if str(parent) != "."]


def starts_with(path: Path, size: int) -> bytes:
    """The first bytes of a file; none if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return b""

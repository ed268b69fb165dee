"""Small files at an address: a folder on this machine, or a prefix in object storage, through one interface."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dlcca.errors import StorageError
from dlcca.storage.retry import S3_BOUNDS, S3_TRIES, patiently
from dlcca.storage.storage_errors import Unfinished
from dlcca.storage.storage_errors import trouble as trouble

T = TypeVar("T")
#: Objects that are read together.
AT_ONCE = 256


class Files(Protocol):
    """Whole small files by name; a write is seen whole or not at all."""

    def put(self, name: str, content: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
    def get_all(self, names: Sequence[str]) -> dict[str, bytes]: ...
    def names(self, folder: str) -> list[str]: ...
    def remove(self, folder: str) -> None: ...
    def size(self) -> int: ...


def is_remote(address: str) -> bool:
    return "://" in address and not address.startswith("file://")


def files_at(address: str) -> Files:
    """The files at a path or at an address such as ``s3://bucket/prefix``."""
    return _Remote(address) if is_remote(address) else _Local(Path(address.removeprefix("file://")))


def zarr_store(address: str) -> Any:
    """What Zarr opens for the address: the path itself, or a store over fsspec."""
    if not is_remote(address):
        return address.removeprefix("file://")
    with _installed(address):
        from dlcca.storage.retrying_store import PatientStore

        store = PatientStore.from_url(address, storage_options=_options(address))
    _bound(store.fs)
    return store


def _options(address: str) -> dict[str, Any]:
    """What fsspec is told beside its own configuration, which goes first."""
    if not address.startswith(("s3://", "s3a://")):
        return {}
    import fsspec

    configured = fsspec.config.conf.get("s3", {})
    return {
        "use_listings_cache": False,
        # Else s3fs asks before every read how large the object is, and of one that is not there whether it is a folder.
        # Zarr reads several chunks at a time anyway.
        "max_concurrency": configured.get("max_concurrency", 1),
        "config_kwargs": {**S3_BOUNDS, **configured.get("config_kwargs", {})},
    }


def _bound(fs: Any) -> None:
    if "s3" in fs.protocol:
        fs.retries = S3_TRIES


@contextmanager
def _installed(address: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise StorageError(f"{address} needs a package that is not installed: pip install 'dlcca[s3]'.") from error
    except ValueError as error:  # fsspec does not know the protocol
        raise StorageError(f"{address} is no address that can be opened: {error}.") from error


class _Local:
    """A folder. A file is written beside its place, flushed and moved there, so that a cut leaves no half of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, content: bytes) -> None:
        place = self.folder / name
        scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(scratch, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, place)
        except OSError as error:
            with suppress(OSError):  # the same fault may forbid this too
                scratch.unlink()
            raise StorageError(f"{place} cannot be written: {error.strerror or error}.") from error

    def get(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.folder / name} cannot be read: {error.strerror or error}.") from error

    def get_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Those of some files that are there, by name."""
        return {name: content for name in names if (content := self.get(name)) is not None}

    def names(self, folder: str) -> list[str]:
        place = self.folder / folder
        return sorted(p.name for p in place.iterdir() if not p.name.startswith(".")) if place.is_dir() else []

    def remove(self, folder: str) -> None:
        import shutil

        place = self.folder / folder
        try:
            (place / "stage.json").unlink(missing_ok=True)  # first: without it the rest is known to be no stage
        except NotADirectoryError:
            pass
        except OSError as error:
            raise StorageError(f"{place} cannot be removed: {error.strerror or error}.") from error
        shutil.rmtree(place, ignore_errors=True)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


class _Remote:
    """A prefix in object storage, where a put is whole by itself."""

    def __init__(self, address: str) -> None:
        import fsspec

        self.address = address.rstrip("/")
        with _installed(address):
            self.fs, self.root = fsspec.core.url_to_fs(self.address, **_options(address))
        _bound(self.fs)

    def _asked(self, name: str, what: str, ask: Callable[[], T]) -> T:
        """What the storage answers; FileNotFoundError is left, if the bucket is there."""
        return patiently(f"{self.address}/{name} cannot be {what}", ask)

    def put(self, name: str, content: bytes) -> None:
        self._asked(name, "written", lambda: self.fs.pipe_file(f"{self.root}/{name}", content))

    def get(self, name: str) -> bytes | None:
        try:
            return self._asked(name, "read", lambda: self.fs.cat_file(f"{self.root}/{name}"))
        except FileNotFoundError:
            return None

    def get_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Those of some objects that are there, by name; many requests at a time."""
        found: dict[str, bytes] = {}
        for first in range(0, len(names), AT_ONCE):
            some = names[first : first + AT_ONCE]
            found |= self._asked(f"{some[0]} and others", "read", partial(self._cat, some))
        return found

    def _cat(self, names: Sequence[str]) -> dict[str, bytes]:
        places = {f"{self.root}/{name}": name for name in names}
        found = self.fs.cat(list(places), on_error="return")
        for content in found.values():
            if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                raise content
        return {places[place]: content for place, content in found.items() if isinstance(content, bytes)}

    def names(self, folder: str) -> list[str]:
        try:
            found = self._asked(
                folder, "listed", lambda: self.fs.ls(f"{self.root}/{folder}", detail=False, refresh=True)
            )
        except FileNotFoundError:
            return []
        return sorted(name.rsplit("/", 1)[-1] for name in found)

    def remove(self, folder: str) -> None:
        self._asked(folder, "removed", lambda: self._remove(f"{self.root}/{folder}"))

    def _remove(self, place: str) -> None:
        if self.fs.exists(f"{place}/stage.json"):
            self.fs.rm_file(f"{place}/stage.json")  # first: without it the rest is known to be no stage
        if not self.fs.find(place):
            return
        self.fs.rm(place, recursive=True)
        if left := self.fs.find(place):  # a storage may refuse some of many objects, of which s3fs says nothing
            raise Unfinished(f"{len(left)} objects are still there")

    def size(self) -> int:
        found = self._asked("", "listed", lambda: self.fs.find(self.root, detail=True))
        return sum(about["size"] for about in found.values())

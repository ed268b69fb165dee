"""Small files at an address: a folder on this machine, or a prefix in object storage, through one interface."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from dlcca.errors import StorageError


class Files(Protocol):
    """Whole small files by name; a write is seen whole or not at all."""

    def put(self, name: str, content: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
    def names(self, folder: str) -> list[str]: ...
    def remove(self, folder: str) -> None: ...


def is_remote(address: str) -> bool:
    return "://" in address and not address.startswith("file://")


def files_at(address: str) -> Files:
    """The files at a path or at an address such as ``s3://bucket/prefix``."""
    return _Remote(address) if is_remote(address) else _Local(Path(address.removeprefix("file://")))


def zarr_store(address: str) -> Any:
    """What Zarr opens for the address: the path itself, or a store over fsspec."""
    if not is_remote(address):
        return address.removeprefix("file://")
    from zarr.storage import FsspecStore

    return FsspecStore.from_url(address)


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

    def names(self, folder: str) -> list[str]:
        place = self.folder / folder
        return sorted(p.name for p in place.iterdir() if not p.name.startswith(".")) if place.is_dir() else []

    def remove(self, folder: str) -> None:
        import shutil

        shutil.rmtree(self.folder / folder, ignore_errors=True)


class _Remote:
    """A prefix in object storage, where a put is whole by itself."""

    def __init__(self, address: str) -> None:
        import fsspec

        try:
            self.fs, self.root = fsspec.core.url_to_fs(address)
        except ImportError as error:
            raise StorageError(f"{address} needs a package that is not installed: pip install 'dlcca[s3]'.") from error

    def put(self, name: str, content: bytes) -> None:
        try:
            self.fs.pipe_file(f"{self.root}/{name}", content)
        except OSError as error:
            raise StorageError(f"{self.root}/{name} cannot be written: {error.strerror or error}.") from error

    def get(self, name: str) -> bytes | None:
        try:
            return self.fs.cat_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            found = self.fs.ls(f"{self.root}/{folder}", detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return sorted(name.rsplit("/", 1)[-1] for name in found)

    def remove(self, folder: str) -> None:
        place = f"{self.root}/{folder}"
        if self.fs.exists(place):
            self.fs.rm(place, recursive=True)

"""Small files at an address: a folder on this machine, or a prefix in object storage, through one interface."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from dlcca.errors import StorageError

#: How long an endpoint may be silent, and how often it is asked again: an error comes within 2 s if
#: the connection is refused, 20 s if nobody is there, and 95 s if the request is taken and never answered.
S3_BOUNDS = {"connect_timeout": 5, "read_timeout": 15, "retries": {"mode": "standard", "total_max_attempts": 3}}
S3_RETRIES = 2  # of s3fs, on top of those


class Files(Protocol):
    """Whole small files by name; a write is seen whole or not at all."""

    def put(self, name: str, content: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
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
    from zarr.storage import FsspecStore

    with _installed(address):
        store = FsspecStore.from_url(address, storage_options=_options(address))
    _bound(store.fs)
    return store


def trouble(error: BaseException) -> str | None:
    """Why a storage did not serve, in words; None if the error is not the storage's but of what is stored there.

    The text of botocore's errors is left out: it holds the address of the endpoint, which is nobody else's business.
    """
    if isinstance(error, StorageError):
        return str(error)
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp"):
            return _told_by_service(cause)
        cause = cause.__cause__
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return str(error.strerror or error)
    return None


def _told_by_service(error: BaseException) -> str | None:
    """What an error of botocore means."""
    response = getattr(error, "response", None)  # None in errors of the connection
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    if code in ("NoSuchKey", "404"):
        return None
    known = {
        "NoSuchBucket": "the bucket does not exist",
        "AccessDenied": "access is denied with these credentials",
        "403": "access is denied with these credentials",
        "EndpointConnectionError": "its endpoint does not answer (AWS_ENDPOINT_URL, if it is not that of AWS)",
        "ConnectTimeoutError": "its endpoint does not answer (AWS_ENDPOINT_URL, if it is not that of AWS)",
        "ReadTimeoutError": "its endpoint took the request and does not answer",
        "NoCredentialsError": "no credentials are set (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)",
    }
    said = str(code or type(error).__name__)
    return known.get(said, f"the storage says {said}")


def _options(address: str) -> dict[str, Any]:
    """What fsspec is told beside its own configuration, which goes first."""
    if not address.startswith(("s3://", "s3a://")):
        return {}
    import fsspec

    configured = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
    return {"use_listings_cache": False, "config_kwargs": {**S3_BOUNDS, **configured}}


def _bound(fs: Any) -> None:
    if "s3" in fs.protocol:
        fs.retries = S3_RETRIES


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

    @contextmanager
    def _asking(self, name: str, what: str) -> Iterator[None]:
        """Whatever the storage has against it as an error; FileNotFoundError is left, if the bucket is there."""
        try:
            yield
        except Exception as error:
            reason = trouble(error)
            if reason is None:
                raise
            raise StorageError(f"{self.address}/{name} cannot be {what}: {reason}.") from error

    def put(self, name: str, content: bytes) -> None:
        with self._asking(name, "written"):
            self.fs.pipe_file(f"{self.root}/{name}", content)

    def get(self, name: str) -> bytes | None:
        try:
            with self._asking(name, "read"):
                return self.fs.cat_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            with self._asking(folder, "listed"):
                found = self.fs.ls(f"{self.root}/{folder}", detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return sorted(name.rsplit("/", 1)[-1] for name in found)

    def remove(self, folder: str) -> None:
        place = f"{self.root}/{folder}"
        with self._asking(folder, "removed"):
            if self.fs.exists(f"{place}/stage.json"):
                self.fs.rm_file(f"{place}/stage.json")  # first: without it the rest is known to be no stage
            if self.fs.exists(place):
                self.fs.rm(place, recursive=True)

    def size(self) -> int:
        with self._asking("", "listed"):
            return self.fs.du(self.root)

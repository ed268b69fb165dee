"""Files at an address: a folder on this machine, or a prefix in object storage, through one interface.

Every write is atomic. `Files.create` makes a file that only one of several writers can create: on a disk by a hard
link, which fails if the name is taken; in object storage by a conditional put. Clocks of two machines may differ by
more than a lock may be old, so `Files.age_s` is the difference of two times that the storage itself has recorded.
"""

import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedWriter
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dlcca.errors import StorageError
from dlcca.storage import retry
from dlcca.storage.retry import IncompleteOperation, causes, error_code, failure_reason, with_retries

T = TypeVar("T")
#: Objects that are read at the same time.
AT_ONCE = 32
#: A storage that ignores conditions lets two writers succeed; after this long, the last one has overwritten the others.
SETTLE_S = 2.0
#: Where storages keep what distinguishes two versions of an object; the first that is there is used.
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "last_modified", "updated", "mtime", "created")


def is_remote(address: str) -> bool:
    return "://" in address and not address.startswith("file://")


def local_path(address: str) -> Path:
    """The path of an address on this machine."""
    return Path(address.removeprefix("file://"))


def canonical(address: str) -> str:
    """The canonical form of an address: two addresses of one place have the same, as far as links and slashes go."""
    if not is_remote(address):
        return os.path.realpath(local_path(address))
    protocol, _, rest = address.partition("://")
    return f"{'s3' if protocol == 's3a' else protocol}://{re.sub('/+', '/', rest).rstrip('/')}"


def files_at(address: str) -> "Files":
    """The files at a path or at an address such as ``s3://bucket/prefix``."""
    return RemoteFiles(address) if is_remote(address) else LocalFiles(local_path(address))


def installed_folder(in_package: str, in_repository: str, file: str) -> Path:
    """A folder of files for users: in the package, or in the repository if dlcca is run from there."""
    package = Path(__file__).parents[1]
    for place in (package / in_package, package.parent / in_repository):
        if (place / file).is_file():
            return place
    raise StorageError(f"the folder of {file} is not where it was installed; install dlcca again.")


def can_be_listed(address: str) -> bool:
    """Whether a storage lists its files; a web server does not."""
    return not address.startswith(("http://", "https://"))


def signatures(address: str) -> dict[str, str]:
    """All files below an address by name, each with a text that changes when the file is written again.

    On a disk it is size and time of the last change, in object storage size and ETag. A web server lists none.
    """
    return files_at(address).signatures() if can_be_listed(address) else {}


def zarr_store(address: str) -> Any:
    """The store that Zarr opens for an address: the path itself, or a store over fsspec."""
    if not is_remote(address):
        return str(local_path(address))
    with _explained_import(address):
        from dlcca.storage.retrying_store import RetryingStore

        store: Any = RetryingStore.from_url(address, storage_options=_options(address))
    if "s3" in store.fs.protocol:
        store.fs.retries = retry.S3_TRIES
    return store


def _options(address: str) -> dict[str, Any]:
    """Options of fsspec; the user's own configuration has priority."""
    if not address.startswith(("s3://", "s3a://")):
        return {}
    import fsspec

    configured = fsspec.config.conf.get("s3", {})
    return {
        "use_listings_cache": False,
        # Otherwise s3fs requests the size of an object before every read, and of a missing one whether it is a folder.
        # Zarr reads several chunks at a time anyway.
        "max_concurrency": configured.get("max_concurrency", 1),
        "config_kwargs": {**retry.S3_BOUNDS, **configured.get("config_kwargs", {})},
    }


@contextmanager
def _explained_import(address: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise StorageError(f"{address} needs a package that is not installed: pip install 'dlcca[s3]'.") from error
    except ValueError as error:  # fsspec does not know the protocol
        raise StorageError(f"{address} is no address that can be opened: {error}.") from error


@contextmanager
def storage_errors(place: str | Path, done: str, hint: str = "") -> Iterator[None]:
    """Turn errors of the storage into a `StorageError` that says what could not be done, and ends with the hint."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        reason = failure_reason(error) or (isinstance(error, OSError) and (error.strerror or error))
        if not reason:
            raise
        raise StorageError(f"{place} cannot be {done}: {reason}.{hint}") from error


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that replaces it on success and is removed on failure.

    The target of a symbolic link is replaced, not the link. An `OSError` becomes a `StorageError`.
    """
    place = Path(os.path.realpath(path))
    with storage_errors(path, "written"), _temporary_file(place) as temporary:
        yield temporary
        os.replace(temporary, place)


@contextmanager
def _temporary_file(place: Path, parts: Sequence[bytes | memoryview] = (), *, flush: bool = False) -> Iterator[Path]:
    """A file with this content beside a place, under a temporary name; it is removed unless the block moves it."""
    temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    try:
        with _opened_in_new_folder(temporary) as file:
            file.writelines(parts)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):  # it was moved, or a full disk prevents this too
            temporary.unlink()


def _opened_in_new_folder(place: Path) -> BufferedWriter:
    """A new file; its folder is made again if another process removes it meanwhile."""
    for _ in range(10):
        with suppress(FileNotFoundError):
            place.parent.mkdir(parents=True, exist_ok=True)
            return open(place, "wb")
    return open(place, "wb")


class Files(Protocol):
    """Whole small files by name, with slashes; the base of `LocalFiles` and `RemoteFiles`."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file; one that is there is replaced."""

    def put_confirmed(self, name: str, parts: Sequence[bytes | memoryview], confirm: Callable[[], None]) -> None:
        """Write a file from parts, unless ``confirm``, called as late as possible, raises an error. It is not flushed.

        A put may reach object storage long after it was sent; it must not replace what another writer has put there
        in between. So it is conditional, and a file that exists is replaced only after another confirmation.
        """

    def create(self, name: str, content: bytes) -> bool:
        """Create a file; False if there is one of that name already."""

    def renew(self, name: str, content: bytes) -> None:
        """Reset the age of a file; on a disk that needs no space, should it be full."""
        self.put(name, content)

    def get(self, name: str) -> bytes | None:
        """The content of a file; None if it is not there."""

    def get_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of those files that are there, by name."""
        return {name: content for name in names if (content := self.get(name)) is not None}

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted, without hidden files of a disk."""

    def signatures(self) -> dict[str, str]:
        """See `signatures`: all files in all folders, hidden ones too."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    def remove(self, folder: str) -> None:
        """Remove a folder, its stage.json first: without it, the rest is known to be no stage."""

    def size(self) -> int:
        """Bytes of all files."""
        return sum(int(known.partition(" ")[0]) for known in self.signatures().values())

    def age_s(self, name: str) -> float | None:
        """Seconds since a file was created or renewed, by the clock of its storage; None if it is not there."""
        then = self._modified(name)
        if then is None:
            return None
        probe = f"{name.rpartition('/')[0]}/.now-{uuid.uuid4().hex}".lstrip("/")
        try:
            self.put(probe, b"now")
            now = self._modified(probe)
        except StorageError:  # read-only: the clock of this machine is the best there is
            now = None
        finally:
            with suppress(Exception):
                self.delete(probe)
        return max(0.0, (time.time() if now is None else now) - then)

    def _modified(self, name: str) -> float | None:
        """When the storage says that a file was written, in seconds; None if it is not there."""


class LocalFiles(Files):
    """A folder. A file is written under a temporary name and moved, so that an interruption leaves no part of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, content: bytes) -> None:
        place = self.folder / name
        with storage_errors(place, "written"), _temporary_file(place, [content], flush=True) as temporary:
            os.replace(temporary, place)

    def put_confirmed(self, name: str, parts: Sequence[bytes | memoryview], confirm: Callable[[], None]) -> None:
        place = self.folder / name
        with _temporary_file(place, parts) as temporary:
            confirm()
            os.replace(temporary, place)

    def create(self, name: str, content: bytes) -> bool:
        place = self.folder / name
        with storage_errors(place, "written"), _temporary_file(place, [content]) as temporary:
            try:
                os.link(temporary, place)
            except FileExistsError:
                return temporary.stat().st_nlink == 2  # a network file system may have linked it, and lost the answer
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                    raise
                # A file system without hard links: the file is visible for a moment before its content is.
                with suppress(FileExistsError), open(place, "xb") as file:
                    file.write(content)
                    return True
                return False
            return True

    def renew(self, name: str, content: bytes) -> None:
        with storage_errors(self.folder / name, "renewed"):
            os.utime(self.folder / name)

    def get(self, name: str) -> bytes | None:
        with storage_errors(self.folder / name, "read"), suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        return None

    def names(self, folder: str) -> list[str]:
        place = self.folder / folder
        return sorted(p.name for p in place.iterdir() if not p.name.startswith(".")) if place.is_dir() else []

    def signatures(self) -> dict[str, str]:
        def refuse(error: OSError) -> None:
            with storage_errors(error.filename, "listed"), suppress(FileNotFoundError):
                raise error

        found = {}
        for folder, _, names in os.walk(self.folder, onerror=refuse, followlinks=True):
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):  # removed meanwhile, or a dangling link
                    about = path.stat()
                    found[path.relative_to(self.folder).as_posix()] = f"{about.st_size} {about.st_mtime_ns}"
        return found

    def delete(self, name: str) -> None:
        with suppress(OSError):
            (self.folder / name).unlink()

    def remove(self, folder: str) -> None:
        place = self.folder / folder
        with storage_errors(place, "removed"), suppress(FileNotFoundError, NotADirectoryError):
            (place / "stage.json").unlink()
        shutil.rmtree(place, ignore_errors=True)

    def _modified(self, name: str) -> float | None:
        with suppress(FileNotFoundError):
            return (self.folder / name).stat().st_mtime
        return None


class RemoteFiles(Files):
    """A prefix in object storage, where a put is atomic by itself."""

    def __init__(self, address: str) -> None:
        import fsspec

        self.address = address.rstrip("/")
        with _explained_import(address):
            self.fs, self.root = fsspec.core.url_to_fs(self.address, **_options(address))
        if "s3" in self.fs.protocol:
            self.fs.retries = retry.S3_TRIES

    def _retried(self, name: str, done: str, operation: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """The answer of the storage about a file or folder; FileNotFoundError is not changed, if the bucket exists."""
        called = partial(operation, f"{self.root}/{name}", *arguments, **options)
        return with_retries(f"{self.address}/{name} cannot be {done}", called)

    def put(self, name: str, content: bytes) -> None:
        self._retried(name, "written", self.fs.pipe_file, content)

    def put_confirmed(self, name: str, parts: Sequence[bytes | memoryview], confirm: Callable[[], None]) -> None:
        content = b"".join(parts)
        confirm()
        if not self._put_if_absent(name, content):
            confirm()
            self.put(name, content)

    def create(self, name: str, content: bytes) -> bool:
        # A put whose answer was lost is sent again and then refused: only the content shows who created the file.
        if self._put_if_absent(name, content) and self._put_if_absent(name, content):
            time.sleep(SETTLE_S)  # the second put should have been refused: this storage ignores conditions
        return self.get(name) == content

    def _put_if_absent(self, name: str, content: bytes) -> bool:
        """Whether a conditional put was accepted: it is refused if the object exists or is being created."""
        refusals = ("PreconditionFailed", "412", "ConditionalRequestConflict")
        try:
            self._retried(name, "written", self.fs.pipe_file, content, mode="create")
        except Exception as error:
            if any(isinstance(cause, FileExistsError) or error_code(cause) in refusals for cause in causes(error)):
                return False
            raise
        return True

    def get(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return self._retried(name, "read", self.fs.cat_file)
        return None

    def get_all(self, names: Sequence[str]) -> dict[str, bytes]:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = zip(names, threads.map(self.get, names), strict=True)
            return {name: content for name, content in found if content is not None}

    def names(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError):
            found = self._retried(folder, "listed", self.fs.ls, detail=False, refresh=True)
            return sorted(name.rsplit("/", 1)[-1] for name in found)
        return []

    def signatures(self) -> dict[str, str]:
        def listed(_: str) -> dict[str, dict[str, Any]]:
            self.fs.invalidate_cache()
            return self.fs.find(root, detail=True)

        root = f"{self.root.rstrip('/')}/"
        return {
            place.removeprefix("/").removeprefix(root.removeprefix("/")): (
                f"{about['size']} {next((about[key] for key in _VERSIONS if about.get(key)), '')}"
            )
            for place, about in self._retried("", "listed", listed).items()
        }

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._retried(name, "removed", self.fs.rm_file)

    def remove(self, folder: str) -> None:
        def removed(place: str) -> None:
            if self.fs.exists(f"{place}/stage.json"):
                self.fs.rm_file(f"{place}/stage.json")
            if self.fs.find(place):
                self.fs.rm(place, recursive=True)
                if left := self.fs.find(place):  # some of many may have been refused, which s3fs does not report
                    raise IncompleteOperation(f"{len(left)} objects are still there")

        self._retried(folder, "removed", removed)

    def _modified(self, name: str) -> float | None:
        with suppress(FileNotFoundError):
            return float(self._retried(name, "looked up", self.fs.modified).timestamp())
        return None

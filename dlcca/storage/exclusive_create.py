"""Files that only one of several writers can create, and their age by the clock of the storage.

On a disk a file appears with its content by a hard link, which fails if the name is taken; in object storage by a put
on the condition that there is none. The clocks of two machines may differ by more than a lock may be old, so that ages
are the difference between two times which the storage has noted itself.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlcca.errors import StorageError
from dlcca.storage.files import files_at, is_remote
from dlcca.storage.retry import patiently

#: A storage that ignores the condition lets two writers win; so long after a write the last of them has overwritten.
SETTLE_S = 2.0


def create(address: str, name: str, content: bytes) -> bool:
    """Create a file with this content; False if there is one of that name already."""
    place = _local(address, name)
    return _linked(place, content) if place is not None else _put_if_none(address, name, content)


def put_confirmed(address: str, name: str, content: bytes, confirm: Callable[[], None]) -> None:
    """Put an object in object storage, if ``confirm`` raises no error; one that is there is replaced only if so again.

    A put may reach the storage long after it was sent: then it does not replace what another one has put meanwhile.
    """
    confirm()
    if not _conditional_put(address, name, content):
        confirm()
        files_at(address).put(name, content)


def renew(address: str, name: str, content: bytes) -> None:
    """Make a file as young as if it had been created now; on a disk that takes no room, should it be full."""
    place = _local(address, name)
    if place is None:
        files_at(address).put(name, content)
        return
    try:
        os.utime(place)
    except OSError as error:
        raise StorageError(f"{place} cannot be renewed: {error.strerror or error}.") from error


def remove(address: str, name: str) -> None:
    """Remove a file, if it is there."""
    place = _local(address, name)
    if place is not None:
        with suppress(OSError):
            place.unlink()
        return
    fs, path = _remote(address, name)
    with suppress(FileNotFoundError):
        patiently(_what(address, name, "removed"), lambda: fs.rm_file(path))


def age_s(address: str, name: str) -> float | None:
    """Seconds since a file was created or renewed, by the clock of its storage; None if it is not there."""
    probe = f"{name.rpartition('/')[0]}/.now-{uuid.uuid4().hex}".lstrip("/")
    then = _noted(address, name)
    if then is None:
        return None
    try:
        files_at(address).put(probe, b"now")
        now = _noted(address, probe)
    except StorageError:  # it may only be read: better the clock of this machine than none
        now = None
    finally:
        with suppress(Exception):
            remove(address, probe)
    return max(0.0, (time.time() if now is None else now) - then)


def _local(address: str, name: str) -> Path | None:
    return None if is_remote(address) else Path(address.removeprefix("file://")) / name


def _remote(address: str, name: str) -> tuple[Any, str]:
    files: Any = files_at(address)
    return files.fs, f"{files.root}/{name}"


def _linked(place: Path, content: bytes) -> bool:
    scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    try:
        _put_in_folder(scratch, content)
        try:
            os.link(scratch, place)
        except FileExistsError:
            return scratch.stat().st_nlink == 2  # a network file system may have done it, and lost the answer
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            return _opened(place, content)  # a file system without hard links
        return True
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            scratch.unlink()


def _put_in_folder(place: Path, content: bytes) -> None:
    """Write a file, its folder made anew if another process tidies it away meanwhile."""
    for tries in reversed(range(10)):
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            place.write_bytes(content)
            return
        except FileNotFoundError:
            if not tries:
                raise


def _opened(place: Path, content: bytes) -> bool:
    """As `_linked`, but that the file may be seen for a moment before its content is."""
    try:
        with open(place, "xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def _put_if_none(address: str, name: str, content: bytes) -> bool:
    files = files_at(address)
    if not _conditional_put(address, name, content):
        # The answer to a put that was done may have been lost, and it was sent again: only the content tells.
        return files.get(name) == content
    if _conditional_put(address, name, content):  # it should not have been: the storage knows no conditions
        time.sleep(SETTLE_S)
    return files.get(name) == content


def _conditional_put(address: str, name: str, content: bytes) -> bool:
    fs, path = _remote(address, name)
    try:
        patiently(_what(address, name, "written"), lambda: fs.pipe_file(path, content, mode="create"))
    except Exception as error:
        if is_taken(error):
            return False
        raise
    return True


def _what(address: str, name: str, done: str) -> str:
    return f"{address.rstrip('/')}/{name} cannot be {done}"


def is_taken(error: BaseException) -> bool:
    """Whether a conditional put was refused because there is something already, or comes to be at this moment."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
        if isinstance(cause, FileExistsError) or code in ("PreconditionFailed", "412", "ConditionalRequestConflict"):
            return True
        cause = cause.__cause__
    return False


def _noted(address: str, name: str) -> float | None:
    """When the storage says that a file was written, in seconds; None if it is not there."""
    place = _local(address, name)
    try:
        if place is not None:
            return place.stat().st_mtime
        fs, path = _remote(address, name)
        return float(patiently(_what(address, name, "looked up"), lambda: fs.modified(path)).timestamp())
    except FileNotFoundError:
        return None


def tidy(address: str, folder: str) -> None:
    """Remove a folder that was made for claims, if nothing is in it; object storage has no folders."""
    place = _local(address, folder)
    if place is not None:
        with suppress(OSError):
            os.rmdir(place)

"""Every file at an address, whoever wrote it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlcca.errors import StorageError
from dlcca.storage.files import files_at, is_remote
from dlcca.storage.retry import patiently

#: What storages call that which tells one version of an object from another; the first that is there is taken.
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "last_modified", "updated", "mtime", "created")


def signatures(address: str) -> dict[str, str]:
    """All files below an address by name, each with what changes when it is written again, from one listing.

    On a disk that is size and time of the last change; in object storage size and ETag. There are none at a web server.
    """
    if not can_be_listed(address):
        return {}
    if is_remote(address):
        files: Any = files_at(address)
        root = f"{files.root.rstrip('/')}/"

        def listed() -> dict[str, Any]:
            files.fs.invalidate_cache()
            return files.fs.find(root, detail=True)

        found = patiently(f"{address} cannot be listed", listed)
        start = root.removeprefix("/")
        return {name.removeprefix("/").removeprefix(start): _version(about) for name, about in found.items()}
    place = address.removeprefix("file://").rstrip("/")
    made = {}
    for folder, _, names in os.walk(place, onerror=_refused, followlinks=True):
        for name in names:
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):  # removed meanwhile, or a link to nothing
                about = os.stat(path)
                made[os.path.relpath(path, place).replace(os.sep, "/")] = f"{about.st_size} {about.st_mtime_ns}"
    return made


def can_be_listed(address: str) -> bool:
    """Whether a storage says what it holds; a web server does not."""
    return not address.startswith(("http://", "https://"))


def _refused(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise StorageError(f"{error.filename} cannot be listed: {error.strerror or error}.") from error


def _version(about: Mapping[str, Any]) -> str:
    return f"{about['size']} {next((about[key] for key in _VERSIONS if about.get(key)), '')}"


def all_files(address: str) -> list[str]:
    """The names of all files below an address, with slashes, sorted; hidden ones too."""
    if is_remote(address):
        files: Any = files_at(address)
        root = f"{files.root.rstrip('/')}/"
        found = patiently(f"{address} cannot be listed", lambda: files.fs.find(root))
        return sorted(name.removeprefix("/").removeprefix(root.removeprefix("/")) for name in found)
    place = Path(address.removeprefix("file://"))
    names = []
    for folder, _, files_there in os.walk(place):
        below = Path(folder).relative_to(place).as_posix()
        names += files_there if below == "." else [f"{below}/{name}" for name in files_there]
    return sorted(names)

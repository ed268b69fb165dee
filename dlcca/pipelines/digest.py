"""What a file holds: its digest, and a copy on this machine where it lies in object storage."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from dlcca.errors import StorageError


def digest(parts: Sequence[str]) -> str:
    """SHA-256 of what all files of a recording hold, whatever their names."""
    each = [_digest(path) for path in parts]
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def _digest(path: str) -> str:
    if "://" in path:
        from dlcca.pipelines import objects

        return objects.digest(path)
    return _digest_of_folder(path) if os.path.isdir(path) else _digest_of_file(path)


def _digest_of_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise StorageError(f"{path} is not there any more.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error


def _digest_of_folder(path: str) -> str:
    """Of a recording that is a folder, as Zarr: names within it count."""
    made = hashlib.sha256()
    for where, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            inner = os.path.join(where, name)
            made.update(f"{os.path.relpath(inner, path)} {_digest_of_file(inner)}\n".encode())
    return made.hexdigest()


def here(parts: Sequence[str], scratch: Path) -> list[str]:
    """The files where readers find them: as they are, or copied from object storage to a folder of their own."""
    found = []
    for path in parts:
        if "://" in path:
            from dlcca.pipelines import objects

            copy = scratch / path.rsplit("/", 1)[-1]
            objects.copy(path, copy)
            path = str(copy)
        found.append(path)
    return found

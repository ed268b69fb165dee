"""Checks of files and packages that readers share; errors of libraries become errors that name the file."""

import errno
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

from dlcca.errors import DataError, DlccaError, SettingsError, StorageError

Truncated = Literal["refuse", "keep"]  # what a reader does with a file that is not as long as its header declares
TRUNCATED: tuple[Truncated, ...] = get_args(Truncated)
#: Errors of a machine, a disk or a network, which say nothing about the content of a file.
_OF_MACHINE = {errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE}
_OF_MACHINE |= {errno.ECONNRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENXIO, errno.ETIMEDOUT}


class Damaged(DataError):
    """What is wrong with a file, in words that follow its path: `refusing` puts the path before them."""


def check_file(path: str, format: str) -> int:
    """Size in bytes of a file that exists and holds something; anything else is refused."""
    if os.path.isdir(path):
        raise DataError(f"{path!r} is a directory, and {format} is one file: name the file in it.")
    if not os.path.exists(path):
        raise DataError(f"there is no file {path!r}: check the name, or the directory that it is relative to.")
    size = os.path.getsize(path)
    if size == 0:
        raise DataError(f"{path!r} is empty (0 bytes), and {format} begins with a header: copy or export it again.")
    return size


def check_beginning(path: str, found: bytes | str, format: str, *known: bytes | str) -> None:
    """Refuse a file that does not begin with one of the known texts."""
    if found not in known:
        needed = " or ".join(map(repr, known))
        what = f"{path!r} begins with {found!r}, and {format} with {needed}"
        raise DataError(f"{what}: it is of another format, whatever its name ends with.")


def check_sidecar(path: str, named_by: str, holds: str) -> int:
    """Size in bytes of a file that another one names and cannot do without."""
    if not os.path.isfile(path):
        raise DataError(
            f"{named_by!r} keeps its {holds} in {os.path.basename(path)!r}, which is not beside it: "
            "put both files into one directory, under the names they were written with."
        )
    return os.path.getsize(path)


def optional(package: str, extra: str, format: str) -> Any:
    """The imported package, or an error that names the extra which brings it."""
    if sys.modules.get(package) is not None:
        return sys.modules[package]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package about its own dependencies
            return importlib.import_module(package)
    except ImportError as error:
        top = package.split(".")[0]
        raise SettingsError(f"reading {format} needs {top}: pip install 'dlcca[{extra}]' ({error}).") from error


@contextmanager
def refusing(path: str, format: str) -> Iterator[None]:
    """Turn whatever is raised about a file into a `DataError` that names the file, or a `StorageError`."""
    try:
        yield
    except Damaged as error:
        raise DataError(f"{path!r} {error}. Copy or export it again.") from error
    except (DlccaError, MemoryError):
        raise
    except Exception as error:  # libraries of formats raise all kinds: struct.error, KeyError, AssertionError, ...
        if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.errno in _OF_MACHINE:
            raise StorageError(f"{path!r} cannot be read: {os.strerror(error.errno)}.") from error
        found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError(
            f"{path!r} cannot be read as {format} ({found}): check that it is one and complete, or export it again."
        ) from error


def check_complete(path: str, truncated: Truncated, found: str, kept: str) -> list[str]:
    """Refuse a file whose length is not what it declares; or a note, if the option ``truncated`` is "keep"."""
    if truncated == "keep":
        return [f"it {found}; {kept} were read"]
    raise DataError(f"{path!r} {found}. Copy or export it again, or set truncated = 'keep' to read {kept}.")

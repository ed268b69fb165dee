"""What every reader checks before it reads: that there is a file, and the package to read it with."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dlcca.errors import DataError, DlccaError, SettingsError, suggest
from dlcca.recordings.formats.recording import Signal


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
            warnings.simplefilter("ignore")  # what a package has to say about the packages that it uses itself
            return importlib.import_module(package)
    except ImportError as error:
        top = package.split(".")[0]
        raise SettingsError(f"reading {format} needs {top}: pip install 'dlcca[{extra}]' ({error}).") from error


@contextmanager
def refusing(path: str, format: str) -> Iterator[None]:
    """Turn whatever a library raises about a file into a refusal that names the file."""
    try:
        yield
    except DlccaError:
        raise
    except Exception as error:  # libraries of formats raise all kinds: struct.error, KeyError, AssertionError, ...
        found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError(
            f"{path!r} cannot be read as {format} ({found}): check that it is one and complete, or export it again."
        ) from error


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    """Refuse a value of an option that means nothing."""
    if value not in known:
        raise SettingsError(f"{name} = {value!r} is not known; {suggest(value, known)}")


def check_span(signal: Signal, first: int, last: int) -> None:
    """Refuse samples that a signal does not have: a break, or another signal, may lie behind its end."""
    if not 0 <= first <= last <= signal.n:
        raise DataError(f"samples {first} to {last} were asked of a signal that has {signal.n}.")

"""A recording by its path: the ending of the name says which reader opens it."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.recording import Recording
from dlcca.settings.fit import LARGEST, is_count

# Known without importing the readers, of which only the one that is needed is imported; the tests hold this
# table against ENDINGS in each.
READERS: dict[str, tuple[str, ...]] = {
    "brainvision": (".vhdr", ".ahdr", ".vmrk", ".eeg"),
    "csv_table": (".csv", ".tsv"),
    "edf": (".edf", ".bdf"),
    "fif": (".fif", ".fif.gz"),
    "hdf5": (".h5", ".hdf5", ".hdf", ".nc"),
    "npy": (".npy", ".npz"),
    "nwb": (".nwb",),
    "parquet": (".parquet", ".pq"),
    "video": (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv"),
    "wav": (".wav", ".wave", ".rf64", ".bwf"),
    "wfdb": (".hea", ".dat"),
    "xdf": (".xdf",),
    "zarr_arrays": (".zarr",),
}
# What a user may call a format, where the module has another name.
_ALSO = {"bdf": "edf", "csv": "csv_table", "tsv": "csv_table", "npz": "npy", "numpy": "npy", "h5": "hdf5"}
_ALSO |= {"netcdf": "hdf5", "zarr": "zarr_arrays", "mp4": "video", "sound": "wav"}


def open_recording(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Recording:
    """Open a file, or a Zarr folder, as a recording; its samples stay where they are until they are read.

    Parameters
    ----------
    path : of the file, or of the folder of a Zarr array or group
    format : "edf", "csv", "video", ...; by default the ending of the name says it
    options : of the reader, such as ``rate=250`` for a file that does not say its rate; see the table of formats
    """
    path = os.fspath(path)
    name = reader_of(path) if format is None else _reader_called(format)
    _check_there(path, name)
    reader = importlib.import_module(f"{__package__}.{name}")
    _check_options(path, reader, options)
    return reader.open(path, **options)


def reader_of(path: str) -> str:
    """The name of the reader for a path, by the longest ending that fits; any folder that is Zarr is read as Zarr."""
    lowered = path.rstrip("/").lower()
    fits = [(len(ending), name) for name, endings in READERS.items() for ending in endings if lowered.endswith(ending)]
    if fits:
        return max(fits)[1]
    if os.path.isdir(path):
        return "zarr_arrays"
    if os.path.exists(f"{path}.hea"):
        return "wfdb"  # whose records are named without any ending
    endings = sorted(ending for endings in READERS.values() for ending in endings)
    known = f"Known are {', '.join(endings)}."
    found = os.path.splitext(lowered)[1]
    if not found:
        raise SettingsError(f"{path!r} has no ending to tell its format by: give format, or rename it. {known}")
    nearest = suggest(found, endings)
    nearest = f" {nearest[0].upper()}{nearest[1:]}" if nearest.startswith("did") else ""
    raise SettingsError(f"the ending {found!r} of {path!r} is not known: give format.{nearest} {known}")


def _reader_called(format: str) -> str:
    name = str(format).lower().lstrip(".")
    name = _ALSO.get(name, name)
    by_ending = {ending.lstrip("."): reader for reader, endings in READERS.items() for ending in endings}
    name = by_ending.get(name, name)
    if name not in READERS:
        raise SettingsError(f"format = {format!r} is not known; {suggest(format, [*READERS, *_ALSO])}")
    return name


def _check_there(path: str, reader: str) -> None:
    """Refuse what is not there, is empty, or is a folder that is not Zarr."""
    if "://" in path:
        return
    if reader == "wfdb" and not os.path.exists(path) and os.path.exists(f"{path}.hea"):
        return
    if not os.path.exists(path):
        raise DataError(f"there is no file {path!r}: check the name, or the folder that it is relative to.")
    if os.path.isdir(path):
        from dlcca.recordings.formats.zarr_arrays import is_zarr

        if reader != "zarr_arrays":
            raise DataError(f"{path!r} is a folder, and {reader} is one file: name the file in it.")
        if not is_zarr(path):
            inside = "empty" if not os.listdir(path) else "not Zarr"
            raise DataError(f"{path!r} is a folder, and it is {inside}: name the files in it, one by one.")
    elif os.path.getsize(path) == 0:
        raise DataError(f"{path!r} is empty (0 bytes): copy or export it again.")


def _check_options(path: str, reader: ModuleType, options: dict[str, Any]) -> None:
    parameters = inspect.signature(reader.open).parameters
    known = [name for name in parameters if name != "path"]
    for option in options:
        if option not in known:
            nearest = suggest(option, known) if known else "it takes none."
            raise SettingsError(f"{option!r} is not an option of the {reader.FORMAT} reader ({path!r}); {nearest}")
        _check_type(option, options[option], str(parameters[option].annotation))


def _check_type(option: str, value: Any, annotation: str) -> None:
    """Refuse a value that is of none of the types that a reader declares; the readers check its range."""
    kinds = annotation.split(" | ")
    if option == "start" or any(_TYPES[kind][0](value) for kind in kinds):  # a start has many forms: see start_option
        return
    needed = " or ".join(_TYPES[kind][1] for kind in kinds if kind != "None")
    raise SettingsError(f"{option} = {value!r} is not {needed}.")


def _all(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Sequence | np.ndarray) and all(map(fits, value))


#: A type in the signature of a reader -> whether a value is of it, and what to call it.
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, "nothing"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "bool": (lambda value: isinstance(value, bool | np.bool_), "true or false"),
    "int": (lambda value: is_count(value, -LARGEST), "a whole number"),
    "float": (lambda value: isinstance(value, int | float | np.number) and not isinstance(value, bool), "a number"),
    "Sequence[str]": (lambda value: _all(value, lambda part: isinstance(part, str)), "a list of texts"),
    "Sequence[int]": (lambda value: _all(value, lambda part: is_count(part, -LARGEST)), "a list of whole numbers"),
}

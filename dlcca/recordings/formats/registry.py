"""The registry of readers: which one opens a path, by the ending of its name or by the name of a format.

A reader is a module with a function ``open(path, **options)`` that returns a `Recording`, and one line in `READERS`.
Readers of other installed packages are entry points of the group ``dlcca.readers``, named for the ending that they
open. They are looked for only where no reader of dlcca fits, and imported only when one is needed.
"""

import importlib
import inspect
import os
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from dlcca.errors import SettingsError, suggest
from dlcca.recordings.formats.checks import TRUNCATED, Truncated, check_file, refusing
from dlcca.recordings.formats.recording import Recording
from dlcca.settings.schema import LARGEST, is_count

#: Module of this folder -> the endings that it opens. It is imported when it is needed.
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
#: Names of formats that are neither a module nor an ending.
_ALIASES = {"numpy": "npy", "netcdf": "hdf5", "sound": "wav"}

ENTRY_POINTS = "dlcca.readers"


def open_recording(path: str | os.PathLike[str], format: str | None = None, **options: Any) -> Recording:
    """Open a file, or a Zarr folder, as a recording; its samples stay where they are until they are read.

    Parameters
    ----------
    path : of the file, or of the folder of a Zarr array or group
    format : "edf", "csv", "video", ...; by default the ending of the name says it
    options : of the reader, such as ``rate=250`` for a file that does not say its rate; see the table of formats
    """
    path = os.fspath(path)
    name = _reader_for(path) if format is None else _reader_named(format)
    if name in READERS:
        reader = importlib.import_module(f"{__package__}.{name}")
        opener, called = reader.open, reader.FORMAT
    else:
        opener, called = _load(name), name
    _check_options(path, opener, called, options)
    if name in READERS and name not in ("wfdb", "zarr_arrays"):  # whose path may be a stem, a folder or an address
        check_file(path, called)
    with refusing(path, called):
        return opener(path, **options)


def _reader_for(path: str) -> str:
    """The name of the reader for a path, by the longest ending that fits."""
    lowered = path.rstrip("/").lower()
    fits = [(len(ending), name) for name, endings in READERS.items() for ending in endings if lowered.endswith(ending)]
    fits = fits or [(len(name), name) for name in _external() if lowered.endswith(f".{name}")]
    if fits:
        return max(fits)[1]
    if os.path.isdir(path):
        return "zarr_arrays"  # which refuses a folder that is not Zarr
    if os.path.exists(f"{path}.hea"):
        return "wfdb"  # whose records are named without any ending
    endings = sorted([*_by_ending(), *_external()])
    known = f"Known are {', '.join(f'.{ending}' for ending in endings)}."
    found = os.path.splitext(lowered)[1]
    if not found:
        raise SettingsError(f"{path!r} has no ending that names its format: give format, or rename it. {known}")
    nearest = suggest(found, [f".{ending}" for ending in endings])
    nearest = f" {nearest[0].upper()}{nearest[1:]}" if nearest.startswith("did") else ""
    raise SettingsError(f"the ending {found!r} of {path!r} is not known: give format.{nearest} {known}")


def _reader_named(format: str) -> str:
    name = str(format).lower().lstrip(".")
    name = (_by_ending() | _ALIASES).get(name, name)
    if name not in READERS and name not in _external():
        known = [*READERS, *_by_ending(), *_ALIASES, *_external()]
        raise SettingsError(f"format = {format!r} is not known; {suggest(format, known)}")
    return name


def _by_ending() -> dict[str, str]:
    return {ending.removeprefix("."): name for name, endings in READERS.items() for ending in endings}


def _external() -> dict[str, list[metadata.EntryPoint]]:
    """Readers of other packages, by the ending that they open, without its first dot."""
    found: dict[str, list[metadata.EntryPoint]] = {}
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        found.setdefault(entry.name.lower().lstrip("."), []).append(entry)
    return found


def _load(name: str) -> Callable[..., Recording]:
    """The function `open` of a reader of another package; an error names the package if it has none."""
    entries = _external()[name]
    packages = [entry.dist.name if entry.dist else entry.value for entry in entries]
    if len(entries) > 1:
        raise SettingsError(f"files *.{name} have a reader in each of {' and '.join(packages)}: uninstall all but one.")
    try:
        return entries[0].load().open
    except Exception as error:  # whatever happens while the module of another package is imported
        raise SettingsError(
            f"the reader of *.{name} in the package {packages[0]} ({ENTRY_POINTS}: {entries[0].value}) cannot be "
            f"imported ({type(error).__name__}: {error}): update or uninstall {packages[0]}."
        ) from error


def _check_options(path: str, opener: Callable[..., Recording], format: str, options: dict[str, Any]) -> None:
    """Refuse options that a reader does not have, or of a type that it does not declare; it checks their ranges."""
    parameters = inspect.signature(opener).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [name for name in parameters if name != "path"]
    for option, value in options.items():
        if option not in known:
            nearest = suggest(option, known) if known else "it takes none."
            raise SettingsError(f"{option!r} is not an option of the {format} reader ({path!r}); {nearest}")
        annotation = parameters[option].annotation  # as it is written, or what it means: a module may delay it
        kinds = (annotation if isinstance(annotation, str) else _written(annotation)).split(" | ")
        if kinds == ["Truncated"]:
            if value not in TRUNCATED:
                raise SettingsError(f"{option} = {value!r} is not known; {suggest(value, TRUNCATED)}")
        elif option != "start" and not any(kind not in _TYPES or _TYPES[kind][0](value) for kind in kinds):
            needed = " or ".join(_TYPES[kind][1] for kind in kinds if kind != "None")
            raise SettingsError(f"{option} = {value!r} is not {needed}.")


def _written(annotation: Any) -> str:
    return (
        "Truncated" if annotation == Truncated else inspect.formatannotation(annotation).replace("collections.abc.", "")
    )


def _all(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Sequence | np.ndarray) and all(map(fits, value))


#: A type in the signature of a reader -> whether a value is of it, and what to call it. The forms of `start` are in
#: `metadata.moment`.
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, "nothing"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "bool": (lambda value: isinstance(value, bool | np.bool_), "true or false"),
    "int": (lambda value: is_count(value, -LARGEST), "a whole number"),
    "float": (lambda value: isinstance(value, int | float | np.number) and not isinstance(value, bool), "a number"),
    "Sequence[str]": (lambda value: _all(value, lambda part: isinstance(part, str)), "a list of texts"),
    "Sequence[int]": (lambda value: _all(value, lambda part: is_count(part, -LARGEST)), "a list of whole numbers"),
}

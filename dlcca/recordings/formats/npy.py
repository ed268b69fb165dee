"""NumPy's own files: .npy is mapped into memory; .npz too, except for members that are compressed."""

import builtins
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArrayFile, Member, Opened, array_reader
from dlcca.recordings.formats.recording import Recording

FORMAT = "NumPy"


@array_reader
def open(path: str, **options: Any) -> Recording:
    """The recording in a .npy array (samples, channels), or in the arrays of one length of a .npz file."""
    with builtins.open(path, "rb") as file:
        is_archive = file.read(2) == b"PK"
    if is_archive:
        members, notes = _members(path)
    else:
        mapped = _mapped(path)
        members, notes = [Member("", mapped.shape, mapped.dtype, Opened(_mapped, path))], []
    return ArrayFile(path, FORMAT, members, {"": {}}, notes, **options).recording()


def _mapped(path: str) -> NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "pickle" in str(error) or "object" in str(error).lower():
            raise _pickled(path) from error
        raise


def _pickled(path: str, name: str = "") -> DataError:
    what = f"{name!r} in {path!r}" if name else repr(path)
    return DataError(
        f"{what} holds Python objects, or is a pickle, which may run any code when it is read: refused. "
        "Save it again as an array of numbers."
    )


def _members(path: str) -> tuple[list[Member], list[str]]:
    """The arrays of a .npz file by their headers; no samples are read."""
    members, compressed = [], []
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                continue
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as file:
                is_first = np.lib.format.read_magic(file) == (1, 0)
                # Version 3 differs from version 2 only in names of fields that are not ASCII.
                read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
                shape, fortran, dtype = read(file)
                header_bytes = file.tell()
            if dtype.hasobject:
                raise _pickled(path, name)
            if entry.compress_type == zipfile.ZIP_STORED and dtype.kind in "biuf" and 0 not in shape:
                # Stored bytes begin after the local header of the member, whose last two numbers are lengths.
                names, more = np.fromfile(path, "<u2", 2, offset=entry.header_offset + 26).tolist()
                offset = entry.header_offset + 30 + names + more + header_bytes
                opened = Opened(np.memmap, path, dtype, "r", offset, shape, "F" if fortran else "C")
            else:
                opened = Opened(_whole, path, entry.filename)
                if np.prod(shape) > 4096:
                    compressed.append(name)
            members.append(Member(name, shape, dtype, opened))
    note = f"compressed and therefore read whole, each when it is first used: {', '.join(compressed)}"
    return members, [note] if compressed else []


def _whole(path: str, member: str) -> NDArray[Any]:
    with np.load(path, allow_pickle=False) as archive:
        return archive[member.removesuffix(".npy")]

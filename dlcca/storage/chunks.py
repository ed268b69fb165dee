"""Whole chunks of an array on this machine's disk, as they lie in memory, without the copies that Zarr makes.

A chunk of an array of plain numbers with a checksum is a file of these numbers, little end first, and the CRC-32C of
them behind. Zarr copies the numbers to put the checksum there, and goes through a thread; for rows as wide as raw
windows that is a third of what it takes to ingest them, and of small blocks most of what it takes to read them. What is
anything else is left to Zarr.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.storage import exclusive_create
from dlcca.storage.files import is_remote, zarr_store


@dataclass(frozen=True)
class Writer:
    """An array that is open, to be written or read."""

    array: Any
    folder: Path | None  # where its chunks are, if they may be written past Zarr
    objects: tuple[str, str] | None = None  # address and path, if its chunks are objects that are put on a condition
    confirm: Callable[[], None] = lambda: None  # called right before a chunk is put in its place; may refuse it

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def write(self, first: int, X: NDArray) -> int:
        """Put rows X where they belong, from row ``first`` on; their checksum."""
        X = np.ascontiguousarray(X, dtype=self.dtype)
        checksum = crc32c(X)
        rows = self.array.chunks[0]
        is_last = first + len(X) == self.array.shape[0] and 0 < len(X) < rows
        is_whole = first % rows == 0 and X.shape[1:] == self.array.chunks[1:] and (len(X) == rows or is_last)
        if is_whole and (self.folder is not None or self.objects is not None):
            chunk = ["c", str(first // rows), *["0"] * (X.ndim - 1)]
            whole, check = (X, checksum) if len(X) == rows else self._filled_up(X, rows)
            if self.folder is not None:
                _put(self.folder.joinpath(*chunk), whole, check, self.confirm)
            elif self.objects is not None:
                address, path = self.objects
                content = b"".join(_content(whole, check))
                exclusive_create.put_confirmed(address, "/".join([path, *chunk]), content, self.confirm)
        else:
            self.confirm()
            self.array[first : first + len(X)] = X
        return checksum

    def _filled_up(self, X: NDArray, rows: int) -> tuple[NDArray, int]:
        """The last rows of an array as the whole chunk that Zarr has for them, and its checksum."""
        whole = np.full((rows, *X.shape[1:]), self.array.fill_value, self.dtype)
        whole[: len(X)] = X
        return whole, crc32c(whole)

    def read(self, first: int, rows: int) -> NDArray:
        """So many rows from row ``first`` on; a ValueError if they are damaged. Those of a missing chunk are zeros."""
        place = self._place(first) if 0 < rows <= self.array.chunks[0] else None
        if place is None or not place.exists():
            return np.asarray(self.array[first : first + rows])
        content = np.fromfile(place, np.uint8)
        numbers, checksum = content[:-4], content[-4:]
        size = int(np.prod(self.array.chunks)) * self.dtype.itemsize
        if len(numbers) != size or int(checksum.view("<u4")[0]) != crc32c(numbers):
            raise ValueError(f"the checksum of the chunk {place.name} does not fit")
        return numbers.view(self.dtype).reshape(self.array.chunks)[:rows]

    def _place(self, first: int) -> Path | None:
        """The file of the chunk that begins with a row; None if none does, or it is for Zarr to say."""
        chunk, beside = divmod(first, self.array.chunks[0])
        if self.folder is None or beside:
            return None
        return self.folder.joinpath("c", str(chunk), *["0"] * (self.array.ndim - 1))


def writer(address: str, path: str, fingerprint: str, look: Callable[[], None] = lambda: None) -> Writer:
    """An array of a store, opened once in a process; the fingerprint tells those of other settings apart.

    ``look`` is called before it is opened, and may refuse it.
    """
    key = (address, path, fingerprint)
    found = _OPENED.get(key)
    if found is None:
        look()
        found = _opened(address, path)
        if len(_OPENED) >= MOST_OPENED:
            _OPENED.clear()
        _OPENED[key] = found
    return found


#: Arrays that are open, by address, path and fingerprint.
_OPENED: dict[tuple[str, str, str], Writer] = {}
MOST_OPENED = 256


def _opened(address: str, path: str) -> Writer:
    import zarr

    # Zarr is not to look whether all of a chunk is zero: that takes longer than to write it.
    array = zarr.open_array(zarr_store(address), path=path, mode="r+").with_config({"write_empty_chunks": True})
    if not _is_plain(array):
        return Writer(array, None)
    if not is_remote(address):
        return Writer(array, Path(zarr_store(address)) / path)
    # Arrays of a stage have a folder that only their attempt writes to; for others, workers of all attempts meet.
    return Writer(array, None, None if path.startswith("stages/") else (address, path))


def _is_plain(array: Any) -> bool:
    """Whether a chunk is its numbers and a checksum, all columns of a row in one."""
    from zarr.codecs import BytesCodec, Crc32cCodec

    codecs = array.metadata.to_dict().get("codecs")
    known = [BytesCodec().to_dict(), Crc32cCodec().to_dict()]
    one_byte = [{"name": "bytes"}, known[1]]
    key = array.metadata.to_dict().get("chunk_key_encoding")
    return (
        sys.byteorder == "little"
        and array.metadata.zarr_format == 3
        and array.ndim > 0
        and array.chunks[1:] == array.shape[1:]
        and codecs is not None
        and list(codecs) in (known, one_byte)
        and key == {"name": "default", "configuration": {"separator": "/"}}
    )


def _put(place: Path, X: NDArray, checksum: int, confirm: Callable[[], None]) -> None:
    """A chunk, seen whole or not at all."""
    scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(scratch, "wb", buffering=0) as file:
            for part in _content(X, checksum):
                _write_all(file, memoryview(part))
        confirm()
        os.replace(scratch, place)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _content(X: NDArray, checksum: int) -> tuple[memoryview, bytes]:
    """A chunk as bytes."""
    return X.reshape(-1).view(np.uint8).data, np.array([checksum], "<u4").tobytes()


def _write_all(file: Any, content: memoryview) -> None:
    """All of it: a system takes no more than 2 GiB at a time."""
    while content:
        content = content[file.write(content) :]


def crc32c(X: NDArray) -> int:
    """The checksum that Zarr's chunks carry: processors have an instruction for it."""
    import google_crc32c

    return int(google_crc32c.value(np.ascontiguousarray(X).reshape(-1).view(np.uint8))) if X.size else 0

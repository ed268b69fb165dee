"""Whole chunks of an array, written and read without the copies that Zarr makes.

A chunk of plain numbers with a checksum is a file of these numbers, little-endian, followed by their CRC-32C. Zarr
copies the numbers to append the checksum, and uses another thread: for rows as wide as raw windows that is a third of
the time of an ingestion, and for small blocks most of the time of a read. Arrays of other layouts are left to Zarr.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.storage.files import Files, files_at, is_remote, local_path, zarr_store
from dlcca.storage.manifest import crc32c


@dataclass(frozen=True)
class Writer:
    """An open array, to be written or read."""

    array: Any
    files: Files | None = None  # in which chunks are written past Zarr; None leaves them to Zarr
    folder: Path | None = None  # of an array on this machine from which chunks are read past Zarr
    confirm: Callable[[], None] = lambda: None  # called right before a chunk is moved to its place; may refuse it

    def write(self, first: int, X: NDArray) -> int:
        """Write rows X from row ``first`` on, and return their checksum."""
        X = np.ascontiguousarray(X, dtype=self.array.dtype)
        made = crc32c(X)
        rows = self.array.chunks[0]
        is_last = first + len(X) == self.array.shape[0] and 0 < len(X) < rows
        is_whole = first % rows == 0 and X.shape[1:] == self.array.chunks[1:] and (len(X) == rows or is_last)
        if is_whole and self.files is not None:
            whole = X
            if is_last:  # Zarr has a whole chunk for the last rows
                whole = np.full((rows, *X.shape[1:]), self.array.fill_value, self.array.dtype)
                whole[: len(X)] = X
            of_whole = crc32c(whole) if is_last else made
            parts = (whole.reshape(-1).view(np.uint8).data, np.array([of_whole], "<u4").tobytes())
            self.files.put_confirmed(self._chunk(first // rows), parts, self.confirm)
        else:
            self.confirm()
            self.array[first : first + len(X)] = X
        return made

    def read(self, first: int, rows: int) -> NDArray:
        """Rows from row ``first`` on; a ValueError if they are damaged. Those of a missing chunk are zeros."""
        chunk, offset = divmod(first, self.array.chunks[0])
        place = None if self.folder is None else self.folder / self._chunk(chunk)
        if place is None or offset or not 0 < rows <= self.array.chunks[0] or not place.exists():
            return np.asarray(self.array[first : first + rows])
        content = np.fromfile(place, np.uint8)
        numbers, made = content[:-4], content[-4:]
        size = int(np.prod(self.array.chunks)) * self.array.dtype.itemsize
        if len(numbers) != size or int(made.view("<u4")[0]) != crc32c(numbers):
            raise ValueError(f"the checksum of the chunk {place.name} does not match")
        return numbers.view(self.array.dtype).reshape(self.array.chunks)[:rows]

    def _chunk(self, number: int) -> str:
        """The file of a chunk, below that of the array."""
        return "/".join(["c", str(number), *["0"] * (self.array.ndim - 1)])


def writer(address: str, path: str) -> Writer:
    """An array of a store, opened."""
    import zarr

    # With this setting Zarr does not test whether a chunk is all zeros, which takes longer than to write it.
    array = zarr.open_array(zarr_store(address), path=path, mode="r+").with_config({"write_empty_chunks": True})
    if not _is_plain(array):
        return Writer(array)
    if not is_remote(address):
        return Writer(array, files_at(f"{address}/{path}"), local_path(address) / path)
    # Only workers of one attempt write to the arrays of a stage; those of all attempts write to the other arrays.
    return Writer(array) if path.startswith("stages/") else Writer(array, files_at(f"{address}/{path}"))


def _is_plain(array: Any) -> bool:
    """Whether a chunk is its numbers and a checksum, with all columns of a row in one chunk."""
    from zarr.codecs import BytesCodec, Crc32cCodec

    metadata, checked = array.metadata.to_dict(), Crc32cCodec().to_dict()
    return (
        sys.byteorder == "little"
        and array.metadata.zarr_format == 3
        and array.ndim > 0
        and array.chunks[1:] == array.shape[1:]
        and list(metadata.get("codecs") or ()) in ([BytesCodec().to_dict(), checked], [{"name": "bytes"}, checked])
        and metadata.get("chunk_key_encoding") == {"name": "default", "configuration": {"separator": "/"}}
    )

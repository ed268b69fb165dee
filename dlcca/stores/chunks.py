"""Whole chunks of an array written to this machine's disk as they lie in memory, without the copies that Zarr makes.

A chunk of an array of plain numbers with a checksum is a file of these numbers, little end first, and the CRC-32C of
them behind. Zarr copies the numbers to put the checksum there, and goes through a thread; for rows as wide as raw
windows that is a third of what it takes to ingest them. What is anything else is left to Zarr.
"""

from __future__ import annotations

import os
import sys
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.stores.files import is_remote, zarr_store


@dataclass(frozen=True)
class Writer:
    """An array that is open for writing."""

    array: Any
    folder: Path | None  # where its chunks are, if they may be written past Zarr

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def write(self, first: int, X: NDArray) -> int:
        """Put rows X where they belong, from row ``first`` on; their checksum."""
        X = np.ascontiguousarray(X, dtype=self.dtype)
        checksum = crc32c(X)
        rows = self.array.chunks[0]
        if self.folder is not None and X.shape == self.array.chunks and first % rows == 0:
            zeros = ["0"] * (X.ndim - 1)
            _put(self.folder.joinpath("c", str(first // rows), *zeros), X, checksum)
        else:
            self.array[first : first + len(X)] = X
        return checksum


@lru_cache(maxsize=64)
def writer(address: str, path: str, fingerprint: str) -> Writer:
    """An array of a store, opened once in a process; the fingerprint tells those of other settings apart."""
    import zarr

    # Zarr is not to look whether all of a chunk is zero: that takes longer than to write it.
    array = zarr.open_array(zarr_store(address), path=path, mode="r+", config={"write_empty_chunks": True})
    return Writer(array, None if is_remote(address) or not _is_plain(array) else Path(zarr_store(address)) / path)


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


def _put(place: Path, X: NDArray, checksum: int) -> None:
    """A chunk, seen whole or not at all."""
    scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(scratch, "wb", buffering=0) as file:
            for part in (X.reshape(-1).view(np.uint8).data, np.array([checksum], "<u4").tobytes()):
                _write_all(file, memoryview(part))
        os.replace(scratch, place)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _write_all(file: Any, content: memoryview) -> None:
    """All of it: a system takes no more than 2 GiB at a time."""
    while content:
        content = content[file.write(content) :]


def crc32c(X: NDArray) -> int:
    """The checksum that Zarr's chunks carry: processors have an instruction for it."""
    import google_crc32c

    return int(google_crc32c.value(np.ascontiguousarray(X).reshape(-1).view(np.uint8))) if X.size else 0

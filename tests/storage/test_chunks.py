"""Chunks that are written past Zarr are what Zarr would have written."""

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from dlcca.storage.chunks import writer
from dlcca.storage.manifest import crc32c


def made(folder, name, shape, chunks, dtype, codecs):
    zarr.create_array(str(folder / name), shape=shape, chunks=chunks, dtype=dtype, compressors=codecs)
    return writer(str(folder), name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(20,), (20, 3), (20, 3, 2)])
def test_the_files_are_the_same_byte_by_byte(tmp_path, dtype, shape):
    X = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    ours = made(tmp_path, "ours", shape, (8, *shape[1:]), dtype, [Crc32cCodec()])
    assert ours.folder is not None
    theirs = zarr.create_array(
        str(tmp_path / "theirs"), shape=shape, chunks=(8, *shape[1:]), dtype=dtype, compressors=[Crc32cCodec()]
    )
    theirs[...] = X
    for first in range(0, 20, 8):  # the last one is shorter than a chunk, and filled up
        assert ours.write(first, X[first : first + 8]) == crc32c(X[first : first + 8])
    files = sorted(p.relative_to(tmp_path / "theirs") for p in (tmp_path / "theirs" / "c").rglob("*") if p.is_file())
    assert len(files) == 3
    for file in files:
        assert (tmp_path / "ours" / file).read_bytes() == (tmp_path / "theirs" / file).read_bytes()
    assert (
        sorted(p.relative_to(tmp_path / "ours") for p in (tmp_path / "ours" / "c").rglob("*") if p.is_file()) == files
    )


def test_what_is_not_plain_is_left_to_zarr(tmp_path):
    packed = made(tmp_path, "packed", (20, 3), (8, 3), "float32", [ZstdCodec(), Crc32cCodec()])
    narrow = made(tmp_path, "narrow", (20, 3), (8, 1), "float32", [Crc32cCodec()])
    X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    for array, name in ((packed, "packed"), (narrow, "narrow")):
        assert array.folder is None
        array.write(8, X)
        np.testing.assert_array_equal(zarr.open_array(str(tmp_path / name))[8:16], X)


def test_rows_that_lie_apart_in_memory_are_put_together(tmp_path):
    array = made(tmp_path, "x", (16, 3), (8, 3), "float32", [Crc32cCodec()])
    X = np.random.default_rng(0).standard_normal((16, 6))[::2, ::2]
    array.write(0, X)
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x"))[:8], X.astype(np.float32))

"""Zarr arrays of other programs as input: missing chunks, changes, and codecs that are refused.

Zarr reads a missing chunk as fill values, without an error, because chunks of nothing else need not be written. A lost
chunk looks the same, so missing chunks are accepted only if the user says so. Arrays of Python objects are refused
before a chunk is decoded: to decode a pickle is to run any code that its writer has put into it.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dlcca.errors import DataError
from dlcca.settings.recipe import MISSING_CHUNKS
from dlcca.storage.files import can_be_listed, files_at, is_remote, local_path, signatures
from dlcca.storage.manifest import digest_of_facts, node_in

#: Ranges of rows that a message lists; the others are counted.
MOST_NAMED = 3
#: Files with the metadata of an array; a change may change every value.
METADATA = ("zarr.json", ".zarray")
#: Codecs of text, as for names of channels; where numbers are needed, the dtype is refused.
TEXT = ("vlen-utf8", "vlen-bytes", "string")
#: Codecs of Python objects.
OBJECTS = ("pickle", "json2", "msgpack2", "vlen-array", "categorize")


def missing_chunks(array: Any, stored: Container[str] | None) -> tuple[str, str] | None:
    """Of the chunks of a Zarr array that are not among its stored keys: how many, and their rows; None if all are.

    A shard is a file of many chunks. Without a listing of keys (None), Zarr counts the chunks, and their rows are not
    known ("").
    """
    if stored is None:
        of, count, noun, ranges = array.nchunks, array.nchunks - array.nchunks_initialized, "chunks", []
    else:
        size, n = ((array.shards or array.chunks)[0], array.shape[0]) if array.ndim else (1, 1)
        lost = np.array([[len(keys), sum(key not in stored for key in keys)] for keys in _keys(array)]).reshape(-1, 2)
        of, count = lost.sum(axis=0)
        noun = "shards" if array.shards else "chunks"
        # The first step of each unbroken run of missing chunks, and the one after its last.
        edges = np.flatnonzero(np.diff(lost[:, 1] > 0, prepend=False, append=False)).reshape(-1, 2)
        ranges = [f"{first * size} to {min(n, last * size) - 1}" for first, last in edges]
    if not count:
        return None
    if more := len(ranges[MOST_NAMED:]):
        ranges[MOST_NAMED:] = [f"{more} more range{'s' * (more > 1)}"]
    rows = f": rows {', '.join(ranges[:-1])}{' and ' * (len(ranges) > 1)}{ranges[-1]}" if ranges else ""
    share = 100 * count / of
    return f"{count} of {of} {noun} ({share:{'.0f' if share >= 1 else '.2g'}} %)", rows


def check_complete(what: str, address: str, array: Any, missing: str, stored: Container[str] | None = None) -> str:
    """Refuse an input with missing chunks; where the user accepts them ("fill"), a note that counts them, else "".

    ``what`` names the input in messages ("view 'left'"); ``missing`` is the setting. Keys are listed at the address,
    unless they are given; an array without an address is counted by Zarr.
    """
    MISSING_CHUNKS.check("missing_chunks", missing)
    if not can_be_listed(address):
        return f"missing_chunks = {missing!r}: those of {what} cannot be counted, because {address} lists no files"
    if stored is None and address:
        stored = signatures(address)
    missing_here = missing_chunks(array, stored)
    if missing_here is None:
        return ""
    found, where = missing_here
    fill = 0 if array.fill_value is None else array.fill_value
    if missing == "fill":
        return f"missing_chunks = 'fill': {what} lacks {found}, read as {fill}{where}"
    place = f" of {address}" if address else ""
    raise DataError(
        f"{what}: {found}{place} are missing{where}. Zarr would read them as {fill}. Restore them; or, if they were "
        f"left out because all their values are {fill}, set missing_chunks = 'fill' ([views.NAME] of run.toml, an "
        "argument of LocalCCA, --missing-chunks of dlcca transform and ingest)."
    )


def address_of(array: Any) -> str:
    """Where a Zarr array lies, if that is a folder on this machine; "" if it is elsewhere."""
    import zarr

    store = array.store_path.store
    return f"{store.root}/{array.store_path.path}".rstrip("/") if isinstance(store, zarr.storage.LocalStore) else ""


def block_signatures(array: Any, stored: Mapping[str, str], bounds: Sequence[tuple[int, int]]) -> list[str]:
    """For each block of rows (first, one after the last), a digest of the signatures of the chunks that hold it."""
    metadata = [f"{name} {stored.get(name)}" for name in METADATA]
    each = [digest_of_facts([f"{key} {stored.get(key)}" for key in keys]) for keys in _keys(array)]
    size = (array.shards or array.chunks)[0]
    return [digest_of_facts([*metadata, *each[first // size : -(-last // size)]]) for first, last in bounds]


def _keys(array: Any) -> Iterator[list[str]]:
    """The keys of the stored chunks or shards, for each step along the first axis."""
    grid = [-(-n // size) for n, size in zip(array.shape, array.shards or array.chunks, strict=True)]
    key: Callable[[tuple[int, ...]], str] = array.metadata.encode_chunk_key
    for first in np.ndindex(*grid[:1]):  # one step, if there is no axis
        yield [key((*first, *rest)) for rest in np.ndindex(*grid[1:])]


def refuse_objects(metadata: Mapping[str, Any], where: str) -> None:
    """Refuse an array with this metadata, of Zarr 2 or 3, if it holds objects."""
    names = list(_codecs(metadata))
    found = [name for name in names if name in OBJECTS]
    is_object = metadata.get("dtype") == "|O" and not any(name in TEXT for name in names)
    if found or is_object:
        what = f"with the codec {found[0]!r}" if found else "with the dtype 'O' (object)"
        raise DataError(
            f"{where} is stored {what}, for Python objects, and is not decoded: that could run code of its "
            "writer. An array of numbers is needed: write it again with a numeric dtype, as X.astype('float64')."
        )


def refuse_objects_at(address: str, path: str = "") -> None:
    """The same for an array, or the arrays of a local group, that Zarr could not open."""
    folders = [path]
    if not is_remote(address):
        root = local_path(address)
        folders += [str(file.parent.relative_to(root)) for file in sorted((root / path).rglob(".zarray"))]
    for folder in dict.fromkeys(folders):
        for name in (".zarray", "zarr.json"):
            metadata = node_in(files_at(address).get(f"{folder}/{name}".lstrip("/")))
            refuse_objects(metadata, f"{address} {folder}".rstrip(" ."))


def _codecs(metadata: Any) -> Iterator[str]:
    """Names of all codecs, also those within shards."""
    for codec in (*(metadata.get("filters") or ()), metadata.get("compressor"), *(metadata.get("codecs") or ())):
        if isinstance(codec, Mapping):
            yield str(codec.get("id", codec.get("name"))).removeprefix("numcodecs.")
            if isinstance(codec.get("configuration"), Mapping):
                yield from _codecs({"codecs": codec["configuration"].get("codecs")})

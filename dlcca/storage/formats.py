"""What every finished store consists of: a sealed header and arrays with checksums.

The header is the attributes of the Zarr group: format, version, facts, ``manifest`` (a SHA-256 of each array),
``metadata`` (a checksum of the zarr.json of each array), and a checksum of itself. It is written last: a store without
a header is not finished. The files `run`, `views`, `transformed`, `model` and `comparison` describe one format each.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import StorageError, StoreFileError
from dlcca.storage import manifest
from dlcca.storage.files import files_at, is_remote, local_path, zarr_store
from dlcca.storage.inputs import refuse_objects
from dlcca.storage.retry import failure_reason

#: The formats of all stores.
FORMATS = {f"dlcca-{kind}" for kind in ("run", "views", "transformed", "model", "comparison", "treatment", "scaling")}


@dataclass(frozen=True)
class Format:
    """A format of stores: what its header says, and how messages refer to it."""

    name: str  # in the header, as "dlcca-run"
    version: int
    noun: str
    error: type[StoreFileError]
    renew: str  # what to do about a damaged store besides restoring it

    def __post_init__(self) -> None:
        assert self.name in FORMATS, self.name


# The header.


def seal(group: Any, form: Format, content: Mapping[str, Any]) -> str:
    """Write the header and return its checksum. The content has a ``manifest``, if the store has arrays."""
    store = group.store  # on this machine's disk, or in object storage
    address = f"{store.root if hasattr(store, 'root') else store.address}/{group.path}".rstrip("/")
    found = manifest.metadata_checksums(address, content.get("manifest", {})).items()
    metadata = {name: made for name, made in found if made is not None}  # an entry may be no array
    header = {"format": form.name, "version": form.version, **content, "metadata": metadata}
    made = manifest.digest_of_facts(header)
    manifest.put_group(address, {**header, "checksum": made})
    return made


def open_sealed(path: str | Path, form: Format) -> tuple[Any, dict[str, Any]]:
    """The group at ``path`` and its header, if it is of this format and unchanged."""
    import zarr

    address = str(path)
    if files_at(address).get(manifest.ZARR_JSON) is None if is_remote(address) else not local_path(address).exists():
        raise form.error(f"there is no {form.noun} at {path}.")
    try:
        # A link, as that of a published day, may be pointed elsewhere while it is read: it is resolved once.
        place = zarr_store(address) if is_remote(address) else os.path.realpath(zarr_store(address))
        group = zarr.open_group(place, mode="r")
        header = dict(group.attrs)
    except StorageError:  # no answer, so that nothing is known of the header
        raise
    except Exception as error:
        reason = failure_reason(error) or error
        raise form.error(f"{path} is not a dlcca {form.noun}, or its header is damaged: {reason}") from error
    if header.get("format") != form.name:
        raise form.error(f"{path} is not a dlcca {form.noun}: it says {header.get('format')!r}, not {form.name!r}.")
    if header.get("version") != form.version:
        raise form.error(
            f"{path} has version {header.get('version')!r} of the {form.noun} format; this dlcca reads version "
            f"{form.version}. Save it again with the dlcca that wrote it, or {form.renew}."
        )
    if header.pop("checksum", None) != manifest.digest_of_facts(header):
        raise form.error(f"the header of {path} is damaged: its checksum does not match. Restore it, or {form.renew}.")
    return group, header


def header_of(path: str | Path, form: Format) -> dict[str, Any]:
    """The header of a finished store of this format."""
    return open_sealed(path, form)[1]


def is_form(path: str | Path, form: Format) -> bool:
    """Whether a store of this format is there, whole or not."""
    try:
        return manifest.attributes_in(files_at(str(path)).get(manifest.ZARR_JSON)).get("format") == form.name
    except StorageError:
        if is_remote(str(path)):  # no answer, so that nothing is known
            raise
        return False


def refuse_damaged_header(path: str | Path) -> None:
    """An error if there is neither a finished store of some format nor one that was begun."""
    found = files_at(str(path)).get(manifest.ZARR_JSON)
    try:
        attributes = {} if found is None else manifest.group_attributes(found)
        if not attributes or attributes["format"] in FORMATS:
            return
    except (ValueError, KeyError, TypeError):
        pass
    raise StoreFileError(f"{path} is no store of dlcca, or its header is damaged: restore it, or run again.")


# Arrays.


def new_array(group: Any, name: str, shape: tuple[int, ...], dtype: Any, rows: int, **options: Any) -> Any:
    """A new array of a store, in chunks of ``rows`` whole rows with checksums."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    chunks = tuple(max(1, min(rows, size) if axis == 0 else size) for axis, size in enumerate(shape))
    # All chunks are written, also those of zeros: then a missing one is known to be lost.
    options |= {"compressors": [ZstdCodec(), Crc32cCodec()], "config": {"write_empty_chunks": True}}
    return group.create_array(name, shape=shape, dtype=dtype, chunks=chunks, **options)


def write_array(group: Any, name: str, X: NDArray) -> str:
    """Write one array in chunks of about 8 MiB, and return its digest for the manifest."""
    X = np.asarray(X, order="C")
    row_bytes = max(1, np.atleast_1d(X)[:1].nbytes)
    new_array(group, name, X.shape, X.dtype, (8 << 20) // row_bytes)[...] = X
    return manifest.digest(X)


def read_array(group: Any, name: str, expected: str, path: str | Path, form: Format) -> NDArray:
    """One array, if it is complete and unchanged."""
    array = _open(group, name, path, form)
    with read_errors(f"array {name!r}", path, form):
        X = np.asarray(array[...])
    if manifest.digest(X) != expected:  # a missing chunk reads as zeros: only the digest shows it
        raise form.error(f"array {name!r} of {path} is damaged or incomplete. Restore it, or {form.renew}.")
    return X


def read_all(path: str | Path, form: Format) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """The header of a store, and all its arrays by name, each checked."""
    group, header = open_sealed(path, form)
    known = header["manifest"].items()
    return header, {name: read_array(group, name, expected, path, form) for name, expected in known}


def read_rows(
    group: Any, names: Sequence[str], digests: Mapping[str, str], path: str | Path, form: Format, *, step: int
) -> Iterator[tuple[int, dict[str, NDArray]]]:
    """The first row and the arrays by name, ``step`` rows at a time; an error at the end if a digest differs."""
    arrays, parts = {name: _open(group, name, path, form) for name in names}, {}
    hashes = {name: manifest.new_hash(array) for name, array in arrays.items()}
    for first in range(0, int(arrays[names[0]].shape[0]), step):
        for name, array in arrays.items():
            with read_errors(f"array {name!r}", path, form):
                parts[name] = np.asarray(array[first : first + step])
            hashes[name].update(np.ascontiguousarray(parts[name]).data)
        yield first, dict(parts)
    for name in names:
        if hashes[name].hexdigest() != digests.get(name):
            raise form.error(f"array {name!r} of {path} is damaged or incomplete. Restore it, or {form.renew}.")


def _open(group: Any, name: str, path: str | Path, form: Format) -> Any:
    with read_errors(f"array {name!r}", path, form):
        array = group[name]
        refuse_objects(array.metadata.to_dict(), "it")
        return array


@contextmanager
def read_errors(what: str, path: str | Path, form: Format) -> Iterator[None]:
    """Turn what the reader of a part of a store raises into an error that says what to do."""
    try:
        yield
    except Exception as error:
        if is_remote(str(path)) and (reason := failure_reason(error)) is not None:
            raise StorageError(f"{what} of {path} cannot be read: {reason}.") from error
        why = "it is not there" if isinstance(error, KeyError) else f"{error}"
        raise form.error(f"{what} of {path} cannot be read: {why}. Restore it, or {form.renew}.") from error


def lazy_array(group: Any, header: Mapping[str, Any], name: str, path: str | Path, form: Format) -> Any:
    """An array as a Dask array; a chunk that is missing or damaged is an error when it is read."""
    import dask.array as da

    if manifest.metadata_damages(str(path), {name: header["metadata"].get(name)}):
        raise form.error(f"array {name!r} of {path} is damaged: its {manifest.ZARR_JSON} was changed. Restore it.")
    array = group[name]
    chunks = da.core.normalize_chunks(array.chunks, array.shape)
    read = partial(_read_chunk, array, str(path), name, form)
    return da.map_blocks(read, chunks=chunks, dtype=array.dtype, meta=np.empty((0,) * array.ndim, array.dtype))


def _read_chunk(array: Any, path: str, name: str, form: Format, block_info: Any = None) -> NDArray:
    """One chunk of an array; an error if it is missing, which Zarr reads as zeros."""
    about = block_info[None]
    chunk = "/".join(map(str, about["chunk-location"]))
    if files_at(path).get(f"{name}/c/{chunk}") is None:
        raise form.error(f"chunk {chunk} of array {name!r} of {path} is missing. Restore it.")
    with read_errors(f"array {name!r}", path, form):
        return np.asarray(array[tuple(slice(*ends) for ends in about["array-location"])])


# Verification.


def damages(
    path: str | Path, form: Format, required: Iterable[str] = (), others: Mapping[str, Callable[..., Any]] | None = None
) -> dict[str, str | None]:
    """For the header and every entry of its manifest what is wrong with it, None if nothing is.

    Entries are arrays, except for ``others``, which functions read by group, header and address. A header that cannot
    be read is an error.
    """
    path = os.path.realpath(path) if os.path.islink(path) else path  # a link may change before everything is read
    group, header = open_sealed(path, form)
    found: dict[str, str | None] = {"header": None, **manifest.metadata_damages(str(path), header["metadata"])}
    try:
        manifest.group_attributes(files_at(str(path)).get(manifest.ZARR_JSON) or b"")
    except (ValueError, KeyError, TypeError):
        found["header"] = f"{manifest.ZARR_JSON} of {path} is damaged"
    for name, expected in (dict.fromkeys(required, "") | header["manifest"]).items():
        try:
            if name in (others := others or {}):
                others[name](group, header, path)
            else:
                read_array(group, name, expected, path, form)
            found.setdefault(name, None)
        except StoreFileError as error:
            found[name] = str(error)
    return found


def plain(value: Any) -> Any:
    """The value as JSON has it: no NumPy scalars, and None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""What every store is made of: arrays with checksums, a sealed header, and replacement of all or nothing."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import StorageError, StoreFileError
from dlcca.storage import groups, lock, places
from dlcca.storage.codecs import refuse_objects
from dlcca.storage.files import files_at, is_remote, trouble, zarr_store
from dlcca.storage.formats import FORMATS, Format


@contextmanager
def replacing(path: Path, form: Format) -> Iterator[Path]:
    """A place to write a store at, beside ``path``; it is moved there if all goes well, and removed if not.

    A store of the same format that is there already is replaced; anything else there is refused, and so is one that
    another process writes to. A symbolic link stays, and what it points to is replaced.
    """
    try:
        places.refuse_store(path, form, replace=True)
        path = Path(os.path.realpath(path))
        lock.refuse_others(str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        new, old = scratch / "new", scratch / "old"
        try:
            yield new
            _flush(new)
            lock.refuse_others(str(path))
            places.refuse_store(path, form, replace=True)  # somebody may have put something there meanwhile
            if path.exists():
                os.rename(path, old)
            os.rename(new, path)
        finally:
            if old.exists() and not path.exists():  # stopped between the two moves
                os.rename(old, path)
            shutil.rmtree(scratch, ignore_errors=True)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error


def is_form(path: str | Path, form: Format) -> bool:
    """Whether a store of this format is there, whole or not."""
    try:
        found = files_at(str(path)).get("zarr.json")
        return found is not None and json.loads(found).get("attributes", {}).get("format") == form.name
    except StorageError:
        if is_remote(str(path)):  # it did not answer: nothing is known
            raise
        return False
    except (ValueError, AttributeError):
        return False


def refuse_damaged_header(path: str | Path) -> None:
    """An error if what is there is neither a finished store of some format nor one that was begun."""
    found = files_at(str(path)).get(groups.FILE)
    try:
        attributes = {} if found is None else groups.attributes_in(found)
        if not attributes or attributes["format"] in FORMATS:
            return
    except (ValueError, KeyError, TypeError):
        pass
    raise StoreFileError(f"{path} is no store of dlcca, or its header is damaged: restore it, or run again.")


def write_array(group: Any, name: str, X: NDArray) -> str:
    """Write one array in chunks that each carry a checksum; its digest is what `read_array` asks for."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    X = np.asarray(X, order="C")
    # All chunks are written, those of nothing but zeros too: then one that is not there is known to be missing.
    every = {"write_empty_chunks": True}
    group.create_array(name, data=X, chunks=_chunks(X), compressors=[ZstdCodec(), Crc32cCodec()], config=every)
    return digest(X)


def read_array(group: Any, name: str, expected: str, path: str | Path, form: Format) -> NDArray:
    """One array, if it is all there and unchanged."""
    try:
        array = group[name]
        refuse_objects(array.metadata.to_dict(), "it")
        X = np.asarray(array[...])
    except Exception as error:
        if is_remote(str(path)) and (reason := trouble(error)) is not None:
            raise StorageError(f"array {name!r} of {path} cannot be read: {reason}.") from error
        what = "it is not there" if isinstance(error, KeyError) else f"{error}"
        raise form.error(f"array {name!r} of {path} cannot be read: {what}. Restore it, or {form.renew}.") from error
    if digest(X) != expected:  # a missing chunk reads as zeros: only the digest tells
        raise form.error(f"array {name!r} of {path} is damaged or incomplete. Restore it, or {form.renew}.")
    return X


def seal(group: Any, form: Format, content: Mapping[str, Any]) -> str:
    """Write the header, with a checksum, which is returned. It comes last: a store without one is not finished.

    Besides the content it holds checksums of the zarr.json of every array that the content has a digest of.
    """
    address = _address_of(group)
    metadata = {name: made for name, made in groups.checksums(address, digests_in(content)).items() if made is not None}
    header = {"format": form.name, "version": form.version, **content, "metadata": metadata}
    made = digest_of_facts(header)
    groups.put(address, {**header, "checksum": made})
    return made


def digests_in(header: Mapping[str, Any]) -> dict[str, Any]:
    """The digests that a header has, by name, wherever its format keeps them."""
    held = (header.get("manifest"), header.get("arrays"), header.get("content", {}).get("arrays"))
    return {name: made for digests in held if isinstance(digests, Mapping) for name, made in digests.items()}


def _address_of(group: Any) -> str:
    """The address of a Zarr group."""
    store = group.store
    if hasattr(store, "root"):  # on this machine's disk
        return str(Path(store.root) / group.path)
    protocol = store.fs.protocol if isinstance(store.fs.protocol, str) else store.fs.protocol[0]
    return f"{protocol}://{store.path}/{group.path}".rstrip("/")


def open_sealed(path: str | Path, form: Format) -> tuple[Any, dict[str, Any]]:
    """The group at ``path`` and its header, if it is of this format and unchanged."""
    import zarr

    address = str(path)
    local = Path(address.removeprefix("file://"))
    if files_at(address).get("zarr.json") is None if is_remote(address) else not local.exists():
        raise form.error(f"there is no {form.noun} at {path}.")
    try:
        # A link may be pointed elsewhere while it is read, as that of a published day: what it is now is read.
        place = zarr_store(address) if is_remote(address) else os.path.realpath(zarr_store(address))
        group = zarr.open_group(place, mode="r")
        header = dict(group.attrs)
    except StorageError:  # it did not answer: nothing is known of the header
        raise
    except Exception as error:
        raise form.error(
            f"{path} is not a dlcca {form.noun}, or its header is damaged: {trouble(error) or error}"
        ) from error
    if header.get("format") != form.name:
        raise form.error(f"{path} is not a dlcca {form.noun}: it says {header.get('format')!r}, not {form.name!r}.")
    readable = (*form.older, form.version)
    if header.get("version") not in readable:
        raise form.error(
            f"{path} has version {header.get('version')!r} of the {form.noun} format; this dlcca reads version "
            f"{' and '.join(map(str, readable))}. Save it again with the dlcca that wrote it, or {form.renew}."
        )
    if header.pop("checksum", None) != digest_of_facts(header):
        raise form.error(f"the header of {path} is damaged: its checksum does not fit. Restore it, or {form.renew}.")
    return group, header


def header_damages(path: str | Path, header: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the header of a store, or the zarr.json of its arrays, that reading would overlook."""
    address, damages = str(path), {}
    try:
        groups.attributes_in(files_at(address).get(groups.FILE) or b"")
    except (ValueError, KeyError, TypeError):
        damages["header"] = f"{groups.FILE} of {path} is damaged"
    return damages | groups.damages(address, header.get("metadata", {}))


def digest(X: NDArray) -> str:
    """SHA-256 of an array with its dtype and shape."""
    made = hashlib.sha256(f"{X.dtype.str}{X.shape}".encode())
    made.update(np.ascontiguousarray(X).data)
    return made.hexdigest()


def digest_of_facts(content: Mapping[str, Any]) -> str:
    """SHA-256 of plain JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """The value as JSON has it: no numpy scalars, and None for what is not finite, which JSON cannot say."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _chunks(X: NDArray) -> tuple[int, ...]:
    """Whole rows, about 8 MiB of them."""
    if X.ndim == 0:
        return ()
    row_bytes = max(1, X[:1].nbytes)
    return (max(1, min(len(X), (8 << 20) // row_bytes)), *(max(1, d) for d in X.shape[1:]))


def _flush(folder: Path) -> None:
    """Have the disk hold every file before the move: after a power cut the move could be there without them."""
    for file in folder.rglob("*"):
        if file.is_file():
            with open(file, "rb") as opened:
                os.fsync(opened.fileno())

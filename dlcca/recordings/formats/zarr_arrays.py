"""Zarr arrays and groups, also as xarray writes them: time and channel coordinates are understood."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArrayFile, ArrayOptions, ArraySource, Member, Opened, array_reader, is_time
from dlcca.recordings.formats.checks import check_file, refusing
from dlcca.recordings.formats.recording import Recording, SourceSignal
from dlcca.storage.files import signatures
from dlcca.storage.inputs import check_complete

FORMAT = "Zarr"
_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


@array_reader
def open(path: str, *, missing_chunks: str = "refuse", **options: Any) -> Recording:
    """The recording in a Zarr array, or in the arrays of a Zarr group, of shape (samples, channels).

    An array that lacks chunks is refused; with ``missing_chunks="fill"`` they are read as fill values, and counted in
    the notes.
    """
    wanted = ArrayOptions(**options)
    _check_folder(path)
    import zarr

    with refusing(path, FORMAT):
        root = _node(path)
        below = [] if isinstance(root, zarr.Array) else _members(path, root)
        nodes = {"": root, **dict(below)}
        arrays = {name: node for name, node in nodes.items() if isinstance(node, zarr.Array)}
        groups = {name: dict(node.attrs) for name, node in nodes.items() if name not in arrays or not name}
        members = [_member(path, name, node) for name, node in sorted(arrays.items())]
    if not members:
        raise DataError(f"{path!r} holds no arrays.")
    stored = signatures(path)

    def complete(some: Sequence[Member]) -> list[str]:
        return [note for m in some if (note := _complete(path, m.name, arrays[m.name], stored, missing_chunks))]

    clocks = [member for member in members if is_time(member) and member.shape and member.shape[0] > 1]
    notes = complete(clocks)
    made = ArrayFile(path, FORMAT, members, groups, wanted).recording()
    sources = [signal.source for signal in made.signals if isinstance(signal, SourceSignal)]
    used = [source.opened for source in sources if isinstance(source, ArraySource)]
    notes += complete([member for member in members if member.opened in used])
    return replace(made, notes=(*made.notes, *notes))


def _complete(path: str, name: str, array: Any, stored: Mapping[str, str], missing_chunks: str) -> str:
    """Refuse an array that lacks chunks, or note them."""
    within = f"{name}/" if name else ""
    keys = {key.removeprefix(within) for key in stored if key.startswith(within)}
    return check_complete(
        f"array {name!r}" if name else "the array",
        f"{path.rstrip('/')}/{name}".rstrip("/"),
        array,
        missing_chunks,
        keys,
    )


def _check_folder(path: str) -> None:
    """Refuse what is not a Zarr array or group on this machine; others are for `_node` to find."""
    if "://" in path or any(os.path.exists(os.path.join(path, mark)) for mark in _MARKS):
        return
    if not os.path.isdir(path):
        check_file(path, FORMAT)
        raise DataError(f"{path!r} is a file, and {FORMAT} is a folder with {' or '.join(_MARKS[:3])} in it.")
    inside = "not Zarr" if os.listdir(path) else "empty"
    raise DataError(f"{path!r} is a folder, and it is {inside}: name the files in it, one by one.")


def _node(path: str, name: str = "") -> Any:
    import zarr

    from dlcca.storage.files import files_at, is_remote, zarr_store
    from dlcca.storage.inputs import refuse_objects_at

    try:
        return _quietly(lambda: zarr.open(zarr_store(path), mode="r", path=name or None))
    except ValueError:
        refuse_objects_at(path, name)
        raise
    except FileNotFoundError:
        if is_remote(path):
            files_at(path).get("zarr.json")  # says so if it is the bucket that is missing
        raise


def _members(path: str, root: Any) -> list[tuple[str, Any]]:
    from dlcca.storage.inputs import refuse_objects_at

    try:
        return _quietly(lambda: list(root.members(max_depth=None)))
    except ValueError:
        refuse_objects_at(path)
        raise


def _quietly(read: Any) -> Any:
    """Without Zarr's warnings that texts have no final specification: they are read as they were written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read()


def _member(path: str, name: str, array: Any) -> Member:
    from dlcca.storage.inputs import refuse_objects

    refuse_objects(array.metadata.to_dict(), f"{path} {name}".rstrip())
    attributes = dict(array.attrs)
    dims = getattr(array.metadata, "dimension_names", None) or attributes.get("_ARRAY_DIMENSIONS") or ()
    dims = tuple(dims) if all(dims) else ()
    dtype = np.dtype("O") if array.dtype.kind in "TOUS" else array.dtype
    return Member(name, array.shape, dtype, Opened(functools.partial(_node, path, name)), attributes, dims)

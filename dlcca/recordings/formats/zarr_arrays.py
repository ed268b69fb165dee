"""Zarr arrays and groups, also as xarray writes them: time and channel coordinates are understood."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArrayFile, Member, Opened, array_reader
from dlcca.recordings.formats.checks import check_file
from dlcca.recordings.formats.recording import Recording
from dlcca.storage.files import files_at, is_remote, signatures, zarr_store
from dlcca.storage.inputs import check_complete, refuse_objects, refuse_objects_at

FORMAT = "Zarr"
_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


@array_reader
def open(path: str, *, missing_chunks: str = "refuse", **options: Any) -> Recording:
    """The recording in a Zarr array, or in the arrays of a Zarr group, of shape (samples, channels).

    An array that lacks chunks is refused; with ``missing_chunks="fill"`` they are read as fill values, and counted in
    the notes.
    """
    if "://" not in path and not any(os.path.exists(os.path.join(path, mark)) for mark in _MARKS):
        if not os.path.isdir(path):
            check_file(path, FORMAT)
            raise DataError(f"{path!r} is a file, and {FORMAT} is a folder with {' or '.join(_MARKS[:3])} in it.")
        inside = "not Zarr" if os.listdir(path) else "empty"
        raise DataError(f"{path!r} is a folder, and it is {inside}: name the files in it, one by one.")
    import zarr

    root = _node(path)
    below = [] if isinstance(root, zarr.Array) else _quietly(path, "", lambda: list(root.members(max_depth=None)))
    nodes = {"": root, **dict(below)}
    arrays = {name: node for name, node in nodes.items() if isinstance(node, zarr.Array)}
    groups = {name: dict(node.attrs) for name, node in nodes.items() if name not in arrays or not name}
    members = [_member(path, name, node) for name, node in sorted(arrays.items())]
    stored = signatures(path)

    def complete(member: Member) -> str:
        within = f"{member.name}/".lstrip("/")
        keys = {key.removeprefix(within) for key in stored if key.startswith(within)}
        what = f"array {member.name!r}" if member.name else "the array"
        address = f"{path.rstrip('/')}/{member.name}".rstrip("/")
        return check_complete(what, address, arrays[member.name], missing_chunks, keys)

    return ArrayFile(path, FORMAT, members, groups, check=complete, **options).recording()


def _node(path: str, name: str = "") -> Any:
    import zarr

    try:
        return _quietly(path, name, lambda: zarr.open(zarr_store(path), mode="r", path=name or None))
    except FileNotFoundError:
        if is_remote(path):
            files_at(path).get("zarr.json")  # says so if it is the bucket that is missing
        raise


def _quietly(path: str, name: str, read: Callable[[], Any]) -> Any:
    """Without Zarr's warnings that texts have no final specification: they are read as they were written."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except ValueError:
        refuse_objects_at(path, name)
        raise


def _member(path: str, name: str, array: Any) -> Member:
    refuse_objects(array.metadata.to_dict(), f"{path} {name}".rstrip())
    attributes = dict(array.attrs)
    dims = getattr(array.metadata, "dimension_names", None) or attributes.get("_ARRAY_DIMENSIONS") or ()
    dims = tuple(dims) if all(dims) else ()
    dtype = np.dtype("O") if array.dtype.kind in "TOUS" else array.dtype
    return Member(name, array.shape, dtype, Opened(_node, path, name), attributes, dims)

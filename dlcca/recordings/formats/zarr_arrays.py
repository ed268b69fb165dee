"""Zarr arrays and groups, also as xarray writes them: time and channel coordinates are understood."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np

from dlcca.errors import DataError
from dlcca.recordings.formats.container import ArrayOptions, recording_of
from dlcca.recordings.formats.files import refusing
from dlcca.recordings.formats.members import Member, is_time
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.formats.slices import Opened
from dlcca.storage.inputs import check_complete
from dlcca.storage.listing import signatures

ENDINGS = (".zarr",)
FORMAT = "Zarr"
_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


def open(
    path: str,
    *,
    array: str | Sequence[str] | None = None,
    rate: float | None = None,
    start: datetime | date | str | None = None,
    start_s: float | None = None,
    drift_ppm: float | None = None,
    names: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
    time_axis: int | None = None,
    missing_chunks: str = "refuse",
) -> Recording:
    """The recording in a Zarr array, or in the arrays of a Zarr group, of shape (samples, channels).

    An array that lacks chunks is refused; with ``missing_chunks="fill"`` they are read as fill values, and counted in
    the notes.
    """
    options = ArrayOptions(array, rate, start, start_s, drift_ppm, names, unit, time_axis)
    if "://" not in path and not is_zarr(path):
        raise DataError(f"{path!r} is not a Zarr array or group: a folder with {' or '.join(_MARKS[:3])} is needed.")
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
    made = recording_of(path, FORMAT, members, groups, options)
    used = [getattr(signal, "opened", None) for signal in made.signals]
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


def is_zarr(path: str) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any(os.path.exists(os.path.join(path, mark)) for mark in _MARKS)


def _node(path: str, name: str = "") -> Any:
    import zarr

    from dlcca.storage.codecs import refuse_objects_at
    from dlcca.storage.files import files_at, is_remote, zarr_store

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
    from dlcca.storage.codecs import refuse_objects_at

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
    from dlcca.storage.codecs import refuse_objects

    refuse_objects(array.metadata.to_dict(), f"{path} {name}".rstrip())
    attributes = dict(array.attrs)
    dims = getattr(array.metadata, "dimension_names", None) or attributes.get("_ARRAY_DIMENSIONS") or ()
    dims = tuple(dims) if all(dims) else ()
    dtype = np.dtype("O") if array.dtype.kind in "TOUS" else array.dtype
    return Member(name, array.shape, dtype, Opened(functools.partial(_node, path, name)), attributes, dims)

"""HDF5 files: datasets are read by slices; rate, start, names and units come from attributes and small datasets."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArrayFile, ArrayOptions, Member, Opened, array_reader
from dlcca.recordings.formats.checks import check_file, optional, refusing
from dlcca.recordings.formats.recording import Recording

FORMAT = "HDF5"


@array_reader
def open(path: str, **options: Any) -> Recording:
    """The recording in the datasets of an HDF5 file, of shape (samples, channels)."""
    h5py = optional("h5py", "hdf5", FORMAT)
    wanted = ArrayOptions(**options)
    check_file(path, FORMAT)
    with refusing(path, FORMAT), h5py.File(path, "r") as file:
        members: list[Member] = []
        groups = {"": _attributes(file)}

        def visit(name: str, node: Any) -> None:
            if isinstance(node, h5py.Dataset):
                members.append(_member(path, name, node))
            else:
                groups[name] = _attributes(node)

        file.visititems(visit)
    if not members:
        raise DataError(f"{path!r} holds no datasets.")
    return ArrayFile(path, FORMAT, members, groups, wanted).recording()


def _member(path: str, name: str, dataset: Any) -> Member:
    import h5py

    shape = () if dataset.shape is None else dataset.shape
    dtype = dataset.dtype if h5py.check_string_dtype(dataset.dtype) is None else np.dtype("O")
    opened = Opened(functools.partial(opened_dataset, path, name))
    return Member(name, shape, dtype, opened, _attributes(dataset), _dims(dataset))


def _dims(dataset: Any) -> tuple[str, ...]:
    """Names of the axes, where scales are attached to all of them, as netCDF does."""
    import h5py

    if h5py.h5ds.is_scale(dataset.id):
        return (dataset.name.rpartition("/")[2],)
    found = []
    for dim in dataset.dims:
        scales = [scale.name for scale in dim.values()]
        found.append(scales[0].rpartition("/")[2] if scales else dim.label)
    return tuple(found) if all(found) else ()


def opened_dataset(path: str, name: str) -> Any:
    """A dataset of a file that stays open as long as the dataset is kept."""
    import h5py

    return h5py.File(path, "r")[name]


def _attributes(node: Any) -> Mapping[str, Any]:
    """Attributes that are texts and numbers; references and the like belong to the format, not to the recording."""
    found: dict[str, Any] = {}
    for key in node.attrs:
        try:
            found[key] = node.attrs[key]
        except (OSError, TypeError):  # a type that h5py cannot turn into NumPy's
            continue
    return found

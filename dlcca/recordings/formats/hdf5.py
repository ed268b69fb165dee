"""HDF5 files: datasets are read by slices; rate, start, names and units come from attributes and small datasets."""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dlcca.recordings.formats.arrays import ArrayFile, Member, Opened, array_reader
from dlcca.recordings.formats.checks import optional
from dlcca.recordings.formats.recording import Recording

FORMAT = "HDF5"


@array_reader
def open(path: str, **options: Any) -> Recording:
    """The recording in the datasets of an HDF5 file, of shape (samples, channels)."""
    h5py = optional("h5py", "hdf5", FORMAT)
    with h5py.File(path, "r") as file:
        members: list[Member] = []
        groups = {"": _attributes(file)}

        def visit(name: str, node: Any) -> None:
            if not isinstance(node, h5py.Dataset):
                groups[name] = _attributes(node)
                return
            dtype = node.dtype if h5py.check_string_dtype(node.dtype) is None else np.dtype("O")
            opened = Opened(opened_dataset, path, name)
            members.append(Member(name, node.shape or (), dtype, opened, _attributes(node), _dims(node)))

        file.visititems(visit)
    return ArrayFile(path, FORMAT, members, groups, **options).recording()


def _dims(dataset: Any) -> tuple[str, ...]:
    """Names of the axes, where scales are attached to all of them, as netCDF does."""
    import h5py

    if h5py.h5ds.is_scale(dataset.id):
        return (dataset.name.rpartition("/")[2],)
    found = [next((scale.name.rpartition("/")[2] for scale in dim.values()), dim.label) for dim in dataset.dims]
    return tuple(found) if all(found) else ()


def opened_dataset(path: str, name: str) -> Any:
    """A dataset of a file that stays open as long as the dataset is kept."""
    import h5py

    return h5py.File(path, "r")[name]


def _attributes(node: Any) -> Mapping[str, Any]:
    """Attributes that are texts and numbers; references and the like belong to the format, not to the recording."""
    found: dict[str, Any] = {}
    for key in node.attrs:
        with contextlib.suppress(OSError, TypeError):  # a type that h5py cannot turn into NumPy's
            found[key] = node.attrs[key]
    return found

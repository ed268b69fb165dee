"""Arrays of a finished store that are read when they are asked for, and then not taken for more than they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import StorageError
from dlcca.storage import groups
from dlcca.storage.files import files_at, trouble
from dlcca.storage.formats import Format


def lazy_array(group: Any, header: Mapping[str, Any], name: str, path: str | Path, form: Format) -> Any:
    """An array as a Dask array whose every chunk is known to be there and whole, when it is read."""
    import dask.array as da

    known = header.get("metadata", {})
    if name in known and groups.damages(str(path), {name: known[name]}):
        raise form.error(f"array {name!r} of {path} is damaged: its {groups.FILE} was changed. Restore it.")
    array = group[name]
    if name not in known:  # of an earlier dlcca, which left chunks of zeros out
        return da.from_zarr(array)
    return da.from_array(_Checked(array, str(path), name, form), chunks=array.chunks, asarray=False)


@dataclass(frozen=True)
class _Checked:
    """A Zarr array that does not take a missing chunk for zeros."""

    array: Any
    path: str
    name: str
    form: Format

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def __getitem__(self, asked: Any) -> NDArray:
        """The rows of one chunk, as Dask asks for them."""
        first = asked[0] if isinstance(asked, tuple) else asked
        chunk = (first.start or 0) // self.array.chunks[0]
        zeros = "/0" * (self.ndim - 1)
        if files_at(self.path).get(f"{self.name}/c/{chunk}{zeros}") is None:
            raise self.form.error(f"chunk {chunk} of array {self.name!r} of {self.path} is missing. Restore it.")
        try:
            return np.asarray(self.array[asked])
        except StorageError:
            raise
        except Exception as error:
            where = f"array {self.name!r} of {self.path}"
            raise self.form.error(f"{where} cannot be read: {trouble(error) or error}. Restore it.") from error

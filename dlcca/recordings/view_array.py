"""A view of recordings as an array (r, d): the features of the valid windows, scaled while they are read."""

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, StoreFileError
from dlcca.recordings.features import Columns, scaled
from dlcca.storage import cache
from dlcca.storage.files import files_at
from dlcca.storage.views import FORM, MARK, blank, describe, is_views, read_arrays


class ViewArray:
    """Rows of a view by slices or by numbers, as of a Zarr array; they are NumPy arrays."""

    ndim = 2

    def __init__(self, array: Any, address: str) -> None:
        self.array, self.address = array, address  # the Zarr array of all windows, and STORE/views/NAME where it is
        store, _, name = address.removeprefix("file://").rstrip("/").rpartition("/views/")
        inputs = array.attrs["inputs"]  # distinguishes stores made one after another at one address
        # The valid windows (r,), and how columns are scaled: None if the array is scaled already.
        self.rows, columns = cache.get(("view", store, name, inputs), lambda: _opened(store, name, inputs))
        self.columns: Columns | None = None if array.attrs["finished"] else columns

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.array.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Of the features, which may be stored as integers."""
        return self.array.dtype if self.array.dtype.kind == "f" else np.dtype(np.float32)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    @cached_property
    def chunks(self) -> tuple[int, int]:
        """Where no windows are left out; elsewhere a chunk has fewer rows."""
        return min(self.array.chunks[0], len(self.rows)), self.array.shape[1]

    @property
    def oindex(self) -> Self:
        """Row numbers are taken as they are."""
        return self

    def windows(self, first: int, last: int) -> tuple[int, int]:
        """The first window, and the one after the last, of some rows: where they lie in the array."""
        some = self.rows[first:last]
        return (int(some[0]), int(some[-1]) + 1) if len(some) else (0, 0)

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self[:], dtype=dtype)

    def __getitem__(self, index: Any) -> NDArray:
        """Rows: a slice, a number, or numbers in any order; and columns behind a comma."""
        rows, *rest = index if isinstance(index, tuple) else (index,)
        if rows is Ellipsis:
            rows, rest = slice(None), []
        if isinstance(rows, int | np.integer):
            return self[(np.array([rows]), *rest)][0]
        windows = self.rows[rows]
        if len(windows) < 2 or (np.diff(windows) > 0).all():
            F = self._read(windows)
        else:
            unique, where = np.unique(windows, return_inverse=True)
            F = self._read(unique)[where]
        return F[(slice(None), *rest)] if rest else F

    def _read(self, windows: NDArray[np.int64]) -> NDArray:
        """The features of windows in ascending order, chunk by chunk: between them may lie a gap of years."""
        F = np.empty((len(windows), self.shape[1]), self.array.dtype)
        cuts = np.flatnonzero(np.diff(windows // self.array.chunks[0])) + 1
        for at in np.split(np.arange(len(windows)), cuts) if len(windows) else []:
            first, last = int(windows[at[0]]), int(windows[at[-1]]) + 1
            part = self.array[first:last]
            if self._is_missing(part[0], first):
                raise StoreFileError(
                    f"windows {first} to {last - 1} of {self.address} are missing. Restore them, or {FORM.renew}."
                )
            F[at[0] : at[-1] + 1] = part if last - first == len(at) else part[windows[at] - first]
        return F if self.columns is None else scaled(F, self.columns)

    def _is_missing(self, row: NDArray, window: int) -> bool:
        """Whether a row is what Zarr returns for a missing chunk."""
        if row.dtype.kind == "f":
            return bool(np.isnan(row).all())  # never true of a valid window
        chunk = window // self.array.chunks[0]
        return bool((row == blank(row.dtype)).all()) and not files_at(self.address).names(f"c/{chunk}")


def is_view(array: Any) -> bool:
    """Whether a Zarr array is a view of recordings, to be read through a `ViewArray`."""
    return array.attrs.get("of") == MARK


def _opened(store: str, name: str, inputs: str) -> tuple[NDArray[np.int64], Columns | None]:
    """Valid windows, and the scaling of the columns."""
    if not is_views(store):
        raise DataError(f"the views of {store} are not finished: run the same dlcca ingest or dlcca run again.")
    header = describe(store)
    if header["fingerprint"] != inputs:
        raise StoreFileError(f"view {name!r} of {store} was not made from the files in its header; {FORM.renew}.")
    (rows,) = read_arrays(store, ["rows"])
    if len(rows) != header["rows"]:
        raise StoreFileError(f"the clock of {store} is damaged or incomplete. Restore it, or {FORM.renew}.")
    finished = header["views"][name]["finished"]
    return rows, None if finished else read_arrays(store, [f"columns/{name}"])[0]

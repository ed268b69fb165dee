"""Signals over arrays that are cut in slices: a file that is mapped, an HDF5 dataset, a Zarr array."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings.formats.files import check_span, refusing
from dlcca.recordings.formats.recording import Channel, Digital, Signal


@dataclass(frozen=True)
class Scaling:
    """How stored numbers become physical ones, as CF conventions and xarray write it."""

    factor: float = 1.0
    offset: float = 0.0
    missing: float | None = None  # the stored number that stands for none

    def of(self, stored: NDArray[Any]) -> NDArray[Any]:
        """NaN where a number is missing, else factor * stored + offset."""
        if self == Scaling():
            return stored
        values = stored.astype(np.float64) * self.factor + self.offset
        return values if self.missing is None else np.where(stored == self.missing, np.nan, values)


class Opened:
    """An array that is opened when it is first sliced, again in each process that a signal is sent to."""

    def __init__(self, open_it: Callable[[], Any]) -> None:
        self._open_it = open_it  # a function of a module, or a partial of one: it must survive pickling
        self._array: Any = None
        self._lock = threading.Lock()

    def array(self) -> Any:
        with self._lock:
            if self._array is None:
                self._array = self._open_it()
            return self._array

    def __getstate__(self) -> dict[str, Any]:
        return {"_open_it": self._open_it}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_open_it"])  # type: ignore[misc]


def as_float(samples: NDArray[Any]) -> NDArray[np.floating]:
    """Samples as float32 where it holds them exactly (float32, float16, 8 and 16 bits), else as float64."""
    return samples.astype(np.result_type(samples.dtype, np.float32), copy=False)


@dataclass
class SlicedSignal(Signal):
    """Rows first_row to first_row + n of an array of shape (samples, channels), or the other way round.

    An array with more than two axes has one channel for each entry of a sample: frames (n, height, width) have
    height * width of them.
    """

    path: str
    format: str
    opened: Opened
    channels: tuple[Channel, ...]
    rate: float
    n: int
    start_s: float = 0.0
    drift_ppm: float = 0.0
    first_row: int = 0
    time_axis: int = 0
    scaling: Scaling = Scaling()

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        values = as_float(self.scaling.of(self._stored(first, last, columns)))
        return values if values.flags.writeable else values.copy()  # not a part of the mapped file

    @property
    def digital(self) -> Digital | None:
        """Numbers of at most 16 bits, all of which are some value."""
        dtype = self.opened.array().dtype
        if dtype.kind not in "iu" or dtype.itemsize > 2 or self.scaling.missing is not None:
            return None
        c = len(self.channels)
        return Digital(dtype.newbyteorder("="), np.full(c, self.scaling.factor), np.full(c, self.scaling.offset))

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.integer]:
        stored = self._stored(first, last, columns)
        numbers = np.asarray(stored, dtype=stored.dtype.newbyteorder("="), order="C")
        return numbers if numbers.flags.writeable else numbers.copy()  # not a part of the mapped file

    def _stored(self, first: int, last: int, columns: Sequence[int]) -> NDArray[Any]:
        check_span(self, first, last)
        chosen = np.asarray(columns, dtype=np.intp)
        rows = slice(self.first_row + first, self.first_row + last)
        with refusing(self.path, self.format):
            return self._columns(rows, chosen)

    def _columns(self, rows: slice, chosen: NDArray[np.intp]) -> NDArray[Any]:
        array = self.opened.array()
        if array.ndim == 1:
            return np.asarray(array[rows])[:, None][:, chosen]
        if array.ndim > 2:
            return np.asarray(array[rows]).reshape(rows.stop - rows.start, -1)[:, chosen]
        if not len(chosen):
            return np.zeros((rows.stop - rows.start, 0), array.dtype)
        # A slice first: libraries read one quickly, and scattered columns one by one.
        low = int(chosen.min())
        span = slice(low, int(chosen.max()) + 1)
        part = np.asarray(array[span, rows]).T if self.time_axis == 1 else np.asarray(array[rows, span])
        in_order = len(chosen) == part.shape[1] and (np.diff(chosen) == 1).all()
        return part if in_order else part[:, chosen - low]

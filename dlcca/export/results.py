"""A finished store as those who export it see it: rows with a time, coordinates, and why a row has none."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, StoreFileError
from dlcca.storage import run as run_store
from dlcca.storage import transformed
from dlcca.storage.arrays import open_sealed, read_array
from dlcca.storage.formats import Format
from dlcca.storage.lazy_arrays import lazy_array
from dlcca.storage.views import Reason

#: Rows that are read at a time, at least.
LEAST_ROWS = 65_536
#: Steps of time that differ by less, as a share of a step, are one step.
EVEN = 1e-3


@dataclass(frozen=True)
class Block:
    """Some rows that follow each other."""

    first: int
    time: NDArray  # (b,) in the unit of the store
    embedding: NDArray  # (b, q)
    reason: NDArray[np.uint8]  # (b,)
    outside: NDArray[np.bool_]  # (b,)


@dataclass(frozen=True)
class Results:
    """A finished run, or new recordings that went through a model."""

    address: str
    group: Any  # zarr.Group
    header: dict[str, Any]

    @classmethod
    def open(cls, address: str) -> Results:
        form = transformed.FORM if transformed.is_transformed(str(address)) else run_store.FORM
        return cls(str(address), *open_sealed(address, form))

    @property
    def form(self) -> Format:
        return transformed.FORM if self.header["format"] == transformed.FORM.name else run_store.FORM

    @property
    def n(self) -> int:
        return int(self.group["embedding"].shape[0])

    @property
    def names(self) -> list[str]:
        """Of the coordinates: c1, c2, ..."""
        return [f"c{i}" for i in range(1, self.group["embedding"].shape[1] + 1)]

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.group["embedding"].dtype)

    @property
    def in_seconds(self) -> bool:
        """Whether time is in seconds; if not, it is the numbers of samples."""
        return self.header["time_unit"] == "s"

    @property
    def start(self) -> datetime | None:
        """When time was 0, if that is known; a time without a zone is taken as UTC."""
        said = self.header.get("start")
        if said is None or not self.in_seconds:
            return None
        found = datetime.fromisoformat(said)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    @cached_property
    def time(self) -> NDArray:
        """Of all rows, (n,)."""
        return read_array(self.group, "time", self.header["manifest"]["time"], self.address, self.form)

    def lazy(self, name: str) -> Any:
        """An array of all rows as a Dask array, looked at when it is read."""
        return lazy_array(self.group, self.header, name, self.address, self.form)

    @property
    def step(self) -> float:
        """Between two rows, in the unit of time; an error if it is not always the same."""
        steps = np.diff(self.time)
        if not len(steps):
            raise DataError(f"{self.address} has {self.n} row; at least 2 are needed to tell the rate.")
        step = float(np.median(steps))
        if not step > 0 or np.abs(steps - step).max() > EVEN * step:
            raise DataError(f"the rows of {self.address} are not evenly spaced in time, as this format needs.")
        return step

    @property
    def reasons(self) -> dict[int, str]:
        """What the codes of `reason` mean."""
        return {reason.value: reason.name.lower() for reason in Reason}

    def stamps(self, seconds: NDArray) -> NDArray:
        """Times as datetime64 in microseconds, UTC; only where the start is known."""
        assert self.start is not None
        start = np.datetime64(self.start.astimezone(UTC).replace(tzinfo=None), "us")
        return start + np.rint(np.asarray(seconds) * 1e6).astype("timedelta64[us]")

    @property
    def rows_at_once(self) -> int:
        """Whole chunks, and at least `LEAST_ROWS`."""
        chunk = int(self.group["embedding"].chunks[0])
        return chunk * max(1, -(-LEAST_ROWS // chunk))

    def blocks(self) -> Iterator[Block]:
        """All rows, in order, some at a time; an error at the end if what was read is not what had been written."""
        held = [name for name in ("embedding", "time", "reason", "outside") if name in self.group]
        made = {name: hashlib.sha256(_head(self.group[name])) for name in held}
        for first in range(0, self.n, self.rows_at_once):
            parts = {name: self._read(name, first) for name in held}
            for name, X in parts.items():
                made[name].update(np.ascontiguousarray(X).data)
            b = len(parts["time"])
            reason = parts.get("reason", np.zeros(b, np.uint8))
            yield Block(first, parts["time"], parts["embedding"], reason, parts.get("outside", np.zeros(b, bool)))
        for name in held:
            if made[name].hexdigest() != self.header["manifest"].get(name):
                raise StoreFileError(f"array {name!r} of {self.address} is damaged or incomplete; restore it.")

    def _read(self, name: str, first: int) -> NDArray:
        try:
            return np.asarray(self.group[name][first : first + self.rows_at_once])
        except Exception as error:
            raise StoreFileError(f"array {name!r} of {self.address} cannot be read: {error}. Restore it.") from error


def _head(array: Any) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode()


def needed(package: str, extra: str, what: str) -> Any:
    """An optional package, or an error that names the extra which brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise SettingsError(f"{what} needs {package.split('.')[0]}: pip install 'dlcca[{extra}]' ({error}).") from error

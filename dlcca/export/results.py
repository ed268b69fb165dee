"""A finished store as an exporter reads it: rows with a time, coordinates, and the reason where there are none."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.storage import run as run_store
from dlcca.storage import transformed
from dlcca.storage.formats import Format, lazy_array, open_sealed, read_array, read_rows
from dlcca.storage.views import Reason

#: Rows that are read at a time, at least.
LEAST_ROWS = 65_536
#: Steps of time that differ by less, as a share of a step, are one step.
EVEN = 1e-3


@dataclass(frozen=True)
class Block:
    """Consecutive rows."""

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
        """An array of all rows as a Dask array, checked when it is read."""
        return lazy_array(self.group, self.header, name, self.address, self.form)

    @property
    def step(self) -> float:
        """Between two rows, in the unit of time; an error if it is not always the same."""
        steps = np.diff(self.time)
        if not len(steps):
            raise DataError(f"{self.address} has {self.n} row; the rate needs at least 2.")
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
        """All rows in order, some at a time; an error at the end if they are not those that were written."""
        names = [name for name in ("embedding", "time", "reason", "outside") if name in self.group]
        manifest = self.header["manifest"]
        for _, part in read_rows(self.group, names, manifest, self.address, self.form, step=self.rows_at_once):
            b = len(part["time"])
            reason, outside = part.get("reason", np.zeros(b, np.uint8)), part.get("outside", np.zeros(b, bool))
            yield Block(part["time"], part["embedding"], reason, outside)


def needed(package: str, extra: str, what: str) -> Any:
    """An optional package, or an error that names the extra which brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise SettingsError(f"{what} needs {package.split('.')[0]}: pip install 'dlcca[{extra}]' ({error}).") from error

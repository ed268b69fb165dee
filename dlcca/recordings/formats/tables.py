"""What tables have in common: which column is time, what a header says, and signals over rows of a table."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.clock import TIME_NAMES, Sampling, Stretch, time_unit
from dlcca.recordings.formats.declared import Declared, plain_key
from dlcca.recordings.formats.files import check_span, refusing
from dlcca.recordings.formats.labels import distinct, kinds_of
from dlcca.recordings.formats.recording import Channel, Recording, Signal

_UNIT = re.compile(r"^(?P<name>.*?)\s*[\[(]\s*(?P<unit>[^\[\]()]*?)\s*[\])]$")


@dataclass(frozen=True)
class Column:
    """One column of a table: its place, and what its header says."""

    place: int
    name: str
    unit: str = ""

    @classmethod
    def of(cls, place: int, header: str) -> Column:
        """ "acc_x (m/s2)" and "acc_x [m/s2]" are acc_x in m/s2."""
        found = _UNIT.match(header.strip())
        if found is None or not found["name"]:
            return cls(place, header.strip())
        return cls(place, found["name"], found["unit"])

    @property
    def time_unit(self) -> str | None:
        """The unit of a time column, from its unit or from the end of its name: time_ms."""
        return time_unit(self.unit) if self.unit else time_unit(plain_key(self.name).rpartition("_")[2])


def choose_time(
    path: str, columns: Sequence[Column], stamps: Sequence[Column], wanted: str | bool | None
) -> Column | None:
    """The time column: as asked, else by its name, else the first that holds time stamps; False: none."""
    if wanted is False:
        return None
    if wanted is not None and wanted is not True:
        for column in columns:
            if column.name == wanted:
                return column
        raise SettingsError(
            f"time_column = {wanted!r} is not in {path!r}; {suggest(wanted, [column.name for column in columns])}"
        )
    for column in columns:
        name, _, end = plain_key(column.name).rpartition("_")
        if plain_key(column.name) in TIME_NAMES or (name in TIME_NAMES and time_unit(end)):
            return column
    return stamps[0] if stamps else None


class Table(ABC):
    """Rows of numbers in a file, read by parts; it can be sent to other processes."""

    path: str
    format: str

    @abstractmethod
    def rows(self, first: int, last: int, places: Sequence[int]) -> NDArray[np.floating]:
        """Rows first to last (not included) of the columns at some places, (last - first, len(places))."""


@dataclass
class TableSignal(Signal):
    """Rows of a table without a break between them."""

    table: Table
    places: tuple[int, ...]  # of the channels among the columns
    channels: tuple[Channel, ...]
    rate: float
    n: int
    first_row: int
    start_s: float
    drift_ppm: float = 0.0

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        check_span(self, first, last)
        places = [self.places[column] for column in columns]
        with refusing(self.table.path, self.table.format):
            return self.table.rows(self.first_row + first, self.first_row + last, places)


def recording_of_table(
    table: Table,
    columns: Sequence[Column],
    sampling: Sampling,
    facts: Declared,
    start: datetime | None,
    notes: Sequence[str],
) -> Recording:
    """The recording in the numeric columns of a table, one signal for each stretch between breaks."""
    if not columns:
        raise DataError(f"{table.path!r} has no column of numbers besides its time.")
    names, renamed = distinct(facts.names or [column.name for column in columns])
    units = facts.units or tuple(column.unit for column in columns)
    units = units * len(columns) if len(units) == 1 else units
    for what, given in (("names", names), ("units", units)):
        if len(given) != len(columns):
            found = ", ".join(column.name for column in columns)
            there = f"the {len(columns)} channels of {table.path!r}"
            raise SettingsError(f"{len(given)} {what} were given for {there}: {found}.")
    channels = tuple(map(Channel, names, units, kinds_of(names)))
    places = tuple(column.place for column in columns)
    signals = tuple(
        TableSignal(
            table,
            places,
            channels,
            sampling.rate,
            stretch.n,
            stretch.first,
            stretch.start_s + (facts.start_s or 0.0),
            facts.drift_ppm or 0.0,
        )
        for stretch in sampling.stretches
    )
    breaks = [f"breaks in its times, which are kept: {len(signals) - 1}"] if len(signals) > 1 else []
    return Recording(table.path, table.format, signals, start, notes=(*notes, *renamed, *sampling.notes, *breaks))


def declared_sampling(path: str, n: int, rate: float | None, columns: Sequence[Column]) -> Sampling:
    """Rows without a time column, at the rate that was declared."""
    if rate is None:
        found = ", ".join(column.name for column in columns[:8])
        raise SettingsError(
            f"{path!r} does not say when its rows were taken (columns: {found}{', ...' if len(columns) > 8 else ''}): "
            "give rate, in samples per second, or time_column."
        )
    return Sampling(rate, (Stretch(0, n, 0.0),))


def stacked(columns: Sequence[NDArray[Any]], n: int) -> NDArray[np.floating]:
    """Columns side by side, (n, len(columns)), float32 where it holds all of them exactly, else float64."""
    dtype = np.result_type(np.float32, *(column.dtype for column in columns))
    out = np.empty((n, len(columns)), dtype)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out

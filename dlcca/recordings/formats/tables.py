"""What readers of tables have in common: which column is time, what a header says, and rows read by blocks."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.clock import TIME_NAMES, Clock, TimeColumn, time_unit
from dlcca.recordings.formats.metadata import Metadata, channels_of, distinct, plain_key
from dlcca.recordings.formats.recording import ProcessLocal, Recording, Sampling, Source

_UNIT = re.compile(r"^(?P<name>.+?)\s*[\[(]\s*(?P<unit>[^\[\]()]*?)\s*[\])]$")


class Column:
    """One column of a table: its place, and what its header says; "acc_x (m/s2)" and "acc_x [m/s2]" are in m/s2."""

    def __init__(self, place: int, header: str, unit: str = "", *, is_time: bool = False) -> None:
        found = _UNIT.match(header.strip())
        self.name, own = found.group("name", "unit") if found else (header.strip(), "")
        self.place, self.unit = place, unit or own
        self.is_time = is_time  # whether it holds time stamps or time differences

    @property
    def time_unit(self) -> str | None:
        """The unit of a time column, from its unit or from the end of its name: time_ms."""
        return time_unit(self.unit) if self.unit else time_unit(plain_key(self.name).rpartition("_")[2])


def choose_time(path: str, columns: Sequence[Column], requested: str | bool | None) -> Column | None:
    """The time column: the requested one, else by its name, else the first that holds time stamps; False: none."""
    if requested is False:
        return None
    if isinstance(requested, str):
        names = [column.name for column in columns]
        if requested not in names:
            raise SettingsError(f"time_column = {requested!r} is not in {path!r}; {suggest(requested, names)}")
        return columns[names.index(requested)]
    for column in columns:
        name, _, end = plain_key(column.name).rpartition("_")
        if plain_key(column.name) in TIME_NAMES or (name in TIME_NAMES and time_unit(end)):
            return column
    return next((column for column in columns if column.is_time), None)


class Table(ProcessLocal, Source):
    """Columns of numbers in a file, read by blocks of rows, of which the last one is kept for the next read."""

    edges: list[int]  # first rows of the blocks, and the end
    places: Sequence[int] = ()  # of the channels among the columns
    _kept: tuple[Any, NDArray[np.floating]] | None = None  # block and places, and the values

    @abstractmethod
    def read_block(self, block: int, places: Sequence[int]) -> NDArray[np.floating]:
        """All rows of a block, (rows, len(places))."""

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        begin = int(np.searchsorted(self.edges, first, side="right")) - 1
        end = int(np.searchsorted(self.edges, last, side="left"))
        places = tuple(self.places[column] for column in columns)
        parts = []
        with self._lock:
            for block in range(begin, end):
                if self._kept is None or self._kept[0] != (block, places):
                    self._kept = None  # two are never held at once
                    self._kept = (block, places), self.read_block(block, places)
                edge = self.edges[block]
                parts.append(self._kept[1][max(0, first - edge) : last - edge])
            return np.concatenate(parts)

    @abstractmethod
    def times(self, time: Column, channels: Sequence[Column], seconds: TimeColumn) -> Iterator[NDArray[Any]]:
        """The values of the time column, in portions."""

    def index(self, channels: Sequence[Column]) -> None:
        """Find the blocks of a table that has no time column."""

    def recording(
        self, columns: Sequence[Column], facts: Metadata, notes: Sequence[str], time_column: Any, unit: str | None
    ) -> Recording:
        """The recording in columns of numbers and times, one signal for each stretch between breaks."""
        time = choose_time(self.path, columns, time_column)
        others = [column for column in columns if column is not time]
        channels = [column for column in others if not column.is_time]
        more = [f"column {column.name!r} holds more times: left out" for column in others if column.is_time]
        if time is not None:
            seconds = TimeColumn(time.name, unit or time.time_unit)
            clock = Clock(f"time column {time.name!r} of {self.path!r}", facts.rate)
            sampling = seconds.sampling(clock, self.times(time, channels, seconds))
        else:
            self.index(channels)
            if facts.rate is None:
                found = ", ".join(column.name for column in channels[:8]) + (", ..." if len(channels) > 8 else "")
                what = f"{self.path!r} does not say when its rows were taken (columns: {found})"
                raise SettingsError(f"{what}: give rate, in samples per second, or time_column.")
            sampling = Sampling.even(facts.rate, self.edges[-1])
        if not channels:
            raise DataError(f"{self.path!r} has no column of numbers besides its time.")
        self.places = [column.place for column in channels]
        names, renamed = distinct(facts.names or [column.name for column in channels])
        units = facts.units or [column.unit for column in channels]
        made = channels_of(repr(self.path), len(channels), names, units)
        signals = sampling.signals(self, made, facts.start_s, facts.drift_ppm)
        all_notes = (*notes, *more, *sampling.notes, *renamed)
        return Recording(self.path, self.format, signals, facts.start or sampling.start, notes=all_notes)

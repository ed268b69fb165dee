"""Parquet files: columns of numbers are read by row groups, of which one is held at a time."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.clock import Clock, Sampling, TimeColumn
from dlcca.recordings.formats.declared import Declared, asked, declared
from dlcca.recordings.formats.files import check_file, optional, refusing
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.formats.tables import Column, Table, choose_time, declared_sampling, recording_of_table, stacked

ENDINGS = (".parquet", ".pq")
FORMAT = "Parquet"


def open(
    path: str,
    *,
    time_column: str | bool | None = None,
    time_unit: str | None = None,
    rate: float | None = None,
    start: datetime | date | str | None = None,
    names: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
) -> Recording:
    """The numeric columns of a Parquet file, as pandas or any other program writes it.

    Parameters
    ----------
    time_column : its name; false for none; by default one that is called time, or holds time stamps
    time_unit : of a time column of numbers: "s" unless its name says another
    """
    pq = optional("pyarrow.parquet", "parquet", FORMAT)
    wanted = asked(rate=rate, start=start, names=names, unit=unit)
    check_file(path, FORMAT)
    with refusing(path, FORMAT):
        file = pq.ParquetFile(path)
    schema, n = file.schema_arrow, file.metadata.num_rows
    if not n:
        raise DataError(f"{path!r} has columns and no rows.")
    facts = wanted.over(_facts(path, schema.metadata or {}))
    numeric, stamps, others = _kinds(schema)
    clock = choose_time(path, [*stamps, *numeric], stamps, time_column)
    table = ParquetTable(path, schema.names, [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    notes = [f"column {column.name!r} holds {schema.types[column.place]} and no numbers: left out" for column in others]
    notes += [f"column {column.name!r} holds more times: left out" for column in stamps if column is not clock]
    channels = [column for column in numeric if column is not clock and not _is_index(column, schema)]
    if clock is None:
        sampling, begun = declared_sampling(path, n, facts.rate, channels), None
    else:
        sampling, begun, more = _times(path, file, schema, clock, time_unit, facts.rate)
        notes += more
    return recording_of_table(table, channels, sampling, facts, facts.start or begun, notes)


class ParquetTable(Table):
    """Columns of a file, one row group at a time: that of the last read is kept for the next."""

    def __init__(self, path: str, names: Sequence[str], groups: Sequence[int]) -> None:
        self.path, self.format, self.names = path, FORMAT, list(names)
        self.edges = np.concatenate([[0], np.cumsum(groups)])  # first rows of the groups, and the end
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._file: Any = None
        self._group: tuple[Any, NDArray[np.floating]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def rows(self, first: int, last: int, places: Sequence[int]) -> NDArray[np.floating]:
        if first == last or not places:
            return np.zeros((last - first, len(places)), np.float32)
        begin = int(np.searchsorted(self.edges, first, side="right")) - 1
        end = int(np.searchsorted(self.edges, last, side="left"))
        with self._lock:
            parts = []
            for group in range(begin, end):
                edge = self.edges[group]
                parts.append(self._read(group, tuple(places))[max(0, first - edge) : last - edge])
        return np.concatenate(parts) if len(parts) > 1 else parts[0].copy()

    def _read(self, group: int, places: tuple[int, ...]) -> NDArray[np.floating]:
        if self._group is None or self._group[0] != (group, places):
            if self._file is None:
                self._file = optional("pyarrow.parquet", "parquet", FORMAT).ParquetFile(self.path)
            self._group = None  # two are never held at once
            table = self._file.read_row_group(group, columns=[self.names[place] for place in dict.fromkeys(places)])
            arrays = [_numbers(table.column(self.names[place])) for place in places]
            self._group = (group, places), stacked(arrays, table.num_rows)
        return self._group[1]


def _numbers(column: Any) -> NDArray[Any]:
    """A column as numbers, with NaN where it holds none."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type) or column.null_count:
        wide = pa.types.is_float32(column.type) or pa.types.is_float16(column.type)
        column = column.cast(pa.float32() if wide else pa.float64())
    return column.to_numpy()


def _kinds(schema: Any) -> tuple[list[Column], list[Column], list[Column]]:
    """Columns of numbers, of times, and of anything else."""
    import pyarrow as pa

    kinds: tuple[list[Column], list[Column], list[Column]] = ([], [], [])
    for place, field in enumerate(schema):
        column = Column.of(place, field.name)
        said = declared({_text(k): _text(v) for k, v in (field.metadata or {}).items()}, f"column {field.name!r}")
        column = Column(place, column.name, said.units[0] if said.units else column.unit)
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if is_number or pa.types.is_boolean(field.type) or pa.types.is_decimal(field.type):
            kinds[0].append(column)
        elif pa.types.is_timestamp(field.type) or pa.types.is_duration(field.type):
            kinds[1].append(column)
        else:
            kinds[2].append(column)
    return kinds


def _is_index(column: Column, schema: Any) -> bool:
    """Whether pandas wrote it as the numbers of its rows."""
    return column.name.startswith("__index_level_") and schema.names[column.place] == column.name


def _facts(path: str, metadata: Mapping[bytes, bytes]) -> Declared:
    """What the key and value pairs of the file say, and the attrs of a DataFrame among them."""
    pairs: dict[str, Any] = {_text(key): _text(value) for key, value in metadata.items()}
    facts = declared({key: value for key, value in pairs.items() if key not in ("pandas", "ARROW:schema")}, repr(path))
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        facts = facts.over(declared(json.loads(pairs.get("pandas", "{}")).get("attributes") or {}, repr(path)))
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        facts = facts.over(declared(json.loads(pairs.get("PANDAS_ATTRS", "{}")), repr(path)))
    return Declared(facts.rate, facts.start, facts.start_s, facts.drift_ppm)  # names and units belong to the columns


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _times(
    path: str, file: Any, schema: Any, clock: Column, unit: str | None, rate: float | None
) -> tuple[Sampling, datetime | None, list[str]]:
    """Rate and breaks from the time column, read in batches."""
    import pyarrow as pa

    name, kind = schema.names[clock.place], schema.types[clock.place]
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    column = TimeColumn(clock.name, unit or clock.time_unit, zoned=zoned)
    times = Clock(f"time column {clock.name!r} of {path!r}", rate=rate)
    with refusing(path, FORMAT):
        for batch in file.iter_batches(batch_size=1 << 18, columns=[name]):
            times.feed(column.seconds(batch.column(0).to_numpy(zero_copy_only=False)))
    return times.sampling(), column.start, column.notes

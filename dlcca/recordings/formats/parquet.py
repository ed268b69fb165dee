"""Parquet files: columns of numbers are read by row groups, of which one is held at a time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.clock import Clock, Sampling, TimeColumn
from dlcca.recordings.formats.metadata import Metadata, declared, from_options, text_of
from dlcca.recordings.formats.recording import Recording, check_file, optional, refusing
from dlcca.recordings.formats.tables import Column, Table, choose_time, declared_sampling

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
    requested = from_options(rate=rate, start=start, names=names, unit=unit)
    check_file(path, FORMAT)
    with refusing(path, FORMAT):
        file = pq.ParquetFile(path)
    schema, n = file.schema_arrow, file.metadata.num_rows
    if not n:
        raise DataError(f"{path!r} has columns and no rows.")
    facts = requested.over(_facts(path, schema.metadata or {}))
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
    return table.recording(channels, sampling, facts, facts.start or begun, notes)


class ParquetTable(Table):
    """Columns of a file, one row group at a time."""

    def __init__(self, path: str, names: Sequence[str], groups: Sequence[int]) -> None:
        self.path, self.format, self.names = path, FORMAT, list(names)
        self.edges = [0, *accumulate(groups)]
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._file: Any = None

    def read_block(self, block: int, places: Sequence[int]) -> NDArray[np.floating]:
        """Float32 where it holds all columns exactly, else float64."""
        if self._file is None:
            self._file = optional("pyarrow.parquet", "parquet", FORMAT).ParquetFile(self.path)
        table = self._file.read_row_group(block, columns=[self.names[place] for place in dict.fromkeys(places)])
        columns = [_numbers(table.column(self.names[place])) for place in places]
        return np.stack(columns, axis=1, dtype=np.result_type(np.float32, *columns))


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
        known = declared({text_of(k): text_of(v) for k, v in (field.metadata or {}).items()}, f"column {field.name!r}")
        column = Column(place, column.name, known.units[0] if known.units else column.unit)
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


def _facts(path: str, metadata: Mapping[bytes, bytes]) -> Metadata:
    """What the key and value pairs of the file say, and the attrs of a DataFrame among them."""
    pairs: dict[str, Any] = {text_of(key): text_of(value) for key, value in metadata.items()}
    facts = declared({key: value for key, value in pairs.items() if key not in ("pandas", "ARROW:schema")}, repr(path))
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        facts = facts.over(declared(json.loads(pairs.get("pandas", "{}")).get("attributes") or {}, repr(path)))
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        facts = facts.over(declared(json.loads(pairs.get("PANDAS_ATTRS", "{}")), repr(path)))
    return Metadata(facts.rate, facts.start, facts.start_s, facts.drift_ppm)  # names and units belong to the columns


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

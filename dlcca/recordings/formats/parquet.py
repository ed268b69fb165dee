"""Parquet files: columns of numbers are read by row groups, of which one is held at a time."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import optional
from dlcca.recordings.formats.clock import TimeColumn
from dlcca.recordings.formats.metadata import Metadata, declared, from_options, text_of
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.formats.tables import Column, Table

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
    file = pq.ParquetFile(path)
    schema, n = file.schema_arrow, file.metadata.num_rows
    if not n:
        raise DataError(f"{path!r} has columns and no rows.")
    facts = requested.over(_facts(path, schema.metadata or {}))
    columns, notes = _columns(schema, time_column)
    table = ParquetTable(path, schema.names, [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    return table.recording(columns, facts, notes, time_column, time_unit)


class ParquetTable(Table):
    """Columns of a file, one row group at a time."""

    def __init__(self, path: str, names: Sequence[str], groups: Sequence[int]) -> None:
        self.path, self.format, self.names = path, FORMAT, list(names)
        self.edges = [0, *accumulate(groups)]

    def read_block(self, block: int, places: Sequence[int]) -> NDArray[np.floating]:
        """Float32 where it holds all columns exactly, else float64."""
        table = self._file.read_row_group(block, columns=[self.names[place] for place in dict.fromkeys(places)])
        columns = [_numbers(table.column(self.names[place])) for place in places]
        return np.stack(columns, axis=1, dtype=np.result_type(np.float32, *columns))

    def times(self, time: Column, channels: Sequence[Column], seconds: TimeColumn) -> Iterator[NDArray[Any]]:
        for batch in self._file.iter_batches(batch_size=1 << 18, columns=[self.names[time.place]]):
            values = batch.column(0)
            seconds.zoned = getattr(values.type, "tz", None) is not None
            yield values.to_numpy(zero_copy_only=False)

    @cached_property
    def _file(self) -> Any:
        return optional("pyarrow.parquet", "parquet", FORMAT).ParquetFile(self.path)


def _numbers(column: Any) -> NDArray[Any]:
    """A column as numbers, with NaN where it holds none."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy()


def _columns(schema: Any, time_column: str | bool | None) -> tuple[list[Column], list[str]]:
    """Columns of time stamps, then those of numbers; and what was left out."""
    from pyarrow import types

    is_number = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    columns, notes = [], []
    for place, field in enumerate(schema):
        known = declared({text_of(k): text_of(v) for k, v in (field.metadata or {}).items()}, f"column {field.name!r}")
        is_time = types.is_timestamp(field.type) or types.is_duration(field.type)
        column = Column(place, field.name, known.units[0] if known.units else "", is_time=is_time)
        if is_time:
            columns.append(column)
        elif any(fits(field.type) for fits in is_number):
            is_index = column.name.startswith("__index_level_")  # with which pandas numbers its rows
            columns += [] if is_index and column.name != time_column else [column]
        else:
            notes.append(f"column {column.name!r} holds {field.type} and no numbers: left out")
    return sorted(columns, key=lambda column: not column.is_time), notes


def _facts(path: str, metadata: Mapping[bytes, bytes]) -> Metadata:
    """What the key and value pairs of the file say, and the attrs of a DataFrame among them."""
    pairs: dict[str, Any] = {text_of(key): text_of(value) for key, value in metadata.items()}
    facts = declared({key: value for key, value in pairs.items() if key not in ("pandas", "ARROW:schema")}, repr(path))
    for attrs in (lambda: json.loads(pairs["pandas"])["attributes"], lambda: json.loads(pairs["PANDAS_ATTRS"])):
        with contextlib.suppress(KeyError, ValueError, AttributeError, TypeError):
            facts = facts.over(declared(attrs(), repr(path)))
    return Metadata(facts.rate, facts.start, facts.start_s, facts.drift_ppm)  # names and units belong to the columns

"""CSV files: read once to check every row and to note where blocks of rows begin, then by blocks.

A read parses the blocks it needs, not the whole file; what is held of it is one block and the places of the others.
"""

from __future__ import annotations

import builtins
import csv
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.clock import Clock, Sampling, TimeColumn
from dlcca.recordings.formats.csv_blocks import CsvTable
from dlcca.recordings.formats.csv_dialect import MISSING, Dialect, read_dialect
from dlcca.recordings.formats.declared import asked, declared
from dlcca.recordings.formats.files import check_file, optional
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.formats.tables import Column, choose_time, declared_sampling, recording_of_table

ENDINGS = (".csv", ".tsv")
FORMAT = "CSV"

_SAMPLE_ROWS = 1000  # that decide whether a column holds numbers, times or texts


def open(
    path: str,
    *,
    time_column: str | bool | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    rate: float | None = None,
    start: datetime | date | str | None = None,
    names: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    skip_rows: int = 0,
) -> Recording:
    """The numeric columns of a CSV or TSV file.

    Parameters
    ----------
    time_column : its name; false for none; by default one that is called time, or holds time stamps
    time_unit : of a time column of numbers: "s" unless its name says another
    time_format : of time stamps that are not ISO 8601, as for strptime: "%d.%m.%Y %H:%M:%S.%f"
    delimiter, decimal, header : how the file is written, where the guess is wrong
    skip_rows : lines above the header
    """
    optional("pyarrow.csv", "csv", FORMAT)
    wanted = asked(rate=rate, start=start, names=names, unit=unit)
    check_file(path, FORMAT)
    dialect = read_dialect(path, delimiter=delimiter, decimal=decimal, header=header, skip_rows=skip_rows)
    # Names and units are those of the header, whatever lines above it say.
    facts = wanted.over(replace(declared(dialect.attributes, repr(path)), names=(), units=()))
    numeric, stamps, notes = _kinds(path, dialect, time_format, time_column)
    clock = choose_time(path, [*numeric, *stamps], stamps, time_column)
    channels = [column for column in numeric if column is not clock]
    notes += [f"column {column.name!r} holds more times: left out" for column in stamps if column is not clock]
    table = CsvTable(path, FORMAT, dialect)
    sampling, begun, more = _index(table, channels, clock, clock in stamps, facts.rate, time_unit, time_format)
    return recording_of_table(table, channels, sampling, facts, facts.start or begun, [*notes, *more])


def _index(
    table: CsvTable,
    channels: Sequence[Column],
    time: Column | None,
    stamped: bool,
    rate: float | None,
    time_unit: str | None,
    time_format: str | None,
) -> tuple[Sampling, datetime | None, list[str]]:
    """Run through the file once: rate and breaks from its time column, or as declared."""
    places = [column.place for column in channels]
    if time is None:
        for _ in table.indexed(places, None):
            pass
        _check_rows(table)
        return declared_sampling(table.path, table.n, rate, channels), None, []
    clock = Clock(f"time column {time.name!r} of {table.path!r}", rate=rate)
    column = TimeColumn(time.name, time_unit or (None if stamped else time.time_unit))
    blocks = table.indexed(places, time.place) if stamped else table.indexed([*places, time.place], None)
    for values, texts in blocks:
        if stamped:
            clock.feed(column.seconds(_stamps(table, time, texts, clock.n, time_format, column)))
        else:
            clock.feed(column.seconds(values[:, -1]))
    _check_rows(table)
    return clock.sampling(), column.start, column.notes


def _check_rows(table: CsvTable) -> None:
    if not table.n:
        raise DataError(f"{table.path!r} has no rows.")


def _stamps(
    table: CsvTable, time: Column, texts: Sequence[str | None], first_row: int, format: str | None, column: TimeColumn
) -> NDArray[np.datetime64]:
    """Time stamps of a block, in UTC where they have a time zone."""
    found = []
    for i, text in enumerate(texts):
        stamp = stamp_of(text or "", format)
        if stamp is None:
            where = f"{table.path!r}: row {first_row + i + 1}, time column {time.name!r}"
            raise DataError(f"{where}: {text!r} is not a time stamp. Mend it, or give time_format.")
        column.zoned = stamp.tzinfo is not None
        found.append(stamp.astimezone(UTC).replace(tzinfo=None) if stamp.tzinfo else stamp)
    return np.array(found, dtype="datetime64[us]")


def stamp_of(text: str, format: str | None) -> datetime | None:
    """A time stamp in ISO 8601, or as the format says; None if it is none."""
    try:
        return datetime.strptime(text.strip(), format) if format else datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _kinds(
    path: str, dialect: Dialect, time_format: str | None, time_column: str | bool | None
) -> tuple[list[Column], list[Column], list[str]]:
    """Columns of numbers, columns of time stamps, and what was left out."""
    sample = _sample(path, dialect)
    numeric, stamps, notes = [], [], []
    for place, header in enumerate(dialect.header):
        column = Column.of(place, header)
        found = [row[place] for row in sample if place < len(row) and row[place].strip() not in MISSING]
        if not header.strip() and not found:
            continue  # a delimiter at the end of every line
        if not header.strip() and place == 0 and found == [str(i) for i in range(len(found))]:
            notes.append("the first column has no name and numbers the rows: left out")
        elif not found or any(dialect.number(text) is not None for text in found):
            numeric.append(column)
        elif any(stamp_of(text, time_format) is not None for text in found):
            stamps.append(column)
        elif column.name == time_column:
            needed = "ISO 8601 (give time_format)" if time_format is None else f"time_format = {time_format!r}"
            raise SettingsError(f"{path!r}: time column {column.name!r} holds {found[0]!r}, which is not {needed}.")
        else:
            notes.append(f"column {column.name!r} holds text ({found[0]!r}) and no numbers: left out")
    return numeric, stamps, notes


def _sample(path: str, dialect: Dialect) -> list[list[str]]:
    """The first rows, as texts."""
    with builtins.open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        for _ in range(dialect.line - 1):
            file.readline()
        rows = csv.reader(file, delimiter=dialect.delimiter)
        return [row for row, _ in zip(rows, range(_SAMPLE_ROWS), strict=False) if row]

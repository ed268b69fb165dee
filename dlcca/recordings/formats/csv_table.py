"""CSV files: read once to check every row and to note where blocks of rows begin, then by blocks.

A read parses the blocks it needs, not the whole file; what is held of it is one block and the places of the others.
"""

import builtins
import csv
import io
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.checks import optional
from dlcca.recordings.formats.clock import TimeColumn
from dlcca.recordings.formats.metadata import declared, decoded, from_options
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.formats.tables import Column, Table

FORMAT = "CSV"

_BLOCK_BYTES = 1 << 20
_SAMPLE_ROWS = 1000  # that decide whether a column holds numbers, times or texts
_HEAD_BYTES = 1 << 18  # of the beginning, from which the dialect is found
_DELIMITERS = (",", ";", "\t", "|", " ")
_PREAMBLE = ("#", "%", "//")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "-nan")


def number(text: str, decimal: str) -> float | None:
    """The number that a field holds, NaN if it is missing, None if it is neither."""
    text = text.strip()
    if text in MISSING:
        return float("nan")
    if "_" in text or (decimal != "." and "." in text):
        return None
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        return None


class Dialect:
    """What is needed to read the rows, from the beginning of a file; what is given is not guessed."""

    def __init__(
        self, path: str, delimiter: str | None, decimal: str | None, header: bool | None, skip_rows: int
    ) -> None:
        if delimiter is not None and len(delimiter) != 1:
            raise SettingsError(f"delimiter = {delimiter!r} is not one letter; '\\t' is a tab.")
        if decimal not in (None, ".", ","):
            raise SettingsError(f"decimal = {decimal!r} is not known; '.' and ',' are.")
        lines, self.attributes = _lines(path, skip_rows)  # "key: value" above the header
        if not lines:
            raise DataError(f"{path!r} has no rows.")
        texts = [text for *_, text in lines]
        self.delimiter = delimiter or _delimiter(texts[:50])
        self.decimal = decimal or _decimal(list(csv.reader(texts[1:50], delimiter=self.delimiter)), self.delimiter)
        top = next(csv.reader(texts, delimiter=self.delimiter))
        named = any(number(word, self.decimal) is None for word in top) if header is None else header
        if named and len(lines) == 1:
            raise DataError(f"{path!r} has a header and no rows below it.")
        self.header = top if named else list(map(str, range(len(top))))  # a text for each column
        # Number of the first row in the file, from 1, and its place in bytes.
        self.line, self.offset, _ = lines[1 if named else 0]


def _lines(path: str, skip_rows: int) -> tuple[list[tuple[int, int, str]], dict[str, Any]]:
    """The first lines that are not blank (number, place, text), and what lines of comment above them say."""
    with builtins.open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        whole = len(head) < _HEAD_BYTES
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise DataError(f"{path!r} is not text in UTF-8 (it holds zero bytes): save it as CSV in UTF-8.")
    lines: list[tuple[int, int, str]] = []
    attributes: dict[str, Any] = {}
    place = 3 if head[:3] == b"\xef\xbb\xbf" else 0
    for i, line in enumerate(head[place:].splitlines(keepends=True)):
        text = decoded(line).rstrip("\r\n")
        cut_off = not whole and place + len(line) == len(head)
        if i >= skip_rows and text.strip() and not cut_off:
            if not lines and text.lstrip().startswith(_PREAMBLE):
                attribute = re.match(r"[#%/\s]*([\w \-]+?)\s*[:=]\s*(.+)$", text)
                if attribute:
                    attributes[attribute[1]] = attribute[2].strip().strip("\"'")
            else:
                lines.append((i + 1, place, text))
        place += len(line)
    return lines, attributes


def _delimiter(sample: list[str]) -> str:
    """The letter that splits these lines into equally many fields, and into most."""
    best, most = ",", 1
    for letter in _DELIMITERS:
        counts = [len(row) for row in csv.reader(sample, delimiter=letter)]
        usual = max(set(counts), key=counts.count)
        even = counts.count(usual) >= 0.6 * len(counts)  # not all: a row with a field too many is for later
        if even and usual > most and not (letter == " " and most > 1):
            best, most = letter, usual
    # 1,5;2,5 has two commas and one semicolon: with both, the semicolon splits and the comma is the decimal mark.
    return ";" if best == "," and all(";" in text for text in sample) else best


def _decimal(rows: list[list[str]], delimiter: str) -> str:
    """The mark that more of the numbers in these rows have."""
    found = (re.fullmatch(r"[+-]?\d*([.,])\d+(?:[eE][+-]?\d+)?", word.strip()) for row in rows for word in row)
    marks = Counter(number[1] for number in found if number)
    return "," if delimiter != "," and marks[","] > marks["."] else "."


Parsed = tuple[NDArray[np.float64], list[str | None]]


class CsvTable(Table):
    """Columns of numbers; `indexed` must run through once, and notes the place where each block begins."""

    def __init__(self, path: str, dialect: Dialect, time_format: str | None = None) -> None:
        self.path, self.format, self.dialect, self.time_format = path, FORMAT, dialect, time_format
        self.offsets = [dialect.offset]  # in bytes, of blocks, and the end
        self.edges = [0]  # their first rows, and the end
        self.lines = [dialect.line]  # their first lines in the file, and the end

    def indexed(self, places: Sequence[int], text_place: int | None) -> Iterator[Parsed]:
        """Every block once, checked: its numbers (rows, len(places)), and the texts of one more column."""
        with builtins.open(self.path, "rb") as file:
            file.seek(self.dialect.offset)
            while block := file.read(_BLOCK_BYTES):
                block += file.readline()
                values, texts = self._parse(len(self.offsets) - 1, block, places, text_place)
                self.offsets.append(self.offsets[-1] + len(block))
                self.edges.append(self.edges[-1] + len(values))
                self.lines.append(self.lines[-1] + block.count(b"\n"))
                yield values, texts
        if not self.edges[-1]:
            raise DataError(f"{self.path!r} has no rows.")

    def index(self, channels: Sequence[Column]) -> None:
        deque(self.indexed([column.place for column in channels], None), maxlen=0)

    def times(self, time: Column, channels: Sequence[Column], seconds: TimeColumn) -> Iterator[NDArray[Any]]:
        places = [column.place for column in channels]
        if not time.is_time:
            return (values[:, -1] for values, _ in self.indexed([*places, time.place], None))
        return (self._stamps(time.name, texts, seconds) for _, texts in self.indexed(places, time.place))

    def _stamps(self, name: str, texts: Sequence[str | None], seconds: TimeColumn) -> NDArray[np.datetime64]:
        """The time stamps of the last block, in UTC where they have a time zone."""
        found = []
        for row, text in enumerate(texts, start=self.edges[-2] + 1):
            stamp = stamp_of(text or "", self.time_format)
            if stamp is None:
                where = f"{self.path!r}: row {row}, time column {name!r}"
                raise DataError(f"{where}: {text!r} is not a time stamp. Correct it, or give time_format.")
            seconds.zoned = stamp.tzinfo is not None
            found.append(stamp.astimezone(UTC).replace(tzinfo=None) if stamp.tzinfo else stamp)
        return np.array(found, dtype="datetime64[us]")

    def read_block(self, block: int, places: Sequence[int]) -> NDArray[np.float64]:
        with builtins.open(self.path, "rb") as file:
            file.seek(self.offsets[block])
            text = file.read(self.offsets[block + 1] - self.offsets[block])
        return self._parse(block, text, places, None)[0]

    def _parse(self, block: int, text: bytes, places: Sequence[int], text_place: int | None) -> Parsed:
        import pyarrow as pa
        import pyarrow.csv as pc

        types = {str(place): pa.float64() for place in places}
        if text_place is not None or not places:  # without any column, the parser would not count the rows
            types[str(text_place or 0)] = pa.string()
        names = [str(place) for place in range(len(self.dialect.header))]
        try:
            table = pc.read_csv(
                pa.BufferReader(text),
                pc.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
                pc.ParseOptions(delimiter=self.dialect.delimiter),
                pc.ConvertOptions(
                    check_utf8=False,
                    include_columns=list(types),
                    column_types=types,
                    null_values=list(MISSING),
                    decimal_point=self.dialect.decimal,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):  # blank lines
                return np.zeros((0, len(places))), []
            return self._parse_slowly(block, text, places, text_place)
        values = np.empty((table.num_rows, len(places)))
        for i, place in enumerate(places):
            values[:, i] = table.column(str(place)).to_numpy()
        return values, [] if text_place is None else table.column(str(text_place)).to_pylist()

    def _parse_slowly(self, block: int, text: bytes, places: Sequence[int], text_place: int | None) -> Parsed:
        """Field by field: finds the fault that the quick parser met, or reads what only that could not ("+1.5")."""
        reader = csv.reader(io.StringIO(text.decode("utf-8", "replace")), delimiter=self.dialect.delimiter)
        values: list[list[float]] = []
        texts: list[str | None] = []
        for row in reader:
            if not row:
                continue
            line, header = self.lines[block] + reader.line_num - 1, self.dialect.header
            where = f"{self.path!r}: row {self.edges[block] + len(values) + 1} (line {line})"
            if len(row) != len(header):
                found = ",".join(row)
                found = found if len(found) <= 60 else f"{found[:57]}..."
                raise DataError(
                    f"{where} has {len(row)} fields, where {len(header)} are needed: {found!r}. "
                    "Correct the row, or give delimiter or skip_rows if the file is written another way."
                )
            values.append([])
            for column in places:
                value = number(row[column], self.dialect.decimal)
                if value is None:
                    raise DataError(
                        f"{where}, column {header[column].strip()!r}: {row[column].strip()!r} is not a number. "
                        "Correct it, or leave the field empty where nothing was measured."
                    )
                values[-1].append(value)
            texts += [] if text_place is None else [row[text_place]]
        return np.array(values, dtype=float).reshape(len(values), len(places)), texts


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
    requested = from_options(rate=rate, start=start, names=names, unit=unit)
    dialect = Dialect(path, delimiter, decimal, header, skip_rows)
    # Names and units are those of the header, whatever lines above it say.
    facts = requested.over(replace(declared(dialect.attributes, repr(path)), names=(), units=()))
    columns, notes = _columns(path, dialect, time_format, time_column)
    return CsvTable(path, dialect, time_format).recording(columns, facts, notes, time_column, time_unit)


def stamp_of(text: str, format: str | None) -> datetime | None:
    """A time stamp in ISO 8601, or as the format says; None if it is none."""
    try:
        return datetime.strptime(text.strip(), format) if format else datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _columns(
    path: str, dialect: Dialect, time_format: str | None, time_column: str | bool | None
) -> tuple[list[Column], list[str]]:
    """Columns of numbers, then those of time stamps; and what was left out."""
    with builtins.open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = csv.reader(islice(file, dialect.line - 1, None), delimiter=dialect.delimiter)
        sample = list(islice(rows, _SAMPLE_ROWS))
    columns, notes = [], []
    for place, header in enumerate(dialect.header):
        column = Column(place, header)
        found = [row[place] for row in sample if place < len(row) and row[place].strip() not in MISSING]
        if not header.strip() and not found:
            continue  # a delimiter at the end of every line
        if not header.strip() and place == 0 and found == [str(i) for i in range(len(found))]:
            notes.append("the first column has no name and numbers the rows: left out")
        elif not found or any(number(text, dialect.decimal) is not None for text in found):
            columns.append(column)
        elif any(stamp_of(text, time_format) is not None for text in found):
            columns.append(Column(place, header, is_time=True))
        elif column.name == time_column:
            needed = "ISO 8601 (give time_format)" if time_format is None else f"time_format = {time_format!r}"
            raise SettingsError(f"{path!r}: time column {column.name!r} holds {found[0]!r}, which is not {needed}.")
        else:
            notes.append(f"column {column.name!r} holds text ({found[0]!r}) and no numbers: left out")
    return sorted(columns, key=lambda column: column.is_time), notes

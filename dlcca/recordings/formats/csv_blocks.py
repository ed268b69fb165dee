"""The rows of a CSV file, parsed block by block; each block is about a megabyte of text."""

from __future__ import annotations

import builtins
import csv
import io
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.csv_dialect import MISSING, Dialect
from dlcca.recordings.formats.tables import Table

_BLOCK_BYTES = 1 << 20

Parsed = tuple[NDArray[np.float64], list[str | None]]


class CsvTable(Table):
    """Columns of numbers; `indexed` must run through once, and notes the place where each block begins."""

    def __init__(self, path: str, format: str, dialect: Dialect) -> None:
        self.path, self.format, self.dialect = path, format, dialect
        self.offsets = [dialect.offset]  # in bytes, of blocks, and the end
        self.edges = [0]  # their first rows, and the end
        self.lines = [dialect.line]  # their first lines in the file, and the end
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._block: tuple[Any, NDArray[np.float64]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

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

    @property
    def n(self) -> int:
        return self.edges[-1]

    def rows(self, first: int, last: int, places: Sequence[int]) -> NDArray[np.floating]:
        if first == last or not places:
            return np.zeros((last - first, len(places)))
        begin = int(np.searchsorted(self.edges, first, side="right")) - 1
        end = int(np.searchsorted(self.edges, last, side="left"))
        with self._lock:
            parts = []
            for block in range(begin, end):
                edge = self.edges[block]
                parts.append(self._read(block, tuple(places))[max(0, first - edge) : last - edge])
        return np.concatenate(parts)

    def _read(self, block: int, places: tuple[int, ...]) -> NDArray[np.float64]:
        """A block, which is kept: reads that follow each other would parse it many times."""
        if self._block is None or self._block[0] != (block, places):
            with builtins.open(self.path, "rb") as file:
                file.seek(self.offsets[block])
                text = file.read(self.offsets[block + 1] - self.offsets[block])
            self._block = (block, places), self._parse(block, text, places, None)[0]
        return self._block[1]

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
            line = self.lines[block] + reader.line_num - 1
            where = f"{self.path!r}: row {self.edges[block] + len(values) + 1} (line {line})"
            if len(row) != len(self.dialect.header):
                raise DataError(
                    f"{where} has {len(row)} fields, where {len(self.dialect.header)} are needed: {_short(row)}. "
                    "Mend the row, or give delimiter or skip_rows if the file is written another way."
                )
            values.append([self._number(row[column], column, where) for column in places])
            texts += [] if text_place is None else [row[text_place]]
        return np.array(values, dtype=float).reshape(len(values), len(places)), texts

    def _number(self, text: str, column: int, where: str) -> float:
        found = self.dialect.number(text)
        if found is None:
            raise DataError(
                f"{where}, column {self.dialect.header[column].strip()!r}: {text.strip()!r} is not a number. "
                "Mend it, or leave the field empty where nothing was measured."
            )
        return found


def _short(row: list[str]) -> str:
    text = ",".join(row)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")

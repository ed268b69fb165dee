"""How a CSV file is written: what stands above its rows, what parts its fields, and what its columns are called."""

from __future__ import annotations

import builtins
import csv
import re
from dataclasses import dataclass, field
from typing import Any

from dlcca.errors import DataError, SettingsError

_HEAD_BYTES = 1 << 18
_DELIMITERS = (",", ";", "\t", "|", " ")
_PREAMBLE = ("#", "%", "//")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none", "-nan")


@dataclass(frozen=True)
class Dialect:
    """What is needed to read the rows."""

    delimiter: str
    decimal: str
    header: tuple[str, ...]  # a text for each column
    offset: int  # of the first row, in bytes
    line: int  # number of the first row in the file, from 1
    attributes: dict[str, Any] = field(default_factory=dict)  # "key: value" above the header

    def fields(self, line: str) -> list[str]:
        return next(csv.reader([line], delimiter=self.delimiter), [])

    def number(self, text: str) -> float | None:
        """The number that a field holds, NaN if it is missing, None if it is neither."""
        return number(text, self.decimal)


def number(text: str, decimal: str = ".") -> float | None:
    text = text.strip()
    if text in MISSING:
        return float("nan")
    if "_" in text or (decimal != "." and "." in text):
        return None
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        return None


def read_dialect(
    path: str, *, delimiter: str | None, decimal: str | None, header: bool | None, skip_rows: int
) -> Dialect:
    """Look at the beginning of a file; what is given is not guessed."""
    if delimiter is not None and len(delimiter) != 1:
        raise SettingsError(f"delimiter = {delimiter!r} is not one letter; '\\t' is a tab.")
    if decimal not in (None, ".", ","):
        raise SettingsError(f"decimal = {decimal!r} is not known; '.' and ',' are.")
    lines, offsets, attributes = _lines(path, skip_rows)
    if not lines:
        raise DataError(f"{path!r} has no rows.")
    parted = delimiter or _delimiter(lines)
    mark = decimal or _decimal(lines, parted)
    rows = list(csv.reader((text for _, text in lines), delimiter=parted))
    named = any(number(word, mark) is None for word in rows[0]) if header is None else header
    first = 1 if named else 0
    if first == len(lines):
        raise DataError(f"{path!r} has a header and no rows below it.")
    texts = rows[0] if named else [str(i) for i in range(len(rows[0]))]
    return Dialect(parted, mark, tuple(texts), offsets[first], lines[first][0], attributes)


def _lines(path: str, skip_rows: int) -> tuple[list[tuple[int, str]], list[int], dict[str, Any]]:
    """The first lines that are not blank, with their numbers and places, and what lines of comment above them say."""
    with builtins.open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        whole = len(head) < _HEAD_BYTES
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise DataError(f"{path!r} is not text in UTF-8 (it holds zero bytes): save it as CSV in UTF-8.")
    lines: list[tuple[int, str]] = []
    offsets: list[int] = []
    attributes: dict[str, Any] = {}
    place = 3 if head[:3] == b"\xef\xbb\xbf" else 0
    for i, line in enumerate(head[place:].splitlines(keepends=True)):
        text = _decoded(line).rstrip("\r\n")
        cut_off = not whole and place + len(line) == len(head)
        if i >= skip_rows and text.strip() and not cut_off:
            if not lines and text.lstrip().startswith(_PREAMBLE):
                said = re.match(r"[#%/\s]*([\w \-]+?)\s*[:=]\s*(.+)$", text)
                if said:
                    attributes[said[1]] = said[2].strip().strip("\"'")
            else:
                lines.append((i + 1, text))
                offsets.append(place)
        place += len(line)
    return lines, offsets, attributes


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _delimiter(lines: list[tuple[int, str]]) -> str:
    """The letter that parts the first lines into equally many fields, and into most."""
    sample = [text for _, text in lines[:50]]
    best, most = ",", 1
    for letter in _DELIMITERS:
        counts = [len(row) for row in csv.reader(sample, delimiter=letter)]
        usual = max(set(counts), key=counts.count)
        even = counts.count(usual) >= 0.6 * len(counts)  # not all: a row with a field too many is for later
        if even and usual > most and not (letter == " " and most > 1):
            best, most = letter, usual
    # 1,5;2,5 has two commas and one semicolon: with both, the semicolon parts and the comma is the decimal mark.
    if best == "," and all(";" in text for text in sample):
        return ";"
    return best


def _decimal(lines: list[tuple[int, str]], delimiter: str) -> str:
    if delimiter == ",":
        return "."
    fields = [
        word.strip() for row in csv.reader((text for _, text in lines[1:50]), delimiter=delimiter) for word in row
    ]
    commas = sum(re.fullmatch(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", word) is not None for word in fields)
    points = sum(re.fullmatch(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", word) is not None for word in fields)
    return "," if commas > points else "."

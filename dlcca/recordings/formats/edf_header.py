"""The header of EDF, EDF+, BDF and BDF+: text in fields of fixed width."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from dlcca.errors import DataError

MAGIC = {b"0       ": "EDF", b"\xffBIOSEMI": "BDF"}
_SAMPLE_BYTES = {"EDF": 2, "BDF": 3}
_FIXED = 256  # bytes before the fields of the signals, of which each signal has as many again
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True)
class Entry:
    """One signal as the header declares it."""

    label: str
    transducer: str
    unit: str
    physical: tuple[float, float]  # the values that stand for the two digital ones
    digital: tuple[float, float]
    samples: int  # in a record
    offset: int  # of its first sample in a record, in bytes

    @property
    def is_annotations(self) -> bool:
        return self.label in ("EDF Annotations", "BDF Annotations")

    @property
    def has_range(self) -> bool:
        return self.physical[0] != self.physical[1]


@dataclass(frozen=True)
class Header:
    """What the header says about the records behind it."""

    format: str  # "EDF" or "BDF"
    variant: str  # "EDF+C", "EDF+D", "24BIT", ... or empty
    start: datetime | None
    n_records: int  # -1 while the recording runs
    record_s: float
    entries: tuple[Entry, ...]

    @property
    def sample_bytes(self) -> int:
        return _SAMPLE_BYTES[self.format]

    @property
    def bytes(self) -> int:
        return _FIXED * (1 + len(self.entries))

    @property
    def record_bytes(self) -> int:
        return self.sample_bytes * sum(entry.samples for entry in self.entries)

    @property
    def declares_breaks(self) -> bool:
        return self.variant[3:5] == "+D"


def read_header(path: str) -> Header:
    """The header of a file, refused where it does not hold together."""
    with open(path, "rb") as file:
        fixed = file.read(_FIXED)
        if fixed[:8] not in MAGIC:
            raise DataError(
                f"{path!r} begins with {fixed[:8]!r}, and EDF with b'0       ' or BDF with b'\\xffBIOSEMI': "
                "it is of another format, whatever its name ends with."
            )
        if len(fixed) < _FIXED:
            raise DataError(f"{path!r} ends inside its header, after {len(fixed)} bytes: copy or export it again.")
        field = _fields(path, fixed)
        count = _whole(field("number of signals", 252, 4))
        if count < 1:
            raise DataError(f"{path!r} declares {count} signals, and at least 1 is needed: export it again.")
        declared = _whole(field("length of the header", 184, 8))
        if declared != _FIXED * (1 + count):
            raise DataError(
                f"{path!r} declares a header of {declared} bytes, but one of {count} signals has "
                f"{_FIXED * (1 + count)}: one of the two numbers is wrong, export it again."
            )
        rest = file.read(_FIXED * count)
    if len(rest) < _FIXED * count:
        raise DataError(
            f"{path!r} ends inside its header: {_FIXED * (1 + count)} bytes were declared for {count} signals, "
            f"{_FIXED + len(rest)} are there. Copy or export it again."
        )
    format = MAGIC[fixed[:8]]
    header = Header(
        format=format,
        variant=fixed[192:236].decode("latin-1").strip(),
        start=_start(fixed),
        n_records=_whole(field("number of records", 236, 8)),
        record_s=_number(field("length of a record in seconds", 244, 8)),
        entries=_entries(path, rest, count, _SAMPLE_BYTES[format]),
    )
    _check(path, header)
    return header


@dataclass(frozen=True)
class _Field:
    """A field of text, and what to call it and its file when it cannot be understood."""

    path: str
    name: str
    text: str


def _fields(path: str, data: bytes) -> Callable[[str, int, int], _Field]:
    def field(name: str, start: int, width: int) -> _Field:
        return _Field(path, name, data[start : start + width].decode("latin-1").strip(" \0"))

    return field


def _number(field: _Field) -> float:
    try:
        return float(field.text.replace(",", "."))  # some writers follow the habits of their country
    except ValueError:
        raise DataError(
            f"{field.path!r} gives {field.text!r} as its {field.name}, and a number is needed: export it again."
        ) from None


def _whole(field: _Field) -> int:
    value = _number(field)
    if not math.isfinite(value) or value != int(value):
        raise DataError(
            f"{field.path!r} gives {field.text!r} as its {field.name}, and a whole number is needed: export it again."
        )
    return int(value)


def _entries(path: str, rest: bytes, count: int, sample_bytes: int) -> tuple[Entry, ...]:
    """The signals: each of their fields is stored for all of them before the next field begins."""
    field = _fields(path, rest)

    def column(name: str, start: int, width: int) -> list[_Field]:
        return [field(f"{name} of signal {i + 1}", start * count + width * i, width) for i in range(count)]

    labels = [cell.text for cell in column("label", 0, 16)]
    transducers = [cell.text for cell in column("transducer", 16, 80)]
    units = [cell.text for cell in column("unit", 96, 8)]
    physical_min = [_number(cell) for cell in column("physical minimum", 104, 8)]
    physical_max = [_number(cell) for cell in column("physical maximum", 112, 8)]
    digital_min = [_number(cell) for cell in column("digital minimum", 120, 8)]
    digital_max = [_number(cell) for cell in column("digital maximum", 128, 8)]
    samples = [_whole(cell) for cell in column("samples in a record", 216, 8)]
    offsets = [sample_bytes * before for before in accumulate(samples, initial=0)]
    return tuple(
        Entry(
            label=labels[i],
            transducer=transducers[i],
            unit=units[i],
            physical=(physical_min[i], physical_max[i]),
            digital=(digital_min[i], digital_max[i]),
            samples=samples[i],
            offset=offsets[i],
        )
        for i in range(count)
    )


def _check(path: str, header: Header) -> None:
    if header.n_records < -1:
        raise DataError(f"{path!r} declares {header.n_records} records: 0 or more are needed, or -1 for not known.")
    for number, entry in enumerate(header.entries, start=1):
        if entry.samples < 1:
            raise DataError(f"{path!r} declares {entry.samples} samples in a record of signal {number}: needed is 1.")
        if not entry.is_annotations:
            _check_scale(path, number, entry)
    if not all(entry.is_annotations for entry in header.entries) and not 0 < header.record_s < math.inf:
        raise DataError(
            f"{path!r} declares records of {header.record_s:g} s, so its channels have no rate: "
            "more than 0 s is needed where there are signals. Export it again."
        )


def _check_scale(path: str, number: int, entry: Entry) -> None:
    finite = all(map(math.isfinite, (*entry.physical, *entry.digital)))
    if not finite or entry.digital[0] == entry.digital[1]:
        raise DataError(
            f"{path!r} declares that digital {entry.digital[0]:g} to {entry.digital[1]:g} stand for "
            f"{entry.physical[0]:g} to {entry.physical[1]:g} {entry.unit} in signal {number} ({entry.label!r}): "
            "that gives no finite scale. Export it again."
        )


def _start(fixed: bytes) -> datetime | None:
    """When the file says that it began, in the clock on the wall; None where it does not say or says nonsense."""
    text = fixed[168:184].decode("latin-1")
    parts = re.fullmatch(r"(\d\d)\.(\d\d)\.(\d\d|yy)(\d\d)[.:](\d\d)[.:](\d\d)", text)
    if parts is None:
        return None
    day, month, year, hour, minute, second = (0 if part == "yy" else int(part) for part in parts.groups())
    year += 1900 if year >= 85 else 2000  # so says EDF; EDF+ has the year in full besides
    full = re.match(r"Startdate (\d\d)-([A-Z]{3})-(\d{4})", fixed[88:168].decode("latin-1"), re.IGNORECASE)
    if full is not None and full[2].upper() in _MONTHS:
        day, month, year = int(full[1]), 1 + _MONTHS.index(full[2].upper()), int(full[3])
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None

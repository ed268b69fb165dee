"""EDF, EDF+, BDF and BDF+: polysomnography, EEG, and most of clinical neurophysiology.

Read without a library. MNE resamples all channels to the highest rate and joins the two
sides of a break (EDF+D); EDFlib refuses discontinuous files; all of them keep an open file or a map of it, which
cannot be sent to a worker. The format is a header of text and records of integers, which takes few lines.
The tests compare this reader with those libraries.

Samples come in the physical unit that the header names (uV, mmHg, ...), not in volts. Channels are grouped by rate:
one signal for each rate, and one for each unbroken stretch of a recording with breaks.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.metadata import distinct, kinds_of
from dlcca.recordings.formats.recording import (
    Annotation,
    Channel,
    Digital,
    Recording,
    Signal,
    check_choice,
    check_file,
    check_span,
)

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
    with builtins.open(path, "rb") as file:
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
        return float(field.text.replace(",", "."))  # some writers use the decimal mark of their country
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
    """The start of the recording in local time; None where the file has none, or an invalid one."""
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


_RECORDS = 1024  # read at a time, for a memory that does not grow with the file


@dataclass(frozen=True)
class Marks:
    """What the annotation signals hold, in seconds after the start in the header."""

    onsets: NDArray[np.float64]  # of the records; NaN where a record does not say
    annotations: tuple[Annotation, ...]
    unreadable: int  # lists that are not as they should be


def read_marks(path: str, header: Header, n_records: int) -> Marks:
    """When each record began, and the annotations in the order of their onsets."""
    onsets = np.full(n_records, np.nan)
    annotations: list[Annotation] = []
    unreadable = 0
    for record, place, text in _texts(path, header, n_records):
        lists = [piece for piece in text.split(b"\0") if piece]
        for number, piece in enumerate(lists):
            parsed = _parse(piece)
            if parsed is None:
                unreadable += 1
                continue
            onset, duration, texts = parsed
            if place == 0 and number == 0 and texts[:1] == [""]:
                onsets[record] = onset
            annotations += [Annotation(onset, duration, text) for text in texts if text]
    return Marks(onsets, tuple(sorted(annotations, key=lambda mark: mark.onset_s)), unreadable)


def _texts(path: str, header: Header, n_records: int) -> Iterator[tuple[int, int, bytes]]:
    """Each record's bytes of each annotation signal: the number of the record and of the signal among its like."""
    entries = [entry for entry in header.entries if entry.is_annotations]
    for first in range(0, n_records, _RECORDS):
        shape = (min(_RECORDS, n_records - first), header.record_bytes)
        # A map, given back after each piece: only the pages with text in them are read, and none are kept.
        records = np.memmap(path, np.uint8, "r", header.bytes + first * header.record_bytes, shape)
        for place, entry in enumerate(entries):
            width = entry.samples * header.sample_bytes
            for i, row in enumerate(np.array(records[:, entry.offset : entry.offset + width])):
                yield first + i, place, row.tobytes()


def _parse(piece: bytes) -> tuple[float, float, list[str]] | None:
    """Onset, duration and texts of one list; None where it is none."""
    head, *texts = piece.split(b"\x14")
    onset, _, duration = head.partition(b"\x15")
    if onset[:1] not in (b"+", b"-") or not texts:
        return None
    try:
        times = float(onset), float(duration or 0)
    except ValueError:
        return None
    if not np.isfinite(times).all():
        return None
    return *times, [_decode(text) for text in texts[:-1]] if not texts[-1] else [_decode(text) for text in texts]


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:  # written before EDF+ required UTF-8, or against it
        return text.decode("latin-1")


FORMAT = "EDF"

_SLAB = 1 << 21  # bytes read at a time: enough for the disk, and few enough to stay in the cache until scaled


def open(path: str, *, truncated: str = "refuse") -> Recording:
    """A recording in EDF, EDF+ (with breaks or without), BDF or BDF+.

    Parameters
    ----------
    truncated : "refuse", or "keep" to read the whole records that are there when the header declares another number
    """
    check_choice("truncated", truncated, ("refuse", "keep"))
    size = check_file(path, FORMAT)
    header = read_header(path)
    n_records, notes = _records_present(path, header, size, truncated)
    if n_records == 0:
        raise DataError(f"{path!r} holds a header and not one whole record behind it: copy or export it again.")
    stretches, annotations, more = _timing(path, header, n_records)
    channels, renamed = _channels(header)
    signals = [
        EdfSignal(path, header, [channels[i] for i in group], [header.entries[i] for i in group], stretch)
        for group in _groups(header)
        for stretch in stretches
    ]
    begun = stretches[0].start_s  # a fraction of a second after the start in the header
    for signal in signals:
        signal.start_s -= begun
    return Recording(
        path=path,
        format=header.format,
        signals=tuple(signals),
        start=header.start + timedelta(seconds=begun) if header.start else None,
        annotations=tuple(replace(mark, onset_s=mark.onset_s - begun) for mark in annotations),
        notes=(*notes, *more, *renamed, *_unscaled(header)),
    )


@dataclass(frozen=True)
class Stretch:
    """Records that follow each other without a break."""

    first_record: int
    n_records: int
    start_s: float  # after the start in the header


class EdfSignal(Signal):
    """Channels of one rate over one stretch. Holds no open file: may be pickled, and read from many threads."""

    def __init__(
        self, path: str, header: Header, channels: Sequence[Channel], entries: Sequence[Entry], stretch: Stretch
    ) -> None:
        self.channels = tuple(channels)
        self.rate = entries[0].samples / header.record_s
        self.n = entries[0].samples * stretch.n_records
        self.start_s = stretch.start_s
        self._path = path
        self._samples = entries[0].samples
        self._sample_bytes = header.sample_bytes
        self._record_bytes = header.record_bytes
        self._begin = header.bytes + stretch.first_record * header.record_bytes
        self._offsets = [entry.offset for entry in entries]
        self._gain = np.array([_scale(entry)[0] for entry in entries])
        self._bias = np.array([_scale(entry)[1] for entry in entries])

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float64]:
        return self._read(first, last, columns, np.float64)

    def read_single(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float32]:
        """Computed in single precision at once, which takes half the time: stored are 16 bits, or 24."""
        return self._read(first, last, columns, np.float32)

    @property
    def digital(self) -> Digital | None:
        """The numbers of EDF; those of BDF have 24 bits."""
        return Digital(np.dtype(np.int16), self._gain, self._bias) if self._sample_bytes == 2 else None

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.int16]:
        return self._read(first, last, columns, np.int16)

    def _read(self, first: int, last: int, columns: Sequence[int], dtype: type) -> NDArray:
        """Samples in one of these dtypes, those of int16 as they are in the file."""
        check_span(self, first, last)
        columns = list(columns)
        if first == last or not columns:
            return np.empty((last - first, len(columns)), dtype)
        if self._record_bytes > _SLAB:
            return self._read_channels(first, last, columns, dtype)
        record, end = first // self._samples, -(-last // self._samples)
        out: NDArray = np.empty(((end - record), self._samples, len(columns)), dtype)
        step = max(1, _SLAB // self._record_bytes)
        for a in range(record, end, step):
            b = min(a + step, end)
            records = self._load(a * self._record_bytes, (b - a) * self._record_bytes).reshape(b - a, -1)
            self._put(out[a - record : b - record], records, columns)
        skip = first - record * self._samples
        return out.reshape(-1, len(columns))[skip : skip + last - first]

    def _put(self, out: NDArray, records: NDArray[np.uint8], columns: list[int]) -> None:
        """Fill out (records, samples, columns) from the bytes of as many records; floats in the unit of a channel."""
        width = self._samples * self._sample_bytes
        for at, run in _neighbours(columns, self._offsets, width):
            begin = self._offsets[run[0]]
            digital = _integers(records[:, begin : begin + len(run) * width], self._sample_bytes)
            places = out[:, :, at : at + len(run)]
            by_sample = digital.reshape(len(records), len(run), self._samples).swapaxes(1, 2)
            if out.dtype.kind == "i":
                places[...] = by_sample
                continue
            np.multiply(by_sample, self._gain[run].astype(out.dtype), out=places, dtype=out.dtype, casting="same_kind")
            places += self._bias[run].astype(out.dtype)

    def _read_channels(self, first: int, last: int, columns: list[int], dtype: type) -> NDArray:
        """The same from records so long that only the part of each channel is read that is needed."""
        out: NDArray = np.empty((last - first, len(columns)), dtype)
        for record in range(first // self._samples, -(-last // self._samples)):
            start = record * self._samples
            a, b = max(first, start), min(last, start + self._samples)
            for place, column in enumerate(columns):
                offset = record * self._record_bytes + self._offsets[column] + (a - start) * self._sample_bytes
                digital = _integers(self._load(offset, (b - a) * self._sample_bytes)[None], self._sample_bytes)[0]
                values = digital if out.dtype.kind == "i" else digital * self._gain[column] + self._bias[column]
                out[a - first : b - first, place] = values
        return out

    def _load(self, offset: int, count: int) -> NDArray[np.uint8]:
        # Not a map: its pages would count as memory of this process, as much as the file is long.
        data = np.fromfile(self._path, np.uint8, count, offset=self._begin + offset)
        if len(data) < count:
            raise DataError(f"{self._path!r} has become shorter since it was opened: open it again.")
        return data


def _integers(data: NDArray[np.uint8], sample_bytes: int) -> NDArray[np.integer]:
    """(rows, bytes) of little-endian integers of 2 or 3 bytes as (rows, samples)."""
    if sample_bytes == 2:
        return data.view("<i2") if data.flags.c_contiguous else np.ascontiguousarray(data).view("<i2")
    wide = np.zeros((len(data), data.shape[1] // 3, 4), np.uint8)
    wide[:, :, 1:] = data.reshape(len(data), -1, 3)
    return wide.view("<i4")[:, :, 0] >> 8  # the shift brings the sign along


def _neighbours(columns: list[int], offsets: list[int], width: int) -> Iterator[tuple[int, list[int]]]:
    """Runs of columns that lie side by side in a record: the place of the first among the columns, and the run."""
    start = 0
    for i in range(1, len(columns) + 1):
        if i == len(columns) or offsets[columns[i]] != offsets[columns[i - 1]] + width:
            yield start, columns[start:i]
            start = i


def _scale(entry: Entry) -> tuple[float, float]:
    """Gain and bias from digital to physical values; those stored where no physical range is declared."""
    if not entry.has_range:
        return 1.0, 0.0
    gain = (entry.physical[1] - entry.physical[0]) / (entry.digital[1] - entry.digital[0])
    return gain, entry.physical[0] - gain * entry.digital[0]


def _records_present(path: str, header: Header, size: int, truncated: str) -> tuple[int, list[str]]:
    """How many whole records to read, and what to say about a length that is not what the header declares."""
    present, left = divmod(size - header.bytes, header.record_bytes)
    if header.n_records == -1:
        return present, [f"the header does not say how many records there are; {present} whole ones were found"]
    if present == header.n_records:
        return present, [f"{left} bytes after the last record were left out"] if left else []
    found = f"{path!r} holds {present} whole records of {header.record_s:g} s"
    declared = f"its header declares {header.n_records}"
    if truncated == "keep":
        cut = f"; {left} bytes of a broken one were left out" if left else ""
        return present, [f"{present} whole records were found and all were read, though {declared}{cut}"]
    reason = (
        "it was cut short" if present < header.n_records else "the header was never completed, or files were joined"
    )
    raise DataError(
        f"{found}, and {declared}: {reason}. Copy or export it again, or set truncated = 'keep' to read the {present}."
    )


def _timing(path: str, header: Header, n_records: int) -> tuple[list[Stretch], tuple[Annotation, ...], list[str]]:
    """The unbroken stretches, the annotations, and notes on what is wrong with either."""
    whole = [Stretch(0, n_records, 0.0)]
    if not any(entry.is_annotations for entry in header.entries):
        if header.declares_breaks:
            raise DataError(
                f"{path!r} declares breaks ({header.variant}) but has no annotation signal to say when its records "
                "began: export it again with annotations, or as continuous EDF+C."
            )
        return whole, (), []
    marks = read_marks(path, header, n_records)
    notes = [f"{marks.unreadable} annotations could not be understood"] if marks.unreadable else []
    if all(entry.is_annotations for entry in header.entries):
        return whole, marks.annotations, notes
    stretches, more = _stretches(path, header, marks.onsets)
    return stretches, marks.annotations, [*notes, *more]


def _stretches(path: str, header: Header, onsets: NDArray[np.float64]) -> tuple[list[Stretch], list[str]]:
    """Split the records where one does not begin when the one before it ended."""
    whole = [Stretch(0, len(onsets), float(onsets[0]) if np.isfinite(onsets[0]) else 0.0)]
    fastest = max(entry.samples for entry in header.entries if not entry.is_annotations)
    step = np.diff(onsets) - header.record_s
    late = step > 0.5 * header.record_s / fastest  # half a sample
    early = step < -0.5 * header.record_s / fastest
    silent = np.isnan(onsets)
    if silent.any() or early.any():
        if silent.any():
            found = f"{silent.sum()} of {len(onsets)} records do not say when they began"
        else:
            at = int(early.argmax())
            found = (
                f"record {at + 2} began at {onsets[at + 1]:g} s, before record {at + 1} ended at "
                f"{onsets[at] + header.record_s:g} s"
            )
        if header.declares_breaks:
            raise DataError(f"{path!r}: {found}, and in {header.variant} the times must be known: export it again.")
        return whole, [f"{found}; as the header says that there are no breaks, they were read as one stretch"]
    starts = [0, *(np.flatnonzero(late) + 1).tolist()]
    ends = [*starts[1:], len(onsets)]
    stretches = [Stretch(a, b - a, float(onsets[a])) for a, b in zip(starts, ends, strict=True)]
    undeclared = len(stretches) > 1 and not header.declares_breaks
    return stretches, [f"{len(starts) - 1} breaks were found that the header does not declare"] if undeclared else []


def _channels(header: Header) -> tuple[list[Channel], list[str]]:
    """A channel for each entry of the header, annotations included so that their numbers agree."""
    ordinary = [i for i, entry in enumerate(header.entries) if not entry.is_annotations]
    labels = [header.entries[i].label for i in ordinary]
    names, notes = distinct(labels)
    channels = [Channel(entry.label, entry.unit) for entry in header.entries]
    for i, name, kind in zip(ordinary, names, kinds_of(labels), strict=True):
        unit = header.entries[i].unit if header.entries[i].has_range else ""
        channels[i] = Channel(name, unit, kind)
    return channels, notes


def _groups(header: Header) -> list[list[int]]:
    """The numbers of the ordinary channels, those of one rate together."""
    groups: dict[int, list[int]] = {}
    for i, entry in enumerate(header.entries):
        if not entry.is_annotations:
            groups.setdefault(entry.samples, []).append(i)
    return list(groups.values())


def _unscaled(header: Header) -> list[str]:
    return [
        f"channel {entry.label!r} declares a physical range of nothing ({entry.physical[0]:g} to "
        f"{entry.physical[1]:g} {entry.unit}); its samples are as stored, without a unit"
        for entry in header.entries
        if not entry.is_annotations and not entry.has_range
    ]

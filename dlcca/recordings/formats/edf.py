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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import check_choice, check_complete, check_file
from dlcca.recordings.formats.metadata import decoded, distinct, grouped, kinds_of
from dlcca.recordings.formats.recording import (
    Annotation,
    Channel,
    Digital,
    Recording,
    Sampling,
    Source,
    SourceSignal,
    Stretch,
    int24,
)

FORMAT = "EDF"
MAGIC = {b"0       ": "EDF", b"\xffBIOSEMI": "BDF"}
_SAMPLE_BYTES = {"EDF": 2, "BDF": 3}
_FIXED = 256  # bytes before the fields of the signals, of which each signal has as many again
_RANGES = {"physical minimum": 104, "physical maximum": 112, "digital minimum": 120, "digital maximum": 128}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_RECORDS = 1024  # of which annotations are read at a time, for a memory that does not grow with the file
_SLAB = 1 << 21  # bytes read at a time: enough for the disk, and few enough to stay in the cache until scaled


@dataclass(frozen=True)
class Entry:
    """One signal as the header declares it."""

    label: str
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

    @property
    def scale(self) -> tuple[float, float]:
        """Gain and bias from digital to physical values; those stored where no physical range is declared."""
        if not self.has_range:
            return 1.0, 0.0
        gain = (self.physical[1] - self.physical[0]) / (self.digital[1] - self.digital[0])
        return gain, self.physical[0] - gain * self.digital[0]


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

    @property
    def ordinary(self) -> list[Entry]:
        """The signals that are not annotations."""
        return [entry for entry in self.entries if not entry.is_annotations]


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
        fields = _Fields(path, fixed)
        count = fields.whole("number of signals", 252, 4)
        if count < 1:
            raise DataError(f"{path!r} declares {count} signals, and at least 1 is needed: export it again.")
        declared = fields.whole("length of the header", 184, 8)
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
        n_records=fields.whole("number of records", 236, 8),
        record_s=fields.number("length of a record in seconds", 244, 8),
        entries=tuple(_entries(_Fields(path, rest), count, _SAMPLE_BYTES[format])),
    )
    _check(path, header)
    return header


@dataclass(frozen=True)
class _Fields:
    """The fields of a header, which are text."""

    path: str
    data: bytes

    def text(self, start: int, width: int) -> str:
        return self.data[start : start + width].decode("latin-1").strip(" \0")

    def number(self, name: str, start: int, width: int) -> float:
        try:
            return float(
                self.text(start, width).replace(",", ".")
            )  # some writers use the decimal mark of their country
        except ValueError:
            raise self._refused(name, self.text(start, width), "a number") from None

    def whole(self, name: str, start: int, width: int) -> int:
        value = self.number(name, start, width)
        if not math.isfinite(value) or value != int(value):
            raise self._refused(name, self.text(start, width), "a whole number")
        return int(value)

    def _refused(self, name: str, text: str, needed: str) -> DataError:
        return DataError(f"{self.path!r} gives {text!r} as its {name}, and {needed} is needed: export it again.")


def _entries(fields: _Fields, count: int, sample_bytes: int) -> Iterator[Entry]:
    """The signals: each of their fields is stored for all of them before the next field begins."""
    offset = 0
    for i in range(count):
        physical_min, physical_max, digital_min, digital_max = (
            fields.number(f"{name} of signal {i + 1}", start * count + 8 * i, 8) for name, start in _RANGES.items()
        )
        samples = fields.whole(f"samples in a record of signal {i + 1}", 216 * count + 8 * i, 8)
        yield Entry(
            label=fields.text(16 * i, 16),
            unit=fields.text(96 * count + 8 * i, 8),
            physical=(physical_min, physical_max),
            digital=(digital_min, digital_max),
            samples=samples,
            offset=offset,
        )
        offset += sample_bytes * samples


def _check(path: str, header: Header) -> None:
    if header.n_records < -1:
        raise DataError(f"{path!r} declares {header.n_records} records: 0 or more are needed, or -1 for not known.")
    for number, entry in enumerate(header.entries, start=1):
        if entry.samples < 1:
            raise DataError(f"{path!r} declares {entry.samples} samples in a record of signal {number}: needed is 1.")
        if not entry.is_annotations:
            _check_scale(path, number, entry)
    if header.ordinary and not 0 < header.record_s < math.inf:
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


def _annotations(path: str, header: Header, n_records: int) -> tuple[NDArray[np.float64], list[Annotation], list[str]]:
    """When each record began (NaN where it does not say), the annotations in their order, and notes on them.

    Times are in seconds after the start in the header.
    """
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
    notes = [f"{unreadable} annotations could not be understood"] if unreadable else []
    return onsets, sorted(annotations, key=lambda mark: mark.onset_s), notes


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
    return *times, [decoded(text) for text in (texts if texts[-1] else texts[:-1])]


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
    begun = stretches[0].start_s  # a fraction of a second after the start in the header
    names, renamed = distinct([entry.label for entry in header.ordinary])
    kinds = kinds_of([entry.label for entry in header.ordinary])
    signals: list[SourceSignal] = []
    for group in grouped(zip(header.ordinary, names, kinds, strict=True), lambda item: item[0].samples):
        channels = [Channel(name, entry.unit if entry.has_range else "", kind) for entry, name, kind in group]
        source = EdfSource(path, header, [entry for entry, _, _ in group])
        rows = [Stretch(s.first * source.samples, s.n * source.samples, s.start_s) for s in stretches]
        signals += Sampling(source.samples / header.record_s, rows).signals(source, channels, start_s=-begun)
    return Recording(
        path=path,
        format=header.format,
        signals=tuple(signals),
        start=header.start + timedelta(seconds=begun) if header.start else None,
        annotations=tuple(replace(mark, onset_s=mark.onset_s - begun) for mark in annotations),
        notes=(*notes, *more, *renamed, *_unscaled(header)),
    )


class EdfSource(Source):
    """Channels of one rate. Holds no open file: may be pickled, and read from many threads."""

    is_library = False

    def __init__(self, path: str, header: Header, entries: Sequence[Entry]) -> None:
        self.path, self.format = path, header.format
        self.samples = entries[0].samples  # of a channel in a record
        self._sample_bytes, self._record_bytes, self._begin = header.sample_bytes, header.record_bytes, header.bytes
        self._offsets = [entry.offset for entry in entries]
        self._gain, self._bias = np.array([entry.scale for entry in entries]).T

    def rows(self, first: int, last: int, columns: list[int]) -> NDArray[np.float64]:
        return self._read(first, last, columns, np.float64)

    def single(self, first: int, last: int, columns: list[int]) -> NDArray[np.float32]:
        """Computed in single precision at once, which takes half the time: stored are 16 bits, or 24."""
        return self._read(first, last, columns, np.float32)

    @property
    def digital(self) -> Digital | None:
        """The numbers of EDF; those of BDF have 24 bits."""
        return Digital(np.dtype(np.int16), self._gain, self._bias) if self._sample_bytes == 2 else None

    def numbers(self, first: int, last: int, columns: list[int]) -> NDArray[np.int16]:
        return self._read(first, last, columns, np.int16)

    def _read(self, first: int, last: int, columns: list[int], dtype: type) -> NDArray:
        """Samples in one of these dtypes, those of int16 as they are in the file."""
        if self._record_bytes > _SLAB:
            return self._read_channels(first, last, columns, dtype)
        record, end = first // self.samples, -(-last // self.samples)
        out: NDArray = np.empty(((end - record), self.samples, len(columns)), dtype)
        step = max(1, _SLAB // self._record_bytes)
        for a in range(record, end, step):
            b = min(a + step, end)
            records = self._load(a * self._record_bytes, (b - a) * self._record_bytes).reshape(b - a, -1)
            self._put(out[a - record : b - record], records, columns)
        skip = first - record * self.samples
        return out.reshape(-1, len(columns))[skip : skip + last - first]

    def _put(self, out: NDArray, records: NDArray[np.uint8], columns: list[int]) -> None:
        """Fill out (records, samples, columns) from the bytes of as many records; floats in the unit of a channel."""
        width = self.samples * self._sample_bytes
        for at, run in _neighbours(columns, self._offsets, width):
            begin = self._offsets[run[0]]
            digital = _integers(records[:, begin : begin + len(run) * width], self._sample_bytes)
            places = out[:, :, at : at + len(run)]
            by_sample = digital.reshape(len(records), len(run), self.samples).swapaxes(1, 2)
            if out.dtype.kind == "i":
                places[...] = by_sample
                continue
            np.multiply(by_sample, self._gain[run].astype(out.dtype), out=places, dtype=out.dtype, casting="same_kind")
            places += self._bias[run].astype(out.dtype)

    def _read_channels(self, first: int, last: int, columns: list[int], dtype: type) -> NDArray:
        """The same from records so long that only the part of each channel is read that is needed."""
        out: NDArray = np.empty((last - first, len(columns)), dtype)
        for record in range(first // self.samples, -(-last // self.samples)):
            start = record * self.samples
            a, b = max(first, start), min(last, start + self.samples)
            for place, column in enumerate(columns):
                offset = record * self._record_bytes + self._offsets[column] + (a - start) * self._sample_bytes
                digital = _integers(self._load(offset, (b - a) * self._sample_bytes)[None], self._sample_bytes)[0]
                values = digital if out.dtype.kind == "i" else digital * self._gain[column] + self._bias[column]
                out[a - first : b - first, place] = values
        return out

    def _load(self, offset: int, count: int) -> NDArray[np.uint8]:
        # Not a map: its pages would count as memory of this process, as much as the file is long.
        data = np.fromfile(self.path, np.uint8, count, offset=self._begin + offset)
        if len(data) < count:
            raise DataError(f"{self.path!r} has become shorter since it was opened: open it again.")
        return data


def _integers(data: NDArray[np.uint8], sample_bytes: int) -> NDArray[np.integer]:
    """(rows, bytes) of little-endian integers of 2 or 3 bytes as (rows, samples)."""
    if sample_bytes == 2:
        return data.view("<i2") if data.flags.c_contiguous else np.ascontiguousarray(data).view("<i2")
    return int24(data.reshape(len(data), -1, 3))


def _neighbours(columns: list[int], offsets: list[int], width: int) -> Iterator[tuple[int, list[int]]]:
    """Runs of columns that lie side by side in a record: the place of the first among the columns, and the run."""
    start = 0
    for i in range(1, len(columns) + 1):
        if i == len(columns) or offsets[columns[i]] != offsets[columns[i - 1]] + width:
            yield start, columns[start:i]
            start = i


def _records_present(path: str, header: Header, size: int, truncated: str) -> tuple[int, list[str]]:
    """How many whole records to read, and what to say about a length that is not what the header declares."""
    present, left = divmod(size - header.bytes, header.record_bytes)
    if header.n_records == -1:
        return present, [f"the header does not say how many records there are; {present} whole ones were found"]
    if present == header.n_records:
        return present, [f"{left} bytes after the last record were left out"] if left else []
    reason = (
        "it was cut short" if present < header.n_records else "the header was never completed, or files were joined"
    )
    rest = f" ({left} bytes of a broken record are left over)" if left else ""
    found = f"holds {present} whole records of {header.record_s:g} s, and its header declares {header.n_records}"
    return present, check_complete(path, truncated, f"{found}: {reason}{rest}", f"the {present} records")


def _timing(path: str, header: Header, n_records: int) -> tuple[list[Stretch], list[Annotation], list[str]]:
    """The unbroken stretches (of records, not of samples), the annotations, and notes on what is wrong with either."""
    whole = [Stretch(0, n_records, 0.0)]
    if len(header.ordinary) == len(header.entries):
        if header.declares_breaks:
            raise DataError(
                f"{path!r} declares breaks ({header.variant}) but has no annotation signal to say when its records "
                "began: export it again with annotations, or as continuous EDF+C."
            )
        return whole, [], []
    onsets, annotations, notes = _annotations(path, header, n_records)
    if not header.ordinary:
        return whole, annotations, notes
    stretches, more = _stretches(path, header, onsets)
    return stretches, annotations, [*notes, *more]


def _stretches(path: str, header: Header, onsets: NDArray[np.float64]) -> tuple[list[Stretch], list[str]]:
    """Split the records where one does not begin when the one before it ended."""
    whole = [Stretch(0, len(onsets), float(onsets[0]) if np.isfinite(onsets[0]) else 0.0)]
    fastest = max(entry.samples for entry in header.ordinary)
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


def _unscaled(header: Header) -> list[str]:
    return [
        f"channel {entry.label!r} declares a physical range of nothing ({entry.physical[0]:g} to "
        f"{entry.physical[1]:g} {entry.unit}); its samples are as stored, without a unit"
        for entry in header.ordinary
        if not entry.has_range
    ]

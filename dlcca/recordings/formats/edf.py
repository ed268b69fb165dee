"""EDF, EDF+, BDF and BDF+: polysomnography, EEG, and most of clinical neurophysiology.

Read without a library. MNE resamples all channels to the highest rate and joins the two sides of a break (EDF+D);
EDFlib refuses discontinuous files; all of them keep an open file or a map of it, which cannot be sent to a worker.
The tests compare this reader with those libraries.

Samples come in the physical unit that the header names (uV, mmHg, ...), not in volts. Channels are grouped by rate:
one signal for each rate, and one for each unbroken stretch of a recording with breaks.
"""

import builtins
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import Damaged, Truncated, check_beginning, check_complete
from dlcca.recordings.formats.metadata import decoded, distinct, grouped, kinds_of
from dlcca.recordings.formats.recording import Annotation, Channel, Digital, Recording, Sampling, Source, Stretch, int24

FORMAT = "EDF"
MAGIC = {b"0       ": ("EDF", 2), b"\xffBIOSEMI": ("BDF", 3)}  # the format, and the bytes of a sample
_FIXED = 256  # bytes before the fields of the signals, of which each signal has as many again
_RANGES = {"physical minimum": 104, "physical maximum": 112, "digital minimum": 120, "digital maximum": 128}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_RECORDS = 1024  # of which annotations are read at a time, for a memory that does not grow with the file
_SLAB = 1 << 21  # bytes read at a time: enough for the disk, and few enough to stay in the cache until scaled


class Entry:
    """One signal as the header declares it: number i of so many, after ``offset`` bytes of a record."""

    def __init__(self, data: bytes, i: int, count: int, offset: int) -> None:
        # Each field is stored for all signals before the next field begins.
        low, high, first, last = (
            _number(data, f"{name} of signal {i + 1}", start * count + 8 * i, 8) for name, start in _RANGES.items()
        )
        self.physical, self.digital = (low, high), (first, last)  # values, and the digital ones that stand for them
        self.label, self.unit = _text(data, 16 * i, 16), _text(data, 96 * count + 8 * i, 8)
        self.samples = _whole(data, f"samples in a record of signal {i + 1}", 216 * count + 8 * i, 8)
        self.offset = offset
        if self.samples < 1:
            raise Damaged(f"declares {self.samples} samples in a record of signal {i + 1}, and at least 1 is needed")
        if not self.is_annotations and not (np.isfinite([low, high, first, last]).all() and first != last):
            raise Damaged(
                f"declares that digital {first:g} to {last:g} stand for {low:g} to {high:g} {self.unit} in signal "
                f"{i + 1} ({self.label!r}): that gives no finite scale"
            )

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


class Header:
    """What the header says about the records behind it; refused where its fields contradict each other."""

    def __init__(self, path: str) -> None:
        with builtins.open(path, "rb") as file:
            fixed = file.read(_FIXED)
            check_beginning(path, fixed[:8], "EDF or BDF", *MAGIC)
            if len(fixed) < _FIXED:
                raise Damaged(f"ends inside its header, after {len(fixed)} bytes")
            count = _whole(fixed, "number of signals", 252, 4)
            if count < 1:
                raise Damaged(f"declares {count} signals, and at least 1 is needed")
            size, declared = _FIXED * (1 + count), _whole(fixed, "length of the header", 184, 8)
            if declared != size:
                raise Damaged(f"declares a header of {declared} bytes, but one of {count} signals has {size}")
            rest = file.read(size - _FIXED)
        if len(rest) < size - _FIXED:
            raise Damaged(f"ends inside its header, after {_FIXED + len(rest)} of {size} bytes")
        self.format, self.sample_bytes = MAGIC[fixed[:8]]
        self.variant = _text(fixed, 192, 44)  # "EDF+C", "EDF+D", "24BIT", ... or empty
        self.start = _start(fixed)
        self.n_records = _whole(fixed, "number of records", 236, 8)  # -1 while the recording runs
        self.record_s = _number(fixed, "length of a record in seconds", 244, 8)
        self.entries: list[Entry] = []
        offset = 0
        for i in range(count):
            self.entries.append(Entry(rest, i, count, offset))
            offset += self.sample_bytes * self.entries[-1].samples
        if self.n_records < -1:
            raise Damaged(f"declares {self.n_records} records: 0 or more are needed, or -1 for not known")
        if self.ordinary and not 0 < self.record_s < math.inf:
            raise Damaged(
                f"declares records of {self.record_s:g} s, so its channels have no rate: more than 0 s is needed where "
                "there are signals"
            )

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


def _text(data: bytes, start: int, width: int) -> str:
    return data[start : start + width].decode("latin-1").strip(" \0")


def _number(data: bytes, name: str, start: int, width: int, needed: str = "a number") -> float:
    text = _text(data, start, width)
    try:
        return float(text.replace(",", "."))  # some writers use the decimal mark of their country
    except ValueError:
        raise Damaged(f"gives {text!r} as its {name}, and {needed} is needed") from None


def _whole(data: bytes, name: str, start: int, width: int) -> int:
    value = _number(data, name, start, width, "a whole number")
    if not value.is_integer():
        raise Damaged(f"gives {_text(data, start, width)!r} as its {name}, and a whole number is needed")
    return int(value)


def _start(fixed: bytes) -> datetime | None:
    """The start of the recording in local time; None where the file has none, or an invalid one."""
    parts = re.fullmatch(rb"(\d\d)\.(\d\d)\.(\d\d|yy)(\d\d)[.:](\d\d)[.:](\d\d)", fixed[168:184])
    if parts is None:
        return None
    day, month, year, hour, minute, second = (0 if part == b"yy" else int(part) for part in parts.groups())
    year += 1900 if year >= 85 else 2000  # so says EDF; EDF+ has the year in full besides
    full = re.match(r"Startdate (\d\d)-([A-Z]{3})-(\d{4})", fixed[88:168].decode("latin-1"), re.IGNORECASE)
    if full is not None and full[2].upper() in _MONTHS:
        day, month, year = int(full[1]), 1 + _MONTHS.index(full[2].upper()), int(full[3])
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None


def _annotations(path: str, header: Header, n_records: int) -> tuple[NDArray[np.float64], list[Annotation], list[str]]:
    """Seconds from the start in the header to that of each record (NaN if unknown), the annotations, notes on them."""
    onsets = np.full(n_records, np.nan)
    annotations: list[Annotation] = []
    unreadable = 0
    for record, place, text in _texts(path, header, n_records):
        for number, piece in enumerate(filter(None, text.split(b"\0"))):
            try:
                onset, duration, texts = _parse(piece)
            except ValueError:
                unreadable += 1
                continue
            if place == 0 and number == 0 and texts[:1] == [""]:
                onsets[record] = onset
            annotations += [Annotation(onset, duration, text) for text in texts if text]
    notes = [f"{unreadable} annotations could not be understood"] if unreadable else []
    return onsets, sorted(annotations, key=lambda mark: mark.onset_s), notes


def _texts(path: str, header: Header, n_records: int) -> Iterator[tuple[int, int, bytes]]:
    """Each record's bytes of each annotation signal: the number of the record and of the signal among its like."""
    entries = [entry for entry in header.entries if entry.is_annotations]
    for first in range(0, n_records if entries else 0, _RECORDS):
        shape = (min(_RECORDS, n_records - first), header.record_bytes)
        # A map, given back after each piece: only the pages with text in them are read, and none are kept.
        records = np.memmap(path, np.uint8, "r", header.bytes + first * header.record_bytes, shape)
        for place, entry in enumerate(entries):
            width = entry.samples * header.sample_bytes
            for i, row in enumerate(np.array(records[:, entry.offset : entry.offset + width])):
                yield first + i, place, row.tobytes()


def _parse(piece: bytes) -> tuple[float, float, list[str]]:
    """Onset, duration and texts of one list of annotations; a ValueError where it is none."""
    head, *texts = piece.split(b"\x14")
    onset, _, duration = head.partition(b"\x15")
    times = float(onset), float(duration or 0)
    if onset[:1] not in (b"+", b"-") or not texts or not np.isfinite(times).all():
        raise ValueError
    return *times, [decoded(text) for text in (texts if texts[-1] else texts[:-1])]


def open(path: str, *, truncated: Truncated = "refuse") -> Recording:
    """A recording in EDF, EDF+ (with breaks or without), BDF or BDF+.

    With ``truncated="keep"``, the whole records that are there are read when the header declares another number.
    """
    header = Header(path)
    n_records, notes = _records_present(path, header, truncated)
    if n_records == 0:
        raise Damaged("holds a header and not one whole record behind it")
    onsets, annotations, more = _annotations(path, header, n_records)
    stretches, breaks = _stretches(header, onsets)
    begun = stretches[0].start_s  # a fraction of a second after the start in the header
    labels = [entry.label for entry in header.ordinary]
    names, renamed = distinct(labels)
    units = [entry.unit if entry.has_range else "" for entry in header.ordinary]
    channels = list(map(Channel, names, units, kinds_of(labels)))
    signals: list[Any] = []
    for group in grouped(zip(header.ordinary, channels, strict=True), lambda item: item[0].samples):
        source = EdfSource(path, header, [entry for entry, _ in group])
        rows = [Stretch(s.first * source.samples, s.n * source.samples, s.start_s) for s in stretches]
        sampling = Sampling(source.samples / header.record_s, rows)
        signals += sampling.signals(source, [channel for _, channel in group], -begun)
    notes += [*more, *breaks, *renamed]
    notes += [
        f"channel {entry.label!r} declares a physical range of nothing ({entry.physical[0]:g} to "
        f"{entry.physical[1]:g} {entry.unit}); its samples are as stored, without a unit"
        for entry in header.ordinary
        if not entry.has_range
    ]
    start = header.start + timedelta(seconds=begun) if header.start else None
    marks = tuple(replace(mark, onset_s=mark.onset_s - begun) for mark in annotations)
    return Recording(path, header.format, tuple(signals), start, marks, tuple(notes))


class EdfSource(Source):
    """Channels of one rate. Holds no open file: may be pickled, and read from many threads."""

    def __init__(self, path: str, header: Header, entries: Sequence[Entry]) -> None:
        self.path, self.format, self.header = path, header.format, header
        self.samples = entries[0].samples  # of a channel in a record
        self._offsets = [entry.offset for entry in entries]
        self._gain, self._bias = np.array([entry.scale for entry in entries]).T

    def read_single(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float32]:
        """Computed in single precision at once, which takes half the time: stored are 16 bits, or 24."""
        return self.read(first, last, columns, np.float32)

    @property
    def digital(self) -> Digital | None:
        """The numbers of EDF; those of BDF have 24 bits."""
        return Digital(np.dtype(np.int16), self._gain, self._bias) if self.header.sample_bytes == 2 else None

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.int16]:
        return self.read(first, last, columns, np.int16)

    def read(self, first: int, last: int, columns: Sequence[int], dtype: type = np.float64) -> NDArray:
        """Samples as float64 or float32 in the unit of each channel, or as int16 as they are in the file."""
        record_bytes = self.header.record_bytes
        if record_bytes > _SLAB:
            return self._read_channels(first, last, columns, dtype)
        record, end = first // self.samples, -(-last // self.samples)
        out: NDArray = np.empty(((end - record), self.samples, len(columns)), dtype)
        width, step = self.samples * self.header.sample_bytes, max(1, _SLAB // record_bytes)
        # Columns that lie side by side in a record are read together.
        edges = [i for i, (a, b) in enumerate(pairwise(self._offsets[c] for c in columns), 1) if b != a + width]
        for a in range(record, end, step):
            b = min(a + step, end)
            records = self._load(a * record_bytes, (b - a) * record_bytes).reshape(b - a, -1)
            for at, stop in pairwise([0, *edges, len(columns)]):
                begin = self._offsets[columns[at]]
                data = records[:, begin : begin + (stop - at) * width]
                self._convert(data, columns[at:stop], out[a - record : b - record, :, at:stop])
        skip = first - record * self.samples
        return out.reshape(-1, len(columns))[skip : skip + last - first]

    def _convert(self, data: NDArray[np.uint8], columns: Sequence[int], out: NDArray) -> None:
        """Fill out (records, samples, columns) from bytes (records, bytes) that have these columns side by side.

        Floats are in the unit of each channel.
        """
        is_short = self.header.sample_bytes == 2
        numbers = np.ascontiguousarray(data).view("<i2") if is_short else int24(data.reshape(len(data), -1, 3))
        by_sample = numbers.reshape(len(data), len(columns), -1).swapaxes(1, 2)
        if out.dtype.kind == "i":
            out[...] = by_sample
            return
        np.multiply(by_sample, self._gain[columns].astype(out.dtype), out=out, dtype=out.dtype, casting="same_kind")
        out += self._bias[columns].astype(out.dtype)

    def _read_channels(self, first: int, last: int, columns: Sequence[int], dtype: type) -> NDArray:
        """The same from records so long that only the part of each channel is read that is needed."""
        out: NDArray = np.empty((last - first, len(columns)), dtype)
        width = self.header.sample_bytes
        for record in range(first // self.samples, -(-last // self.samples)):
            start = record * self.samples
            a, b = max(first, start), min(last, start + self.samples)
            for place, column in enumerate(columns):
                offset = record * self.header.record_bytes + self._offsets[column] + (a - start) * width
                data = self._load(offset, (b - a) * width)
                self._convert(data[None], [column], out[None, a - first : b - first, place : place + 1])
        return out

    def _load(self, offset: int, count: int) -> NDArray[np.uint8]:
        # Not a map: its pages would count as memory of this process, as much as the file is long.
        data = np.fromfile(self.path, np.uint8, count, offset=self.header.bytes + offset)
        if len(data) < count:
            raise DataError(f"{self.path!r} has become shorter since it was opened: open it again.")
        return data


def _records_present(path: str, header: Header, truncated: Truncated) -> tuple[int, list[str]]:
    """How many whole records to read, and what to say about a length that is not what the header declares."""
    present, left = divmod(os.path.getsize(path) - header.bytes, header.record_bytes)
    if header.n_records == -1:
        return present, [f"the header does not say how many records there are; {present} whole ones were found"]
    if present == header.n_records:
        return present, [f"{left} bytes after the last record were left out"] if left else []
    is_short = present < header.n_records
    reason = "it was cut short" if is_short else "the header was never completed, or files were joined"
    rest = f" ({left} bytes of a broken record are left over)" if left else ""
    found = f"holds {present} whole records of {header.record_s:g} s, and its header declares {header.n_records}"
    return present, check_complete(path, truncated, f"{found}: {reason}{rest}", f"the {present} records")


def _stretches(header: Header, onsets: NDArray[np.float64]) -> tuple[list[Stretch], list[str]]:
    """The records, split where one does not begin when the one before it ended; and notes on what is wrong."""
    has_times = len(header.ordinary) < len(header.entries)
    if header.declares_breaks and not has_times:
        raise Damaged(
            f"declares breaks ({header.variant}) but has no annotation signal to say when its records began: "
            "annotations are needed, or continuous EDF+C"
        )
    if not header.ordinary or not has_times:
        return [Stretch(0, len(onsets), 0.0)], []
    half_sample = 0.5 * header.record_s / max(entry.samples for entry in header.ordinary)
    step = np.diff(onsets) - header.record_s
    early, silent = step < -half_sample, np.isnan(onsets)
    if silent.any() or early.any():
        if silent.any():
            found = f"{silent.sum()} of {len(onsets)} records do not say when they began"
        else:
            at = int(early.argmax())
            end_s = onsets[at] + header.record_s
            found = f"record {at + 2} began at {onsets[at + 1]:g} s, before record {at + 1} ended at {end_s:g} s"
        if header.declares_breaks:
            raise Damaged(f"is not consistent: {found}, and in {header.variant} the times must be known")
        whole = [Stretch(0, len(onsets), 0.0 if silent[0] else float(onsets[0]))]
        return whole, [f"{found}; as the header says that there are no breaks, they were read as one stretch"]
    edges = [0, *(np.flatnonzero(step > half_sample) + 1).tolist(), len(onsets)]
    stretches = [Stretch(a, b - a, float(onsets[a])) for a, b in pairwise(edges)]
    undeclared = len(stretches) > 1 and not header.declares_breaks
    return stretches, [f"{len(stretches) - 1} breaks were found that the header does not declare"] if undeclared else []

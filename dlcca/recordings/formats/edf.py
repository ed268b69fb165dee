"""EDF, EDF+, BDF and BDF+: polysomnography, EEG, and most of clinical neurophysiology.

Read by our own few lines, not through a library. MNE resamples all channels to the highest rate and joins the two
sides of a break (EDF+D); EDFlib refuses discontinuous files; all of them keep an open file or a map of it, which
cannot be sent to a worker. The format is a header of text and records of integers, so that little is lost.
The tests hold these lines against those libraries.

Samples come in the physical unit that the header names (uV, mmHg, ...), not in volts. Channels are grouped by rate:
one signal for each rate, and one for each unbroken stretch of a recording with breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.edf_annotations import read_marks
from dlcca.recordings.formats.edf_header import Entry, Header, read_header
from dlcca.recordings.formats.files import check_choice, check_file, check_span
from dlcca.recordings.formats.labels import distinct, kinds_of
from dlcca.recordings.formats.recording import Annotation, Channel, Digital, Recording, Signal

ENDINGS: tuple[str, ...] = (".edf", ".bdf")
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
        """The same from records so long that only the part of each channel is read that was asked for."""
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
    said = f"its header declares {header.n_records}"
    if truncated == "keep":
        cut = f"; {left} bytes of a broken one were left out" if left else ""
        return present, [f"{present} whole records were found and all were read, though {said}{cut}"]
    reason = (
        "it was cut short" if present < header.n_records else "the header was never completed, or files were joined"
    )
    raise DataError(
        f"{found}, and {said}: {reason}. Copy or export it again, or set truncated = 'keep' to read the {present}."
    )


def _timing(path: str, header: Header, n_records: int) -> tuple[list[Stretch], tuple[Annotation, ...], list[str]]:
    """The unbroken stretches, the annotations, and notes on what was amiss with either."""
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
    lied = len(stretches) > 1 and not header.declares_breaks
    return stretches, [f"{len(starts) - 1} breaks were found that the header does not declare"] if lied else []


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

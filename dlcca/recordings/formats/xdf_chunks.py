"""The chunks of an XDF file: a walk through them that keeps places and times, and reads samples from those places.

A file is ``XDF:`` and chunks, each ``[width of length][length][tag][content]``. Chunks of samples of all streams are
mixed in the order of their arrival; each sample may bring its own time, or follow the one before by the nominal step.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import BinaryIO
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError

FILE_HEADER, STREAM_HEADER, SAMPLES, CLOCK_OFFSET, BOUNDARY, STREAM_FOOTER = range(1, 7)
NUMBERS = {"int8": "<i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "float32": "<f4", "double64": "<f8"}


@dataclass
class Piece:
    """The times of consecutive samples without a break, as the sums from which a line is fitted."""

    first: int  # sample
    origin: float  # time of its first sample
    n: int = 0
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(4))  # of i, t, i i, i t

    def add(self, times: NDArray[np.float64]) -> None:
        i = np.arange(self.n, self.n + len(times), dtype=float)
        t = times - self.origin
        self.sums += [i.sum(), t.sum(), i @ i, i @ t]
        self.n += len(times)

    def line(self, step: float) -> tuple[float, float]:
        """Time of the first sample and seconds from one to the next, by least squares; `step` where there is one."""
        si, st, sii, sit = self.sums / self.n
        spread = sii - si * si
        slope = (sit - si * st) / spread if spread > 0 else step
        return float(self.origin + st - slope * si), float(slope)


@dataclass
class Stream:
    """One stream: its header, where its samples are, and when they were taken."""

    info: ElementTree.Element
    clock: list[tuple[float, float]] = field(default_factory=list)  # (time, what to add to it)
    places: list[int] = field(default_factory=list)  # of the first sample of each chunk, in bytes
    lengths: list[int] = field(default_factory=list)  # of its samples, in bytes
    counts: list[int] = field(default_factory=list)  # of its samples
    pieces: list[Piece] = field(default_factory=list)
    texts: list[tuple[float, str]] = field(default_factory=list)  # of markers
    declared: int | None = None  # samples, as the footer says
    last: float = 0.0

    def text(self, name: str) -> str:
        return (self.info.findtext(name) or "").strip()

    @property
    def name(self) -> str:
        return self.text("name") or "stream"

    @property
    def format(self) -> str:
        return self.text("channel_format")

    @property
    def rate(self) -> float:
        return float(self.text("nominal_srate") or 0)

    @property
    def n_channels(self) -> int:
        return int(self.text("channel_count") or 0)

    @property
    def n(self) -> int:
        return sum(self.counts)

    @property
    def step(self) -> float:
        return 1 / self.rate if self.rate > 0 else 0.0

    @property
    def is_markers(self) -> bool:
        """Text, or single whole numbers that come when they come."""
        return self.format == "string" or (self.rate == 0 and self.n_channels == 1 and self.format.startswith("int"))


@dataclass
class Contents:
    """All that one walk through a file finds."""

    header: ElementTree.Element | None
    streams: dict[int, Stream]
    notes: list[str]


def walk(path: str, *, keep: bool) -> Contents:
    """Read every chunk once; of the samples, only places, times and texts are kept."""
    contents = Contents(None, {}, [])
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        if file.read(4) != b"XDF:":
            raise DataError(
                f"{path!r} does not begin with b'XDF:': it is of another format, whatever its name ends with."
            )
        while file.tell() < size:
            begin = file.tell()
            try:
                _take(file, size, contents)
            except (_Broken, struct.error, ElementTree.ParseError, ValueError, KeyError) as error:
                found = f"the chunk at byte {begin} of {size} is broken or cut off ({error})"
                if not keep:
                    raise DataError(
                        f"{path!r}: {found}. Copy it again, or set truncated = 'keep' to read what is before it."
                    ) from error
                contents.notes.append(f"{found}; what is before it was read")
                break
    return contents


class _Broken(Exception):
    """A chunk that cannot be what it says."""


def _take(file: BinaryIO, size: int, contents: Contents) -> None:
    """Read one chunk and put what it says where it belongs."""
    length = _varlen(file)
    if length < 2 or file.tell() + length > size:
        raise _Broken(f"it declares {length} bytes, {size - file.tell()} are left")
    place = file.tell() + 6
    content = file.read(length)
    (tag,) = struct.unpack_from("<H", content)
    if tag == FILE_HEADER:
        contents.header = ElementTree.fromstring(content[2:].decode("utf-8", "replace"))
    if tag not in (STREAM_HEADER, SAMPLES, CLOCK_OFFSET, STREAM_FOOTER):
        return
    (number,) = struct.unpack_from("<I", content, 2)
    body = content[6:]
    if tag == STREAM_HEADER:
        contents.streams[number] = Stream(ElementTree.fromstring(body.decode("utf-8", "replace")))
        return
    stream = contents.streams.get(number)
    if stream is None:
        raise _Broken(f"it belongs to stream {number}, which has no header")
    if tag == CLOCK_OFFSET:
        time, offset = struct.unpack_from("<dd", body)
        stream.clock.append((time, offset))
    elif tag == STREAM_FOOTER:
        count = ElementTree.fromstring(body.decode("utf-8", "replace")).findtext("sample_count")
        stream.declared = int(count) if count else None
    else:
        _take_samples(stream, place, body)


def _varlen(file: BinaryIO) -> int:
    width = file.read(1)[0]
    if width not in (1, 4, 8):
        raise _Broken(f"its length is of {width} bytes, and 1, 4 or 8 are allowed")
    data = file.read(width)
    if len(data) < width:
        raise _Broken("the file ends in its length")
    return int.from_bytes(data, "little")


def _varlen_at(body: bytes, at: int) -> tuple[int, int]:
    """A number of variable width in a buffer, and where it ends."""
    width = body[at] if at < len(body) else 0
    if width not in (1, 4, 8) or at + 1 + width > len(body):
        raise _Broken("a number in it has a width that is none")
    return int.from_bytes(body[at + 1 : at + 1 + width], "little"), at + 1 + width


def _take_samples(stream: Stream, place: int, body: bytes) -> None:
    count, at = _varlen_at(body, 0)
    if not count:
        return
    if stream.format == "string":
        stamps = _take_texts(stream, body, at, count)
    elif stream.format in NUMBERS:
        stamps, values = parse(body[at:], count, stream.n_channels, stream.format)
        if stream.is_markers:
            times = _filled(stamps, stream.last, stream.step)
            stream.texts += [(float(time), str(value)) for time, value in zip(times, values[:, 0], strict=True)]
    else:
        raise _Broken(f"its samples are of format {stream.format!r}")
    times = _filled(stamps, stream.last, stream.step)
    _add_times(stream, times)
    stream.last = float(times[-1])
    stream.places.append(place + at)
    stream.lengths.append(len(body) - at)
    stream.counts.append(count)


def _take_texts(stream: Stream, body: bytes, at: int, count: int) -> NDArray[np.float64]:
    """Times of samples of text, NaN where not given; the texts are kept."""
    stamps = np.full(count, np.nan)
    last = stream.last
    for k in range(count):
        given = body[at] != 0
        if given:
            (stamps[k],) = struct.unpack_from("<d", body, at + 1)
        last = float(stamps[k]) if given else last + stream.step
        at += 9 if given else 1
        words = []
        for _ in range(stream.n_channels):
            length, at = _varlen_at(body, at)
            if at + length > len(body):
                raise _Broken("a text in it is longer than it")
            words.append(body[at : at + length].decode("utf-8", "replace"))
            at += length
        stream.texts.append((last, ", ".join(words)))
    return stamps


def parse(data: bytes, count: int, n_channels: int, format: str) -> tuple[NDArray[np.float64], NDArray[np.number]]:
    """Times, NaN where not given, and values (count, n_channels) of the samples of a chunk."""
    with_time, without = _rows(n_channels, format)
    n_times, left = divmod(len(data) - count * without.itemsize, 8)
    if left or not 0 <= n_times <= count:
        raise _Broken(f"its {count} samples cannot have {len(data)} bytes")
    if n_times == count:  # one of the two ways in which recorders write
        rows = np.frombuffer(data, with_time)
        if rows["width"].all():
            return rows["time"], rows["values"]
    elif n_times == 1 and data[0]:  # and the other
        first, rest = np.frombuffer(data, with_time, 1), np.frombuffer(data, without, offset=with_time.itemsize)
        if not rest["width"].any():
            values = np.concatenate([first["values"], rest["values"]])
            return np.concatenate([first["time"], np.full(count - 1, np.nan)]), values
    return _parse_mixed(data, count, n_channels, format)


def _parse_mixed(
    data: bytes, count: int, n_channels: int, format: str
) -> tuple[NDArray[np.float64], NDArray[np.number]]:
    """The same, sample by sample."""
    with_time, without = _rows(n_channels, format)
    times, values = np.full(count, np.nan), np.empty((count, n_channels), NUMBERS[format])
    at = 0
    for k in range(count):
        row = with_time if at < len(data) and data[at] else without
        if at + row.itemsize > len(data):
            raise _Broken("it has fewer samples than it declares")
        (sample,) = np.frombuffer(data, row, 1, at)
        values[k] = sample["values"]
        if row is with_time:
            times[k] = sample["time"]
        at += row.itemsize
    return times, values


@cache
def _rows(n_channels: int, format: str) -> tuple[np.dtype, np.dtype]:
    """A sample that brings its time, and one that does not."""
    values = ("values", NUMBERS[format], (n_channels,))
    return np.dtype([("width", "u1"), ("time", "<f8"), values]), np.dtype([("width", "u1"), values])


def read_numbers(path: str, chunks: Iterator[tuple[int, int, int]], n_channels: int, format: str) -> Iterator[NDArray]:
    """The values of chunks given by place, bytes and count."""
    with open(path, "rb") as file:
        for place, length, count in chunks:
            file.seek(place)
            data = file.read(length)
            if len(data) < length:
                raise DataError(f"{path!r} has become shorter since it was opened: open it again.")
            yield parse(data, count, n_channels, format)[1]


def _filled(stamps: NDArray[np.float64], last: float, step: float) -> NDArray[np.float64]:
    """Times of all samples: one that brings none follows the one before it by the nominal step."""
    given = ~np.isnan(stamps)
    if given.all():
        return stamps
    k = np.arange(len(stamps))
    source = np.maximum.accumulate(np.where(given, k, -1))  # the latest sample that brought its time
    return np.where(source < 0, last, stamps[source]) + (k - source) * step


def _add_times(stream: Stream, times: NDArray[np.float64]) -> None:
    """Put times to the pieces, a new one after each break: as in pyxdf, 1 s, or 500 samples if that is longer."""
    if not stream.pieces:
        stream.pieces.append(Piece(0, float(times[0])))
        stream.last = float(times[0])
    steps = np.diff(times, prepend=stream.last)
    breaks = np.flatnonzero(np.abs(steps) > max(1.0, 500 * stream.step)) if stream.rate > 0 else np.zeros(0, int)
    edges = [0, *breaks.tolist(), len(times)]
    for number, (a, b) in enumerate(pairwise(edges)):
        if number:
            stream.pieces.append(Piece(stream.pieces[-1].first + stream.pieces[-1].n, float(times[a])))
        stream.pieces[-1].add(times[a:b])

"""XDF: streams of the Lab Streaming Layer, each with a clock of its own.

Read without a library: pyxdf reads whole files into memory, sample by sample. Times are computed as pyxdf does, and
the tests compare the two: the offsets of a stream's clock against the recorder's are fitted by a line, the
times of its samples between breaks by another. Its slope is the drift of the signal, whose rate is the nominal one.

The recording starts with the first sample of a signal; its date is when the recorder was started, as good as XDF knows.
"""

import builtins
import os
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import BinaryIO
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import Truncated, check_beginning, check_complete
from dlcca.recordings.formats.metadata import distinct, kind_of, moment
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Source, SourceSignal

FORMAT = "XDF"
FILE_HEADER, STREAM_HEADER, SAMPLES, CLOCK_OFFSET, BOUNDARY, STREAM_FOOTER = range(1, 7)
NUMBERS = {"int8": "<i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "float32": "<f4", "double64": "<f8"}


class Piece:
    """The times of consecutive samples without a break, as the sums from which a line is fitted."""

    def __init__(self, first: int, origin: float) -> None:
        self.first, self.origin, self.n = first, origin, 0  # its first sample and the time of it, and how many
        self.sums = np.zeros(4)  # of i, t, i i, i t

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


class Stream:
    """One stream: its header, where its samples are, and when they were taken."""

    declared: int | None = None  # samples, as the footer says
    last = 0.0

    def __init__(self, info: ElementTree.Element) -> None:
        self.info = info
        self.clock: list[tuple[float, float]] = []  # (time, what to add to it)
        self.chunks: list[tuple[int, int, int]] = []  # place and length in bytes, samples
        self.pieces: list[Piece] = []
        self.texts: list[tuple[float, str]] = []  # of markers
        self.name, self.format = self.text("name") or "stream", self.text("channel_format")
        self.rate, self.n_channels = float(self.text("nominal_srate") or 0), int(self.text("channel_count") or 0)
        self.step = 1 / self.rate if self.rate > 0 else 0.0

    def text(self, name: str) -> str:
        return (self.info.findtext(name) or "").strip()

    @property
    def n(self) -> int:
        """Samples that were found."""
        return sum(piece.n for piece in self.pieces)

    @property
    def is_markers(self) -> bool:
        """Text, or single integers at irregular times."""
        return self.format == "string" or (self.rate == 0 and self.n_channels == 1 and self.format.startswith("int"))


def walk(path: str, truncated: Truncated) -> tuple[ElementTree.Element | None, list[Stream], list[str]]:
    """The header of a file, its streams and notes; of the samples, only places, times and texts are kept."""
    header: ElementTree.Element | None = None
    streams: dict[int, Stream] = {}
    size = os.path.getsize(path)
    with builtins.open(path, "rb") as file:
        check_beginning(path, file.read(4), FORMAT, b"XDF:")
        while file.tell() < size:
            begin = file.tell()
            try:
                tag, place, content = _chunk(file, size)
                if tag == FILE_HEADER:
                    header = _xml(content)
                elif tag in (STREAM_HEADER, SAMPLES, CLOCK_OFFSET, STREAM_FOOTER):
                    _take(streams, tag, place + 4, content)
            except (struct.error, ElementTree.ParseError, ValueError, LookupError) as error:
                found = f"has a chunk at byte {begin} of {size} that is broken or cut off ({error})"
                return header, list(streams.values()), check_complete(path, truncated, found, "the chunks before it")
    return header, list(streams.values()), []


def _xml(text: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(text.decode("utf-8", "replace"))


def _chunk(file: BinaryIO, size: int) -> tuple[int, int, bytes]:
    """The kind of the next chunk, the place of its content, and the content."""
    begin = file.tell()
    length, width = _varlen(file.read(9), 0)
    file.seek(begin + width)
    if length < 2 or file.tell() + length > size:
        raise ValueError(f"it declares {length} bytes, {size - file.tell()} are left")
    content = file.read(length)
    return int.from_bytes(content[:2], "little"), begin + width + 2, content[2:]


def _take(streams: dict[int, Stream], tag: int, place: int, content: bytes) -> None:
    """Add the content of a chunk to its stream."""
    (number,) = struct.unpack_from("<I", content)
    body = content[4:]
    if tag == STREAM_HEADER:
        streams[number] = Stream(_xml(body))
        return
    if number not in streams:
        raise ValueError(f"it belongs to stream {number}, which has no header")
    stream = streams[number]
    if tag == CLOCK_OFFSET:
        time, offset = struct.unpack_from("<dd", body)
        stream.clock.append((time, offset))
    elif tag == STREAM_FOOTER:
        count = _xml(body).findtext("sample_count")
        stream.declared = int(count) if count else None
    else:
        _take_samples(stream, place, body)


def _varlen(body: bytes, at: int) -> tuple[int, int]:
    """A number of variable width in a buffer, and where it ends."""
    width = body[at] if at < len(body) else 0
    if width not in (1, 4, 8):
        raise ValueError(f"a length in it is of {width} bytes, and 1, 4 or 8 are allowed")
    if at + 1 + width > len(body):
        raise ValueError("it ends within a length")
    return int.from_bytes(body[at + 1 : at + 1 + width], "little"), at + 1 + width


def _take_samples(stream: Stream, place: int, body: bytes) -> None:
    count, at = _varlen(body, 0)
    if not count:
        return
    values: NDArray
    if stream.format == "string":
        stamps, values = _texts(body, at, count, stream.n_channels)
    elif stream.format in NUMBERS:
        stamps, values = parse(body[at:], count, stream.n_channels, stream.format)
    else:
        raise ValueError(f"its samples are of format {stream.format!r}")
    times, missing = stamps, np.isnan(stamps)
    if missing.any():  # a sample without a time follows the one before it by the nominal step
        k = np.arange(count)
        latest = np.maximum.accumulate(np.where(missing, -1, k))  # sample with a time
        times = np.where(latest < 0, stream.last, stamps[latest]) + (k - latest) * stream.step
    if stream.is_markers:
        stream.texts += zip(times.tolist(), map(str, values[:, 0]), strict=True)
    _add_times(stream, times)
    stream.last = float(times[-1])
    stream.chunks.append((place + at, len(body) - at, count))


def _texts(body: bytes, at: int, count: int, n_channels: int) -> tuple[NDArray[np.float64], NDArray]:
    """Times of samples of text, NaN where not given, and their texts (count, 1)."""
    stamps, texts = np.full(count, np.nan), np.empty((count, 1), object)
    for k in range(count):
        at += 1
        if body[at - 1]:
            (stamps[k],) = struct.unpack_from("<d", body, at)
            at += 8
        words = []
        for _ in range(n_channels):
            length, at = _varlen(body, at)
            if at + length > len(body):
                raise ValueError("a text in it is longer than it")
            words.append(body[at : at + length].decode("utf-8", "replace"))
            at += length
        texts[k] = ", ".join(words)
    return stamps, texts


def parse(data: bytes, count: int, n_channels: int, format: str) -> tuple[NDArray[np.float64], NDArray[np.number]]:
    """Times, NaN where not given, and values (count, n_channels) of the samples of a chunk."""
    of_values = ("values", NUMBERS[format], (n_channels,))
    with_time, without = np.dtype([("width", "u1"), ("time", "<f8"), of_values]), np.dtype([("width", "u1"), of_values])
    n_times, left = divmod(len(data) - count * without.itemsize, 8)
    if left or not 0 <= n_times <= count:
        raise ValueError(f"its {count} samples cannot have {len(data)} bytes")
    # Recorders give the times of all samples of a chunk, or that of the first.
    timed = np.frombuffer(data, with_time, n_times)
    rest = np.frombuffer(data, without, count - n_times, n_times * with_time.itemsize)
    if timed["width"].all() and not rest["width"].any():
        times = np.concatenate([timed["time"], np.full(len(rest), np.nan)])
        return times, np.concatenate([timed["values"], rest["values"]])
    times, values = np.full(count, np.nan), np.empty((count, n_channels), NUMBERS[format])
    at = 0
    for k in range(count):  # sample by sample
        row = with_time if at < len(data) and data[at] else without
        if at + row.itemsize > len(data):
            raise ValueError("it has fewer samples than it declares")
        (sample,) = np.frombuffer(data, row, 1, at)
        values[k] = sample["values"]
        if row is with_time:
            times[k] = sample["time"]
        at += row.itemsize
    return times, values


def _add_times(stream: Stream, times: NDArray[np.float64]) -> None:
    """Put times to the pieces, a new one after each break: as in pyxdf, 1 s, or 500 samples if that is longer."""
    if not stream.pieces:
        stream.pieces.append(Piece(0, float(times[0])))
        stream.last = float(times[0])
    steps = np.diff(times, prepend=stream.last)
    breaks = np.flatnonzero(np.abs(steps) > max(1.0, 500 * stream.step)) if stream.rate > 0 else np.zeros(0, int)
    for number, part in enumerate(np.split(times, breaks)):
        if number:
            stream.pieces.append(Piece(stream.pieces[-1].first + stream.pieces[-1].n, float(part[0])))
        stream.pieces[-1].add(part)


_HUBER_S = 1e-4  # clock offsets farther than this from the line were delayed by the network, and count less


def open(path: str, *, truncated: Truncated = "refuse") -> Recording:
    """A recording in XDF: evenly sampled streams are signals, markers are annotations.

    With ``truncated="keep"``, what comes before the first broken chunk is read.
    """
    header, streams, notes = walk(path, truncated)
    if not streams:
        raise DataError(f"{path!r} holds no stream: record it again.")
    for stream in streams:
        notes += _doubts(path, stream, truncated)
    sampled = [stream for stream in streams if not _why_not(stream)]
    notes += [f"stream {s.name!r} was left out: {_why_not(s)}" for s in streams if _why_not(s) and not s.is_markers]
    every, renamed = _channels(sampled)
    signals: list[SourceSignal] = []
    for stream, channels in zip(sampled, every, strict=True):
        source, clock = XdfSource(path, stream), RecorderClock(stream)
        for piece in stream.pieces:
            start, step = piece.line(stream.step)
            drift = (step * clock.speed * stream.rate - 1) * 1e6
            rest = stream.rate, piece.n, piece.first, clock.time(start), drift
            signals.append(SourceSignal(source, tuple(channels), *rest))
    marks: list[tuple[float, str]] = []
    for stream in streams:
        if stream.is_markers:
            clock = RecorderClock(stream)
            marks += [(clock.time(time), text) for time, text in stream.texts]
    marks.sort(key=itemgetter(0))
    if not signals and not marks:
        raise DataError(f"{path!r} holds nothing that can be a view: {'; '.join(notes) or 'its markers are none'}.")
    begun = min(signal.start_s for signal in signals) if signals else marks[0][0]
    for signal in signals:
        signal.start_s -= begun
    when = None if header is None else moment(header.findtext("datetime"))
    annotations = tuple(Annotation(time - begun, 0.0, text) for time, text in marks)
    return Recording(path, FORMAT, tuple(signals), when, annotations, (*notes, *renamed))


class XdfSource(Source):
    """The samples of one stream. Holds no open file: may be pickled, and read from many threads."""

    def __init__(self, path: str, stream: Stream) -> None:
        self.path, self.format = path, FORMAT
        self.stored_as, self.n_channels = stream.format, stream.n_channels
        self.chunks = stream.chunks
        self.edges = np.cumsum([0, *(count for *_, count in self.chunks)])  # their first samples, and the end

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float64]:
        out = np.empty((last - first, len(columns)))
        begin = int(np.searchsorted(self.edges, first, "right")) - 1
        end = int(np.searchsorted(self.edges, last, "left"))
        with builtins.open(self.path, "rb") as file:
            for edge, (place, length, count) in zip(self.edges[begin:end], self.chunks[begin:end], strict=True):
                file.seek(place)
                data = file.read(length)
                if len(data) < length:
                    raise DataError(f"{self.path!r} has become shorter since it was opened: open it again.")
                values = parse(data, count, self.n_channels, self.stored_as)[1]
                low, high = max(first, edge), min(last, edge + count)
                out[low - first : high - first] = values[low - edge : high - edge, columns]
        return out


def _why_not(stream: Stream) -> str:
    """Why a stream is not a signal; empty if it is one."""
    if stream.is_markers:
        return "it holds markers"
    if stream.format not in NUMBERS:
        return f"its samples are of format {stream.format!r}"
    if stream.n_channels < 1:
        return f"it declares {stream.n_channels} channels"
    if not 0 < stream.rate < np.inf:
        return f"its rate is {stream.rate:g}, so its samples came unevenly; resample it to an even rate to use it"
    if not stream.n:
        return "it has no samples"
    return ""


def _doubts(path: str, stream: Stream, truncated: Truncated) -> list[str]:
    """Refuse a stream whose count or clock cannot be true; note what is odd about it."""
    if stream.declared not in (None, stream.n):
        found = f"holds {stream.n} samples of stream {stream.name!r}, and its footer declares {stream.declared}"
        return check_complete(path, truncated, found, f"the {stream.n} samples")
    for before, after in pairwise(stream.pieces):
        if after.origin < before.origin + 0.5 * (before.n - 1) * stream.step:
            raise DataError(
                f"{path!r}: the time of stream {stream.name!r} goes backwards at sample {after.first}, to "
                f"{after.origin:.6f} s: its clock was set back. Cut the file there with the recorder's tools."
            )
    if _why_not(stream):
        return []
    steps = [piece.line(stream.step)[1] for piece in stream.pieces if piece.n > 1]
    odd = [step for step in steps if abs(step * stream.rate - 1) > 0.1]
    return [f"stream {stream.name!r} runs at {1 / odd[0]:g} Hz, and declares {stream.rate:g}"] if odd else []


class RecorderClock:
    """Times of a stream into those of the recorder's clock: a line through the offsets that were measured."""

    def __init__(self, stream: Stream) -> None:
        at, offset = np.array(stream.clock or [(0.0, 0.0)]).T
        self._origin = float(at[0])
        slope, self._height = map(float, _robust_line(at - at[0], offset))
        self.speed = 1 + slope  # seconds of the recorder in a second of the stream

    def time(self, time: float) -> float:
        return time + self._height + (self.speed - 1) * (time - self._origin)


def _robust_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slope and height of a line through points of which some are far too high or low (Huber, by reweighting)."""
    if len(x) < 2 or np.ptp(x) == 0:
        return np.array([0.0, np.median(y)])
    weights = np.ones(len(x))
    for _ in range(50):
        line = np.polyfit(x, y, 1, w=np.sqrt(weights))
        weights = np.minimum(1, _HUBER_S / np.maximum(np.abs(y - np.polyval(line, x)), 1e-12))
    return line


def _channels(streams: Sequence[Stream]) -> tuple[list[list[Channel]], list[str]]:
    """The channels of each stream; with the name of the stream before theirs where two streams share a name."""
    every = [_labelled(stream) for stream in streams]
    counts = Counter(label for own in every for label in {channel.name for channel in own})
    full = [
        f"{stream.name}/{channel.name}" if counts[channel.name] > 1 else channel.name
        for stream, own in zip(streams, every, strict=True)
        for channel in own
    ]
    names, notes = distinct(full)
    given = iter(names)
    return [[replace(channel, name=next(given)) for channel in own] for own in every], notes


def _labelled(stream: Stream) -> list[Channel]:
    """The channels as the header of their stream describes them."""
    n, described = stream.n_channels, stream.info.findall("desc/channels/channel")
    if len(described) != n:
        described = [ElementTree.Element("channel")] * n
    labels, units, types = (
        [(channel.findtext(key) or "").strip() for channel in described] for key in ("label", "unit", "type")
    )
    if not all(labels):
        labels = [stream.name] if n == 1 else [f"{stream.name}/{i}" for i in range(n)]
    kinds = [kind or stream.text("type") for kind in types]
    return list(map(Channel, labels, units, (kind_of(kind) or kind.lower() for kind in kinds)))

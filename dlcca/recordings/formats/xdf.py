"""XDF: streams of the Lab Streaming Layer, each with a clock of its own.

Read by our own lines: pyxdf takes whole files into memory, sample by sample. Times are made as pyxdf makes them, and
the tests hold these lines against it: the offsets of a stream's clock against the recorder's are fitted by a line, the
times of its samples between breaks by another. Its slope is the drift of the signal, whose rate is the nominal one.

The recording starts with the first sample of a signal; its date is when the recorder was started, as good as XDF knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.files import check_choice, check_file, check_span, refusing
from dlcca.recordings.formats.labels import distinct, kind_of
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Signal
from dlcca.recordings.formats.xdf_chunks import NUMBERS, Contents, Piece, Stream, read_numbers, walk

ENDINGS: tuple[str, ...] = (".xdf",)
FORMAT = "XDF"

_HUBER_S = 1e-4  # clock offsets farther than this from the line were delayed by the network, and count less


def open(path: str, *, truncated: str = "refuse") -> Recording:
    """A recording in XDF: evenly sampled streams are signals, markers are annotations.

    Parameters
    ----------
    truncated : "refuse", or "keep" to read what comes before the first broken chunk
    """
    check_choice("truncated", truncated, ("refuse", "keep"))
    check_file(path, FORMAT)
    with refusing(path, FORMAT):
        contents = walk(path, keep=truncated == "keep")
        return _recording(path, contents, keep=truncated == "keep")


def _recording(path: str, contents: Contents, *, keep: bool) -> Recording:
    streams = list(contents.streams.values())
    if not streams:
        raise DataError(f"{path!r} holds no stream: record it again.")
    notes = [*contents.notes, *(note for stream in streams for note in _doubts(path, stream, keep))]
    sampled = [stream for stream in streams if not _why_not(stream)]
    names, renamed = _channel_names(sampled)
    signals = [
        XdfSignal(path, stream, clock, channels, piece)
        for stream, clock, channels in zip(sampled, map(RecorderClock, sampled), names, strict=True)
        for piece in stream.pieces
    ]
    marks = [mark for stream in streams if stream.is_markers for mark in _marks(stream)]
    left_out = [f"stream {s.name!r} was left out: {_why_not(s)}" for s in streams if _why_not(s) and not s.is_markers]
    if not signals and not marks:
        raise DataError(f"{path!r} holds nothing that can be a view: {'; '.join(left_out) or 'its markers are none'}.")
    begun = min((signal.start_s for signal in signals), default=min((mark.onset_s for mark in marks), default=0.0))
    for signal in signals:
        signal.start_s -= begun
    return Recording(
        path=path,
        format=FORMAT,
        signals=tuple(signals),
        start=_start(contents),
        annotations=tuple(sorted((Annotation(m.onset_s - begun, 0.0, m.text) for m in marks), key=_onset)),
        notes=(*notes, *left_out, *renamed),
    )


def _onset(mark: Annotation) -> float:
    return mark.onset_s


class XdfSignal(Signal):
    """One stream between two breaks. Holds no open file: may be pickled, and read from many threads."""

    def __init__(
        self, path: str, stream: Stream, clock: RecorderClock, channels: Sequence[Channel], piece: Piece
    ) -> None:
        start, step = piece.line(stream.step)
        self.channels = tuple(channels)
        self.rate = stream.rate
        self.n = piece.n
        self.start_s = clock.time(start)
        self.drift_ppm = (step * clock.speed * stream.rate - 1) * 1e6
        self._path = path
        self._format = stream.format
        self._first = piece.first
        self._places, self._lengths = np.array(stream.places), np.array(stream.lengths)
        self._ends = np.cumsum(stream.counts)

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float64]:
        check_span(self, first, last)
        columns = list(columns)
        out = np.empty((last - first, len(columns)))
        if first == last or not columns:
            return out
        a, b = self._first + first, self._first + last
        chunks = range(int(np.searchsorted(self._ends, a, "right")), int(np.searchsorted(self._ends, b, "left")) + 1)
        counts = np.diff(self._ends, prepend=0)
        places = ((int(self._places[c]), int(self._lengths[c]), int(counts[c])) for c in chunks)
        for c, values in zip(chunks, read_numbers(self._path, places, len(self.channels), self._format), strict=True):
            begin = int(self._ends[c]) - len(values)  # the number of its first sample in the stream
            low, high = max(a, begin), min(b, begin + len(values))
            out[low - a : high - a] = values[low - begin : high - begin, columns]
        return out


def _marks(stream: Stream) -> list[Annotation]:
    clock = RecorderClock(stream)
    return [Annotation(clock.time(time), 0.0, text) for time, text in stream.texts]


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


def _doubts(path: str, stream: Stream, keep: bool) -> list[str]:
    """Refuse a stream whose count or clock cannot be true; note what is odd about it."""
    if stream.declared is not None and stream.declared != stream.n:
        found = f"stream {stream.name!r} holds {stream.n} samples, and its footer declares {stream.declared}"
        if not keep:
            raise DataError(f"{path!r}: {found}. Copy it again, or set truncated = 'keep' to read the {stream.n}.")
        return [found]
    for before, after in zip(stream.pieces, stream.pieces[1:], strict=False):
        if after.origin < before.origin + 0.5 * (before.n - 1) * stream.step:
            raise DataError(
                f"{path!r}: the time of stream {stream.name!r} goes backwards at sample {after.first}, to "
                f"{after.origin:.6f} s: its clock was set back. Cut the file there with the recorder's tools."
            )
    if stream.is_markers or _why_not(stream):
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


def _channel_names(streams: Sequence[Stream]) -> tuple[list[list[Channel]], list[str]]:
    """The channels of each stream; with the name of the stream before theirs where two streams share a name."""
    labels = [_labels(stream) for stream in streams]
    counts = Counter(label for own in labels for label in set(own))
    full = [
        f"{stream.name}/{label}" if counts[label] > 1 else label
        for stream, own in zip(streams, labels, strict=True)
        for label in own
    ]
    names, notes = distinct(full)
    given = iter(names)
    return [[_channel(stream, i, next(given)) for i in range(stream.n_channels)] for stream in streams], notes


def _labels(stream: Stream) -> list[str]:
    described = stream.info.findall("desc/channels/channel")
    labels = [(channel.findtext("label") or "").strip() for channel in described]
    if len(labels) == stream.n_channels and all(labels):
        return labels
    return [stream.name] if stream.n_channels == 1 else [f"{stream.name}/{i}" for i in range(stream.n_channels)]


def _channel(stream: Stream, i: int, name: str) -> Channel:
    described = stream.info.findall("desc/channels/channel")
    own = described[i] if len(described) == stream.n_channels else None
    unit = (own.findtext("unit") or "") if own is not None else ""
    kind = ((own.findtext("type") or "") if own is not None else "") or stream.text("type")
    return Channel(name, unit.strip(), kind_of(kind) or kind.strip().lower())


def _start(contents: Contents) -> datetime | None:
    text = (contents.header.findtext("datetime") or "") if contents.header is not None else ""
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return when.astimezone(UTC) if when.tzinfo else when

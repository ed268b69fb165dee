"""Video: each frame is a sample, each pixel a channel, in grey or in three colours, as a whole or made small."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.checks import Truncated, check_complete, optional
from dlcca.recordings.formats.clock import Clock
from dlcca.recordings.formats.metadata import from_options, moment
from dlcca.recordings.formats.recording import Channel, ProcessLocal, Recording, Sampling, Source

FORMAT = "video"

# Containers in which each packet has its time. In others (MPEG streams) times are made up while reading on, and those
# after a jump are not to be trusted: there, every read that does not go on begins at the first frame.
_INDEXED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi")

# Key frames tried before a frame is given up. Frames that refer to frames before their key frame need one or two.
_KEYS_BACK = 8


class FrameIndex:
    """When each frame is shown, in the order in which they are shown, and which can be decoded alone.

    It is made from the packets of the first video stream without decoding one of them: the number of frames that a
    container declares is often an estimate.
    """

    def __init__(self, container: Any) -> None:
        stream = container.streams.video[0]
        times: list[Any] = []
        keys, hidden, damaged = [], 0, 0
        for packet in container.demux(stream):
            if not packet.size:
                continue  # the last one, which flushes the decoder
            damaged += packet.is_corrupt
            hidden += packet.is_discard  # cut away by an edit list: never shown
            if not (packet.is_discard or packet.is_corrupt):
                times.append(packet.pts)
                keys.append(packet.is_keyframe)
        self.n, order = len(times), np.arange(len(times))
        self.pts: NDArray[np.int64] | None = None  # (n,), in ticks of the stream; None where the container has no times
        if self.n and None not in times and len(set(times)) == self.n:
            order = np.argsort(times)  # packets are stored in the order in which they are decoded
            self.pts = np.array(times, np.int64)[order]
        # Whether a frame can be reached from the key frame before it; and the numbers of the key frames.
        self.seekable = self.pts is not None and container.format.name in _INDEXED
        self.keys = np.flatnonzero(np.array(keys)[order]) if self.seekable else np.zeros(1, np.int64)
        self.tick_s = float(stream.time_base)
        self.rates = tuple(float(rate) for rate in (stream.average_rate, stream.base_rate) if rate)
        self.width, self.height = stream.codec_context.width, stream.codec_context.height
        bits = (component.bits for component in stream.format.components) if stream.format else ()
        self.bits = max(bits, default=8)  # of one colour of a pixel
        self.begun: str | None = {**container.metadata, **stream.metadata}.get("creation_time")  # ISO 8601
        self.faults: list[str] = []  # frames that the container declares and that are not there, or are cut off
        if stream.frames - hidden > self.n:
            self.faults.append(f"its container says {stream.frames - hidden} frames, and the file holds {self.n}")
        length_s = 0.0 if stream.frames else _length_s(container, stream)
        if self.pts is not None and self.n > 2 and length_s:
            step = float(np.median(np.diff(self.pts))) * self.tick_s
            missing = length_s - (float(self.pts[-1]) * self.tick_s + step)
            if missing > 1.5 * step:
                self.faults.append(f"it ends {missing:.6g} s before its container says")
        if damaged:
            self.faults.append(f"{damaged} of its frames are cut off or damaged")


def _length_s(container: Any, stream: Any) -> float:
    """When the video ends, as Matroska says it: in a tag of the stream, or for the file if there is no other stream."""
    try:
        hours, minutes, seconds = stream.metadata.get("DURATION", "").split(":")
        return 3600 * float(hours) + 60 * float(minutes) + float(seconds)
    except ValueError:
        return container.duration / 1e6 if container.duration and len(container.streams) == 1 else 0.0


class Frames(ProcessLocal):
    """A decoder that gives frames first to last as arrays (height, width) or (height, width, 3).

    It reads on where it was left; a frame elsewhere is reached from the key frame before it, and known by its time.
    Only one thread uses it at a time; a copy that was sent to another process opens the file again.
    """

    _container: Any = None
    _decoded: Iterator[tuple[int, Any]] = iter(())
    _next = -1  # the frame that the decoder gives next; -1: it has not been opened

    def __init__(self, path: str, index: FrameIndex, *, colour: bool) -> None:
        self.path, self.index, self.colour = path, index, colour

    def between(self, first: int, last: int) -> Iterator[NDArray[Any]]:
        """Frames first to last (not included)."""
        with self._lock:
            key = self._key_before(first)
            if first < last and not (self._next >= 0 and key <= self._next <= first):
                self._open_at(key, first)
            while first < last and self._next < first:  # decode on, which is nearer than the key frame
                self._take(self._next)
            for i in range(first, last):
                yield self._array(i, self._take(i))

    def _key_before(self, i: int) -> int:
        after = int(np.searchsorted(self.index.keys, i, side="right"))
        return int(self.index.keys[max(0, after - 1)])

    def _open_at(self, key: int, i: int) -> None:
        """Start decoding at a key frame; earlier, if what comes from there is already past frame i."""
        for _ in range(_KEYS_BACK):
            self._seek(key)
            found, frame = next(self._decoded, (self.index.n, None))
            earlier = self._key_before(key - 1)
            if found <= i or earlier >= key:  # the first key frame of a damaged video is not always frame 0
                break
            key = earlier
        if frame is None or found > i:
            raise DataError(f"{self.path!r}: frame {i} cannot be decoded; the first that can is {found}. Convert it.")
        self._decoded, self._next = chain([(found, frame)], self._decoded), found

    def _seek(self, key: int) -> None:
        av = optional("av", "video", FORMAT)
        if self._container is not None and key == 0:
            self._container.close()
            self._container = None
        if self._container is None:
            self._container = av.open(self.path)
            self._container.streams.video[0].thread_type = "AUTO"
            self._reformatter = av.video.reformatter.VideoReformatter()  # one for all: it is slow to make
        stream = self._container.streams.video[0]
        if key and self.index.pts is not None:
            self._container.seek(int(self.index.pts[key]), stream=stream, backward=True, any_frame=False)
        self._decoded = self._numbered(self._container.decode(stream))

    def _numbered(self, frames: Iterator[Any]) -> Iterator[tuple[int, Any]]:
        """Decoded frames with their numbers: by their time, or counted where the container has no times."""
        pts = self.index.pts
        if pts is None:
            yield from enumerate(frames)
            return
        for frame in frames:
            if frame.pts is None or frame.is_corrupt:
                continue
            number = int(np.searchsorted(pts, frame.pts))
            if number < len(pts) and pts[number] == frame.pts:
                yield number, frame

    def _take(self, i: int) -> Any:
        found, frame, why = self.index.n, None, ""
        try:
            found, frame = next(self._decoded, (found, frame))
        except OSError as error:  # what FFmpeg finds wrong with a packet
            why = f" ({error})"
        if frame is None or found != i:
            self._next = -1
            raise DataError(
                f"{self.path!r}: frame {i} of {self.index.n} cannot be decoded{why}: the video is damaged or cut off "
                "there. Copy or convert it again."
            )
        self._next = i + 1
        return frame

    def _array(self, i: int, frame: Any) -> NDArray[Any]:
        if (frame.width, frame.height) != (self.index.width, self.index.height):
            raise DataError(
                f"{self.path!r}: frame {i} is {frame.width} x {frame.height} pixels, frames before it are "
                f"{self.index.width} x {self.index.height}. All must have one size: cut the video there, or convert it."
            )
        deep = self.index.bits > 8
        wanted = ("rgb48le" if deep else "rgb24") if self.colour else ("gray16le" if deep else "gray")
        return self._reformatter.reformat(frame, format=wanted).to_ndarray()


_PROJECTION_BYTES = 1 << 28  # a projection up to this size is kept; a larger one is made anew for each batch of frames
_PIXELS = 1 << 14  # rows of the projection made at once
_BATCH_BYTES = 1 << 26  # of frames that are projected together


@dataclass(frozen=True)
class Shrinking:
    """Which pixels of a frame (height, width) or (height, width, colours) are kept, and at what size."""

    colours: int  # 1 or 3
    roi: tuple[int, ...]  # top, bottom, left, right; bottom and right not included
    scale: int = 1  # pixels along the side of a block that is averaged

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and colours that are left; rows and columns that do not fill a block are cut off."""
        top, bottom, left, right = self.roi
        return (bottom - top) // self.scale, (right - left) // self.scale, self.colours

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def of(self, frame: NDArray[np.integer]) -> NDArray[np.float32]:
        """The pixels that are left of a frame, row by row, (size,)."""
        rows, columns, colours = self.shape
        top, _, left, _ = self.roi
        s = self.scale
        part = frame[top : top + rows * s, left : left + columns * s]
        if s == 1:
            return part.reshape(-1).astype(np.float32)
        sums = part.reshape(rows, s, columns * s * colours).sum(axis=1, dtype=np.uint32)
        sums = sums.reshape(rows, columns, s, colours).sum(axis=2, dtype=np.uint32)
        return sums.reshape(-1).astype(np.float32) / np.float32(s * s)

    def names(self) -> list[str]:
        """A name for each pixel that is left: its row and column, and its colour where there are three."""
        letters = [""] if self.colours == 1 else [".r", ".g", ".b"]
        return [f"{i}.{j}{letters[c]}" for i, j, c in np.ndindex(self.shape)]


def random_projection(D: int, d: int, seed: int) -> Iterator[NDArray[np.float32]]:
    r"""A random projection from D numbers to d: :math:`y = x R`, entries of R normal with variance 1/d.

    Distances are kept up to a factor of about :math:`1 \pm 1/\sqrt{2d}`. R is made in blocks of rows, each from the
    seed and its number, so that it need not be held: it is the same in every process and for every cut of the frames.
    """
    for i, first in enumerate(range(0, D, _PIXELS)):
        rng = np.random.default_rng([seed, i])
        yield rng.standard_normal((min(_PIXELS, D - first), d), dtype=np.float32) / np.float32(np.sqrt(d))


_CHANNELS_AT_MOST = 1 << 18  # 512 x 512 pixels; more of them no local CCA can use
_KEPT_BYTES = 1 << 25  # of the frames read last, for reads that overlap


def open(
    path: str,
    *,
    roi: Sequence[int] | None = None,
    scale: int = 1,
    projection: int | None = None,
    seed: int = 0,
    colour: bool = False,
    rate: float | None = None,
    start: datetime | date | str | None = None,
    truncated: Truncated = "refuse",
) -> Recording:
    """The frames of a video as samples, pixels from 0 to 255 (65535 where they have more than 8 bits) as channels.

    Parameters
    ----------
    roi : (top, bottom, left, right): rows top to bottom and columns left to right, ends not included
    scale : s, averages of blocks of s x s pixels; what does not fill a block at the bottom and right is cut off
    projection : d, that many random projections of the pixels instead of the pixels
    seed : of the projection
    colour : red, green and blue of each pixel instead of its grey
    rate : frames per second, if not those of the container
    truncated : "refuse", or "keep" to read what is there of a video that is cut off
    """
    for name, value, least in (("scale", scale, 1), ("projection", projection, 1), ("seed", seed, 0)):
        if value is not None and value < least:
            raise SettingsError(f"{name} = {value!r} is not a whole number from {least} on.")
    if roi is not None and len(roi) != 4:
        raise SettingsError(f"roi = {roi!r} is not four whole numbers: top, bottom, left, right.")
    wanted = from_options(rate=rate, start=start)
    with optional("av", "video", FORMAT).open(path) as container:
        if not container.streams.video:
            raise DataError(f"{path!r} has no video in it.")
        index = FrameIndex(container)
    if not (index.n and index.width and index.height):
        raise DataError(f"{path!r} holds no frames that can be decoded.")
    notes: list[str] = []
    if index.faults:
        found = f"is truncated: {' and '.join(index.faults)}"
        notes += check_complete(path, truncated, found, "the other frames")
    top, bottom, left, right = bounds = (0, index.height, 0, index.width) if roi is None else tuple(roi)
    if not (0 <= top < bottom <= index.height and 0 <= left < right <= index.width):
        raise SettingsError(
            f"roi = {bounds} (top, bottom, left, right) does not lie in frames of {index.height} rows and "
            f"{index.width} columns."
        )
    shrinking = Shrinking(3 if colour else 1, bounds, scale)
    if not shrinking.size:
        there = f"{bottom - top} rows and {right - left} columns"
        raise SettingsError(f"scale = {scale} leaves no pixel of {there}: make it smaller.")
    source = VideoSource(path, index, shrinking, projection, seed)
    if index.pts is not None and index.n > 2 and wanted.rate is None:
        clock = Clock(f"the times of the frames of {path!r}", nominal=index.rates, row="frame", base=0)
        sampling = clock.sampling([(index.pts - index.pts[0]) * index.tick_s])
    else:
        named = wanted.rate or next(iter(index.rates), None)
        if named is None:
            raise SettingsError(f"{path!r} does not say how many frames it has in a second: give rate.")
        sampling = Sampling.even(named, index.n)
    source.check_ends()
    signals = sampling.signals(source, source.channels())
    notes += sampling.notes
    if not index.seekable:
        notes.append("its frames cannot be sought: a read that does not follow the last one begins at the first frame")
    return Recording(path, FORMAT, signals, wanted.start or moment(index.begun), notes=tuple(notes))


class VideoSource(ProcessLocal, Source):
    """Frames of a file made small, (k, channels); those read last are kept for the read that overlaps them."""

    _first, _rows = 0, np.zeros((0, 0), np.float32)  # the frames that are kept
    _projection: Sequence[NDArray[np.float32]] = ()

    def __init__(self, path: str, index: FrameIndex, shrinking: Shrinking, projection: int | None, seed: int) -> None:
        self.path, self.format, self.shrinking, self.projection, self.seed = path, FORMAT, shrinking, projection, seed
        self.frames = Frames(path, index, colour=shrinking.colours == 3)
        self.width = shrinking.size if projection is None else projection

    def channels(self) -> tuple[Channel, ...]:
        if self.projection is None and self.width > _CHANNELS_AT_MOST:
            rows, columns, _ = self.shrinking.shape
            raise SettingsError(
                f"frames of {self.path!r} have {rows} x {columns} pixels, {self.width} channels; at most "
                f"{_CHANNELS_AT_MOST} are read. Give scale (averages of blocks), roi or projection (200 or so)."
            )
        names = self.shrinking.names() if self.projection is None else [f"projection.{i}" for i in range(self.width)]
        return tuple(Channel(name, kind="video") for name in names)

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float32]:
        with self._lock:
            out = np.empty((last - first, self.width), np.float32)
            at, n = first - self._first, 0
            if 0 <= at < len(self._rows):  # the beginning was read last
                kept = self._rows[at : at + len(out)]
                n = len(kept)
                out[:n] = kept
            self._decode(first + n, last, out[n:])
            most = max(1, _KEPT_BYTES // (4 * self.width))
            self._first, self._rows = max(first, last - most), out[-most:].copy()
            return out if columns == list(range(self.width)) else out[:, columns]

    def _decode(self, first: int, last: int, out: NDArray[np.float32]) -> None:
        batch = max(1, _BATCH_BYTES // (4 * self.shrinking.size))
        for start in range(first, last, batch):
            stop = min(start + batch, last)
            part = out[start - first : stop - first]
            X = part if self.projection is None else np.empty((len(part), self.shrinking.size), np.float32)
            for i, frame in enumerate(self.frames.between(start, stop)):
                X[i] = self.shrinking.of(frame)
            if self.projection is not None:
                new = random_projection(self.shrinking.size, self.projection, self.seed)
                if 4 * self.shrinking.size * self.projection <= _PROJECTION_BYTES:
                    self._projection = self._projection or list(new)
                blocks = enumerate(self._projection or new)
                part[:] = sum(X[:, i * _PIXELS : (i + 1) * _PIXELS] @ R for i, R in blocks)

    def check_ends(self) -> None:
        """Decode the first and the last frame: a video that changes its size, or breaks off, is refused before work."""
        index = self.frames.index
        list(self.frames.between(0, 1))
        if not index.seekable or self._decodes(index.n - 1):
            return
        *earlier, last = index.keys.tolist()  # sizes change at key frames: find the first that is not as it was
        number = bisect_left(earlier, True, key=lambda key: not self._decodes(key))
        for i in ([*earlier, last][number], index.n - 1):
            list(self.frames.between(i, i + 1))

    def _decodes(self, i: int) -> bool:
        try:
            return bool(list(self.frames.between(i, i + 1)))
        except Exception:  # whatever FFmpeg finds wrong with it
            return False

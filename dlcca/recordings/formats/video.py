"""Video: each frame is a sample, each pixel a channel, in grey or in three colours, as a whole or made small."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.checks import check_choice, check_complete, check_file, optional, refusing
from dlcca.recordings.formats.clock import Clock
from dlcca.recordings.formats.metadata import from_options, moment
from dlcca.recordings.formats.recording import Channel, ProcessLocal, Recording, Sampling, Source

FORMAT = "video"

# Containers in which each packet has its time. In others (MPEG streams) times are made up while reading on, and those
# after a jump are not to be trusted: there, every read that does not go on begins at the first frame.
_INDEXED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi")

# Key frames tried before a frame is given up. Frames that refer to frames before their key frame need one or two.
_KEYS_BACK = 8


@dataclass(frozen=True)
class FrameIndex:
    """When each frame is shown, in the order in which they are shown, and which can be decoded alone.

    It is made from the packets of the file without decoding one of them: the number of frames that a container
    declares is often an estimate.
    """

    pts: NDArray[np.int64] | None  # (n,), in ticks of the stream; None where the container has no times
    keys: NDArray[np.int64]  # numbers of the key frames, in order
    n: int
    tick_s: float
    declared: int  # by the container; 0 where it does not say
    length_s: float  # by the container, where it does not count frames; 0 where it says neither
    rates: tuple[float, ...]  # by the container
    width: int
    height: int
    bits: int  # of one colour of a pixel
    seekable: bool  # whether a frame can be reached from the key frame before it
    begun: str | None  # by the container, ISO 8601
    damaged: int  # packets that are cut off


def index_frames(path: str) -> FrameIndex:
    """Read the packets of the first video stream once."""
    av = optional("av", "video", FORMAT)
    with av.open(path) as container:
        if not container.streams.video:
            raise DataError(f"{path!r} has no video in it.")
        stream = container.streams.video[0]
        pts, keys, hidden, damaged = [], [], 0, 0
        for packet in container.demux(stream):
            if not packet.size:
                continue  # the last one, which flushes the decoder

            damaged += packet.is_corrupt
            hidden += packet.is_discard  # cut away by an edit list: never shown
            if packet.is_discard or packet.is_corrupt:
                continue
            pts.append(packet.pts)
            keys.append(packet.is_keyframe)
        metadata = {**container.metadata, **stream.metadata}
        times, order = _in_order(pts)
        seekable = times is not None and container.format.name in _INDEXED
        return FrameIndex(
            pts=times,
            keys=np.flatnonzero(np.array(keys)[order]) if seekable else np.zeros(1, np.int64),
            n=len(pts),
            seekable=seekable,
            tick_s=float(stream.time_base),
            declared=max(0, stream.frames - hidden),
            length_s=0.0 if stream.frames else _length_s(container, stream),
            rates=tuple(float(rate) for rate in (stream.average_rate, stream.base_rate) if rate),
            width=stream.codec_context.width,
            height=stream.codec_context.height,
            bits=max((component.bits for component in stream.format.components), default=8) if stream.format else 8,
            begun=metadata.get("creation_time"),
            damaged=damaged,
        )


def _length_s(container: Any, stream: Any) -> float:
    """When the video ends, as Matroska says it: in a tag of the stream, or for the file if there is no other stream."""
    hours, _, rest = stream.metadata.get("DURATION", "").partition(":")
    minutes, _, seconds = rest.partition(":")
    try:
        return 3600 * float(hours) + 60 * float(minutes) + float(seconds)
    except ValueError:
        return container.duration / 1e6 if container.duration and len(container.streams) == 1 else 0.0


def _in_order(pts: list[int | None]) -> tuple[NDArray[np.int64] | None, NDArray[np.intp]]:
    """Times in the order of showing, and that order; packets are stored in the order in which they are decoded."""
    if not pts or any(time is None for time in pts) or len(set(pts)) < len(pts):
        return None, np.arange(len(pts))
    times = np.array(pts, dtype=np.int64)
    order = np.argsort(times)
    return times[order], order


class Frames(ProcessLocal):
    """A decoder that gives frames first to last as arrays (height, width) or (height, width, 3).

    It reads on where it was left; a frame elsewhere is reached from the key frame before it, and known by its time.
    Only one thread uses it at a time; a copy that was sent to another process opens the file again.
    """

    def __init__(self, path: str, index: FrameIndex, *, colour: bool) -> None:
        self.path, self.index, self.colour = path, index, colour
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._container: Any = None
        self._decoded: Iterator[tuple[int, Any]] = iter(())
        self._next = -1  # the frame that the decoder gives next; -1: it has not been opened

    def between(self, first: int, last: int) -> Iterator[NDArray[Any]]:
        """Frames first to last (not included)."""
        with self._lock:
            if first < last:
                self._go_to(first)
            for i in range(first, last):
                yield self._array(i, self._take(i))

    def _go_to(self, i: int) -> None:
        """Let the decoder give frame i next: decode on if that is nearer than the key frame before i."""
        key = self._key_before(i)
        if not (self._next >= 0 and key <= self._next <= i):
            self._open_at(key, i)
        while self._next < i:
            self._take(self._next)

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
        try:
            found, frame = next(self._decoded, (self.index.n, None))
        except OSError as error:  # what FFmpeg finds wrong with a packet
            found, frame, why = self.index.n, None, f" ({error})"
        else:
            why = ""
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

    height: int
    width: int
    colours: int  # 1 or 3
    roi: tuple[int, ...] | None = None  # top, bottom, left, right; bottom and right not included
    scale: int = 1  # pixels along the side of a block that is averaged

    def __post_init__(self) -> None:
        top, bottom, left, right = self.bounds
        if not (0 <= top < bottom <= self.height and 0 <= left < right <= self.width):
            raise SettingsError(
                f"roi = {self.bounds} (top, bottom, left, right) does not lie in frames of {self.height} rows and "
                f"{self.width} columns."
            )
        if min(self.shape[:2]) == 0:
            there = f"{bottom - top} rows and {right - left} columns"
            raise SettingsError(f"scale = {self.scale} leaves no pixel of {there}: make it smaller.")

    @property
    def bounds(self) -> tuple[int, ...]:
        return (0, self.height, 0, self.width) if self.roi is None else self.roi

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and colours that are left; rows and columns that do not fill a block are cut off."""
        top, bottom, left, right = self.bounds
        return (bottom - top) // self.scale, (right - left) // self.scale, self.colours

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def of(self, frame: NDArray[np.integer]) -> NDArray[np.float32]:
        """The pixels that are left of a frame, row by row, (size,)."""
        rows, columns, colours = self.shape
        top, _, left, _ = self.bounds
        s = self.scale
        part = frame[top : top + rows * s, left : left + columns * s]
        if s == 1:
            return part.reshape(-1).astype(np.float32)
        sums = part.reshape(rows, s, columns * s * colours).sum(axis=1, dtype=np.uint32)
        sums = sums.reshape(rows, columns, s, colours).sum(axis=2, dtype=np.uint32)
        return sums.reshape(-1).astype(np.float32) / np.float32(s * s)

    def names(self) -> list[str]:
        """A name for each pixel that is left: its row and column, and its colour where there are three."""
        rows, columns, colours = self.shape
        letters = ["", ""] if colours == 1 else [".r", ".g", ".b"]
        return [f"{i}.{j}{letters[c]}" for i in range(rows) for j in range(columns) for c in range(colours)]


class Projection(ProcessLocal):
    r"""A random projection from D numbers to d: :math:`y = x R`, entries of R normal with variance 1/d.

    Distances are kept up to a factor of about :math:`1 \pm 1/\sqrt{2d}`. R is made in blocks of rows, each from the
    seed and its number, so that it need not be held: it is the same in every process and for every cut of the frames.
    """

    def __init__(self, D: int, d: int, seed: int) -> None:
        self.D, self.d, self.seed = D, d, seed
        self._reset()

    def _reset(self) -> None:
        self._kept: list[NDArray[np.float32]] | None = None

    @property
    def batch(self) -> int:
        """Frames to project together."""
        return max(1, _BATCH_BYTES // (4 * self.D))

    def of(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """(k, D) to (k, d)."""
        Y = np.zeros((len(X), self.d), np.float32)
        for i, R in enumerate(self._blocks()):
            Y += X[:, i * _PIXELS : (i + 1) * _PIXELS] @ R
        return Y

    def _blocks(self) -> Iterable[NDArray[np.float32]]:
        if 4 * self.D * self.d > _PROJECTION_BYTES:
            return self._made()
        if self._kept is None:
            self._kept = list(self._made())
        return self._kept

    def _made(self) -> Iterable[NDArray[np.float32]]:
        for i, first in enumerate(range(0, self.D, _PIXELS)):
            rows = min(_PIXELS, self.D - first)
            rng = np.random.default_rng([self.seed, i])
            yield rng.standard_normal((rows, self.d), dtype=np.float32) / np.float32(np.sqrt(self.d))


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
    truncated: str = "refuse",
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
    check_choice("truncated", truncated, ("refuse", "keep"))
    wanted = from_options(rate=rate, start=start)
    check_file(path, FORMAT)
    optional("av", "video", FORMAT)
    with refusing(path, FORMAT):
        index = index_frames(path)
    if not (index.n and index.width and index.height):
        raise DataError(f"{path!r} holds no frames that can be decoded.")
    notes = _check_complete(path, index, truncated)
    shrinking = Shrinking(index.height, index.width, 3 if colour else 1, None if roi is None else tuple(roi), scale)
    random = None if projection is None else Projection(shrinking.size, projection, seed)
    source = VideoSource(path, index, shrinking, random)
    sampling, more = _sampling(path, index, wanted.rate)
    source.check_ends()
    signals = sampling.signals(source, source.channels())
    if not index.seekable:
        more.append("its frames cannot be sought: a read that does not follow the last one begins at the first frame")
    return Recording(path, FORMAT, signals, wanted.start or moment(index.begun), notes=(*notes, *more))


class VideoSource(ProcessLocal, Source):
    """Frames of a file made small, (k, channels); those read last are kept for the read that overlaps them."""

    def __init__(self, path: str, index: FrameIndex, shrinking: Shrinking, projection: Projection | None) -> None:
        self.path, self.format, self.shrinking, self.projection = path, FORMAT, shrinking, projection
        self.frames = Frames(path, index, colour=shrinking.colours == 3)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._first, self._rows = 0, np.zeros((0, self.width), np.float32)

    @property
    def width(self) -> int:
        return self.shrinking.size if self.projection is None else self.projection.d

    def channels(self) -> tuple[Channel, ...]:
        if self.projection is None and self.width > _CHANNELS_AT_MOST:
            rows, columns, _ = self.shrinking.shape
            raise SettingsError(
                f"frames of {self.path!r} have {rows} x {columns} pixels, {self.width} channels; at most "
                f"{_CHANNELS_AT_MOST} are read. Give scale (averages of blocks), roi or projection (200 or so)."
            )
        names = self.shrinking.names() if self.projection is None else [f"projection.{i}" for i in range(self.width)]
        return tuple(Channel(name, kind="video") for name in names)

    def rows(self, first: int, last: int, columns: list[int]) -> NDArray[np.float32]:
        with self._lock:
            out = np.empty((last - first, self.width), np.float32)
            kept = self._kept(first, last)
            out[: len(kept)] = kept
            self._decode(first + len(kept), last, out[len(kept) :])
            most = max(1, _KEPT_BYTES // (4 * self.width))
            self._first, self._rows = max(first, last - most), out[-most:].copy()
            return out if columns == list(range(self.width)) else out[:, columns]

    def _kept(self, first: int, last: int) -> NDArray[np.float32]:
        """The beginning of the requested frames, if it was read last."""
        if not self._first <= first < self._first + len(self._rows):
            return self._rows[:0]
        return self._rows[first - self._first : last - self._first]

    def _decode(self, first: int, last: int, out: NDArray[np.float32]) -> None:
        if self.projection is None:
            for i, frame in enumerate(self.frames.between(first, last)):
                out[i] = self.shrinking.of(frame)
            return
        batch = self.projection.batch
        for start in range(first, last, batch):
            stop = min(start + batch, last)
            X = np.empty((stop - start, self.shrinking.size), np.float32)
            for i, frame in enumerate(self.frames.between(start, stop)):
                X[i] = self.shrinking.of(frame)
            out[start - first : stop - first] = self.projection.of(X)

    def check_ends(self) -> None:
        """Decode the first and the last frame: a video that changes its size, or breaks off, is refused before work."""
        index = self.frames.index
        with refusing(self.path, FORMAT):
            list(self.frames.between(0, 1))
            if not index.seekable or self._decodes(index.n - 1):
                return
            low, high = 0, len(index.keys) - 1  # sizes change at key frames: find the first that is not as it was
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if self._decodes(int(index.keys[middle])) else (low, middle)
            for i in (int(index.keys[low]), index.n - 1):
                list(self.frames.between(i, i + 1))

    def _decodes(self, i: int) -> bool:
        try:
            with refusing(self.path, FORMAT):
                return bool(list(self.frames.between(i, i + 1)))
        except DataError:
            return False


def _check_complete(path: str, index: FrameIndex, truncated: str) -> list[str]:
    """Refuse a video with fewer frames than its container says, or with frames that are cut off."""
    found = []
    if index.declared > index.n:
        found.append(f"its container says {index.declared} frames, and the file holds {index.n}")
    missing = _missing_at_end(index)
    if missing:
        found.append(f"it ends {missing:.6g} s before its container says")
    if index.damaged:
        found.append(f"{index.damaged} of its frames are cut off or damaged")
    if not found:
        return []
    return check_complete(path, truncated, f"is truncated: {' and '.join(found)}", "the other frames")


def _missing_at_end(index: FrameIndex) -> float:
    """Seconds between the last frame and the end that a container without a count of frames declares."""
    if index.pts is None or index.n < 3 or not index.length_s:
        return 0.0
    step = float(np.median(np.diff(index.pts))) * index.tick_s
    missing = index.length_s - (float(index.pts[-1]) * index.tick_s + step)
    return missing if missing > 1.5 * step else 0.0


def _sampling(path: str, index: FrameIndex, rate: float | None) -> tuple[Sampling, list[str]]:
    """The rate of the frames and the breaks between them, from the times at which they are shown."""
    if index.pts is None or index.n < 3 or rate is not None:
        named = rate or (index.rates[0] if index.rates else None)
        if named is None:
            raise SettingsError(f"{path!r} does not say how many frames it has in a second: give rate.")
        return Sampling.even(named, index.n), []
    clock = Clock(f"the time of the frames of {path!r}", nominal=index.rates, row="frame", base=0)
    clock.feed((index.pts - index.pts[0]) * index.tick_s)
    sampling = clock.sampling()
    breaks = len(sampling.stretches) - 1
    return sampling, [*sampling.notes, *([f"breaks between its frames, which are kept: {breaks}"] if breaks else [])]

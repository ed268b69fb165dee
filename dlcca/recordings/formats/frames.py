"""Frames of a video by their exact number, whether read one after the other or from anywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.files import optional

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
                continue  # the last one, which tells a decoder to give what it holds back

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


class Frames:
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

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "index": self.index, "colour": self.colour}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

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
        self._decoded, self._next = _put_back((found, frame), self._decoded), found

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


def _put_back(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest

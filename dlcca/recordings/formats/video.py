"""Video: each frame is a sample, each pixel a channel, in grey or in three colours, as a whole or made small."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.clock import Clock, Sampling, Stretch
from dlcca.recordings.formats.declared import asked, start_option
from dlcca.recordings.formats.files import check_choice, check_file, check_span, optional, refusing
from dlcca.recordings.formats.frames import FORMAT as FORMAT
from dlcca.recordings.formats.frames import FrameIndex, Frames, index_frames
from dlcca.recordings.formats.recording import Channel, Recording, Signal
from dlcca.recordings.formats.shrinking import Projection, Shrinking

ENDINGS = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv")

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
    _check(scale=scale, projection=projection, seed=seed, roi=roi)
    check_choice("truncated", truncated, ("refuse", "keep"))
    wanted = asked(rate=rate).rate
    check_file(path, FORMAT)
    optional("av", "video", FORMAT)
    with refusing(path, FORMAT):
        index = index_frames(path)
    if not (index.n and index.width and index.height):
        raise DataError(f"{path!r} holds no frames that can be decoded.")
    notes = _check_complete(path, index, truncated)
    shrinking = Shrinking(index.height, index.width, 3 if colour else 1, None if roi is None else _four(roi), scale)
    reader = _Reader(
        path, index, shrinking, None if projection is None else Projection(shrinking.size, projection, seed)
    )
    sampling, more = _sampling(path, index, wanted)
    reader.check_ends()
    channels = reader.channels()
    signals = tuple(
        VideoSignal(reader, channels, sampling.rate, stretch.n, stretch.first, stretch.start_s)
        for stretch in sampling.stretches
    )
    begun = start_option(start) if start is not None else _moment(index.begun)
    if not index.seekable:
        more.append("its frames cannot be sought: a read that does not follow the last one begins at the first frame")
    return Recording(path, FORMAT, signals, start=begun, notes=(*notes, *more))


class VideoSignal(Signal):
    """Frames without a break between them."""

    def __init__(
        self, reader: _Reader, channels: tuple[Channel, ...], rate: float, n: int, first_frame: int, start_s: float
    ) -> None:
        self.reader, self.channels, self.rate, self.n = reader, channels, rate, n
        self.first_frame, self.start_s = first_frame, start_s

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        check_span(self, first, last)
        rows = self.reader.read(self.first_frame + first, self.first_frame + last)
        chosen = np.asarray(columns, np.intp)
        whole = len(chosen) == rows.shape[1] and (chosen == np.arange(len(chosen))).all()
        return rows if whole else rows[:, chosen]


class _Reader:
    """Frames of a file made small, (k, channels); those read last are kept for the read that overlaps them."""

    def __init__(self, path: str, index: FrameIndex, shrinking: Shrinking, projection: Projection | None) -> None:
        self.path, self.shrinking, self.projection = path, shrinking, projection
        self.frames = Frames(path, index, colour=shrinking.colours == 3)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._first, self._rows = 0, np.zeros((0, self.width), np.float32)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

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

    def read(self, first: int, last: int) -> NDArray[np.float32]:
        """Frames first to last, (last - first, width)."""
        with self._lock:
            out = np.empty((last - first, self.width), np.float32)
            kept = self._kept(first, last)
            out[: len(kept)] = kept
            with refusing(self.path, FORMAT):
                self._decode(first + len(kept), last, out[len(kept) :])
            most = max(1, _KEPT_BYTES // (4 * self.width))
            self._first, self._rows = max(first, last - most), out[-most:].copy()
            return out

    def _kept(self, first: int, last: int) -> NDArray[np.float32]:
        """The beginning of what is asked for, if it was read last."""
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


def _check(*, scale: int, projection: int | None, seed: int, roi: Sequence[int] | None) -> None:
    for name, value, least in (("scale", scale, 1), ("projection", projection, 1), ("seed", seed, 0)):
        if value is None and name == "projection":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise SettingsError(f"{name} = {value!r} is not a whole number from {least} on.")
    if roi is not None and (len(roi) != 4 or not all(isinstance(edge, int | np.integer) for edge in roi)):
        raise SettingsError(f"roi = {roi!r} is not four whole numbers: top, bottom, left, right.")


def _four(roi: Sequence[int]) -> tuple[int, int, int, int]:
    top, bottom, left, right = (int(edge) for edge in roi)
    return top, bottom, left, right


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
    what = " and ".join(found)
    if truncated == "refuse":
        raise DataError(f"{path!r} is truncated: {what}. Copy it again, or give truncated='keep' to read the others.")
    return [f"truncated: {what}; the others were kept"]


def _missing_at_end(index: FrameIndex) -> float:
    """Seconds between the last frame and the end that a container without a count of frames declares."""
    if index.pts is None or index.n < 3 or not index.length_s:
        return 0.0
    step = float(np.median(np.diff(index.pts))) * index.tick_s
    missing = index.length_s - (float(index.pts[-1]) * index.tick_s + step)
    return missing if missing > 1.5 * step else 0.0


def _sampling(path: str, index: FrameIndex, rate: float | None) -> tuple[Sampling, list[str]]:
    """The rate of the frames and the breaks between them, from the times at which they are shown."""
    whole = (Stretch(0, index.n, 0.0),)
    if index.pts is None or index.n < 3 or rate is not None:
        named = rate or (index.rates[0] if index.rates else None)
        if named is None:
            raise SettingsError(f"{path!r} does not say how many frames it has in a second: give rate.")
        return Sampling(named, whole), []
    clock = Clock(f"the time of the frames of {path!r}", nominal=index.rates, row="frame", base=0)
    clock.feed((index.pts - index.pts[0]) * index.tick_s)
    sampling = clock.sampling()
    breaks = len(sampling.stretches) - 1
    return sampling, [*sampling.notes, *([f"breaks between its frames, which are kept: {breaks}"] if breaks else [])]


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None

"""FIF: what MNE writes, and the magnetoencephalographs of one maker. Samples are in SI units: V, T, T/m."""

from __future__ import annotations

import gzip
import logging
import math
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import check_file, optional, refusing
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Sampling, Source, Stretch

FORMAT = "FIF"

Raw = Any  # mne.io.BaseRaw: MNE has no types

SKIP = "BAD_ACQ_SKIP"  # what MNE calls a break in the acquisition; it fills the break with zeros

# Warnings of MNE that do not matter here, or that are errors here.
_NOISE = (
    "coordinate information",
    "naming conventions",
    "filter",
    "DigMontage",
    "maxshield",
    "Internal Active",
    "Invalid tag",
)
_DEPRECATION = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_UNITS = {
    "V": "V",
    "T": "T",
    "T_M": "T/m",
    "CEL": "°C",
    "S": "S",
    "AM": "A m",
    "MOL": "mol/l",
    "RAD": "rad",
    "PX": "px",
}


@dataclass
class RawSource(Source):
    """Channels of a Raw, read by MNE on demand."""

    raw: Raw
    path: str
    format: str
    unit_size: NDArray[np.float64]  # of the unit of each channel, in MNE's
    is_library = False

    def rows(self, first: int, last: int, columns: list[int]) -> NDArray[np.float64]:
        data = self.raw[columns, first:last][0]
        if (self.unit_size != 1).any():
            data /= self.unit_size[columns, None]
        return np.asarray(data.T)


def check_raw(raw: Any) -> None:
    """An error if it is not an MNE Raw."""
    if hasattr(raw, "n_times") and hasattr(raw, "first_samp"):
        return
    if hasattr(raw, "events") or hasattr(raw, "nave"):  # Epochs, Evoked
        advice = (
            "Give the Raw that it was cut from: windows that touch an annotation whose description begins with BAD are "
            "left out."
        )
    else:
        advice = "Open the file first, as mne.io.read_raw(path)."
    raise DataError(f"from_mne makes views of an MNE Raw, and {type(raw).__name__} was given. {advice}")


def recording_of_raw(
    raw: Raw,
    *,
    path: str = "",
    format: str = "MNE Raw",
    stretches: Sequence[Stretch] | None = None,
    channels: Sequence[Channel] | None = None,
    unit_size: NDArray[np.float64] | None = None,
    notes: Sequence[str] = (),
) -> Recording:
    """A Raw as a recording: one signal for each stretch without a break, in MNE's units where no others are given."""
    if not len(raw.ch_names) or not raw.n_times:
        raise DataError(
            f"{path!r} holds {len(raw.ch_names)} channels of {raw.n_times} samples, and at least 1 of each is needed."
        )
    rate = float(raw.info["sfreq"])
    if not (np.isfinite(rate) and rate > 0):
        raise DataError(f"{path!r} says that its rate is {rate:g} Hz; a number above 0 is needed. Export it again.")
    _check_scales(raw, path)
    stretches = between_skips(raw) if stretches is None else stretches
    channels = channels_of(raw) if channels is None else channels
    source = RawSource(raw, path, format, np.ones(len(channels)) if unit_size is None else unit_size)
    when = raw.info["meas_date"]
    return Recording(
        path=path,
        format=format,
        signals=Sampling(rate, stretches).signals(source, channels),
        start=None if when is None else when + timedelta(seconds=raw.first_time),
        annotations=annotations_of(raw),
        notes=tuple(notes),
    )


def channels_of(raw: Raw) -> list[Channel]:
    """Names, units and kinds as MNE has them."""
    units = [_UNITS.get(getattr(ch["unit"], "_name", "").removeprefix("FIFF_UNIT_"), "") for ch in raw.info["chs"]]
    kinds = raw.get_channel_types()
    return [Channel(name, unit, kind) for name, unit, kind in zip(raw.ch_names, units, kinds, strict=True)]


def annotations_of(raw: Raw) -> tuple[Annotation, ...]:
    """The annotations with onsets after the first sample; MNE counts them from when the clock of the file began."""
    return tuple(
        Annotation(float(mark["onset"]) - raw.first_time, float(mark["duration"]), str(mark["description"]))
        for mark in raw.annotations
    )


def between_skips(raw: Raw) -> list[Stretch]:
    """The samples between breaks in the acquisition, at which nothing was recorded."""
    rate = float(raw.info["sfreq"])
    skips = [mark for mark in raw.annotations if str(mark["description"]).upper() == SKIP]
    if not skips:
        return [Stretch(0, int(raw.n_times), 0.0)]
    kept = np.ones(raw.n_times, bool)
    for mark in skips:
        first = round((mark["onset"] - raw.first_time) * rate)
        kept[max(first, 0) : max(first + round(mark["duration"] * rate), 0)] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]])))
    return [Stretch(int(a), int(b - a), a / rate) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _check_scales(raw: Raw, path: str) -> None:
    for ch in raw.info["chs"]:
        scale = float(ch["cal"]) * float(ch["range"])
        if not np.isfinite(scale) or scale == 0:
            raise DataError(
                f"{path!r} scales the samples of channel {ch['ch_name']!r} by {scale:g}: a finite number other than 0 "
                "is needed. Correct its header, or export it again."
            )


def open_raw(path: str, format: str, opening: Callable[[Any], Raw]) -> tuple[Raw, list[str]]:
    """A Raw from one of MNE's readers, and what MNE warned of while it opened the file."""
    package = optional("mne", "eeg", format)
    with refusing(path, format), _heard() as warned:
        raw = opening(package)
    return raw, warned


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collect warnings instead of showing them, less those that do not matter here."""
    messages: list[str] = []
    log = logging.getLogger("mne")  # which writes to the standard output unless it is held back
    handlers, log.handlers = log.handlers, [logging.NullHandler()]
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield messages
    finally:
        log.handlers = handlers
    texts = dict.fromkeys(str(warning.message) for warning in caught if not issubclass(warning.category, _DEPRECATION))
    messages += [text for text in texts if not any(noise.lower() in text.lower() for noise in _NOISE)]


_TAG = struct.Struct(">iiii")  # kind, type, bytes, and where the next tag is: 0 right behind, -1 nowhere
_ROLE, _NUMBER, _NAME = 115, 117, 118  # kinds of tags that name another file
_NEXT_FILE = 2  # the role of a file that goes on where this one ends


def open(path: str) -> Recording:
    """A recording in FIF, through MNE; breaks in the acquisition divide it into several signals."""
    check_file(path, FORMAT)
    with refusing(path, FORMAT):
        parts = _parts(path)
    raw, notes = open_raw(path, FORMAT, lambda mne: mne.io.read_raw_fif(path, allow_maxshield="yes", verbose="WARNING"))
    for part in parts:
        if part.cut_short:
            raise DataError(
                f"{str(part.path)!r} ends after {part.size} bytes, about {raw.n_times} samples, before its last tag: "
                "it was cut short. Copy or export it again, or crop it in MNE to the samples that can be read and save "
                "that."
            )
    return recording_of_raw(raw, path=path, format=FORMAT, notes=notes)


@dataclass
class Part:
    """One file of a recording, which may be split over several."""

    path: Path
    size: float  # in bytes
    cut_short: bool = False
    next_name: str = ""
    next_number: int | None = None

    @property
    def following(self) -> Path | None:
        """The file that goes on where this one ends, named as MNE names it."""
        if self.next_name:
            return self.path.parent / self.next_name
        if self.next_number is None:
            return None
        base, _, endings = self.path.name.partition(".")
        stem, dash, number = base.rpartition("-")
        return self.path.parent / f"{stem if dash and number.isdigit() else base}-{self.next_number}.{endings}"


def _parts(path: str) -> list[Part]:
    """The files of a recording, their tags walked through: MNE would follow tags or files that lead in a circle."""
    parts: list[Part] = []
    following: Path | None = Path(path)
    while following is not None and following.is_file():
        if any(following.resolve() == part.path.resolve() for part in parts):
            raise DataError(
                f"{path!r} is split over files that lead in a circle: {str(parts[-1].path)!r} is followed by "
                f"{str(following)!r} again. Copy or export the files again, under the names they were written with."
            )
        parts.append(_walked(following))
        following = parts[-1].following
    return parts


def _walked(path: Path) -> Part:
    """A file after a walk from tag to tag, each visited once: the time is linear in their number."""
    is_packed = path.name.lower().endswith(".gz")
    part = Part(path, math.inf if is_packed else path.stat().st_size)
    with gzip.open(path) if is_packed else path.open("rb") as file:
        at, role = 0, 0
        back: set[int] = set()  # where jumps back led to: a circle leads to one of these places again
        while True:
            file.seek(at)
            head = file.read(_TAG.size)
            if len(head) < _TAG.size:
                part.cut_short = not is_packed  # gzip itself complains
                return part
            kind, _, length, following = _TAG.unpack(head)
            if kind < 1 or length < 0 or following < -1:
                raise DataError(
                    f"{str(path)!r} is damaged: at byte {at} is a tag of kind {kind} and {length} bytes, followed by "
                    f"the one at byte {following}. Copy or export it again."
                )
            role = _noted(part, file, kind, length, role)
            end = at + _TAG.size + length
            if following == -1 or end > part.size:
                part.cut_short = end > part.size
                return part
            then = following or end
            if then <= at and (then in back or is_packed):  # packed, every jump back would unpack the file anew
                raise DataError(
                    f"{str(path)!r} is damaged: its tags lead in a circle, from byte {at} back to byte {then}. Copy or "
                    "export it again."
                )
            if then <= at:
                back.add(then)
            at = then


def _noted(part: Part, file: IO[bytes] | gzip.GzipFile, kind: int, length: int, role: int) -> int:
    """Note what a tag says of the next file; returns the role of the file that it is about."""
    if kind == _ROLE:
        return int.from_bytes(file.read(4), "big", signed=True)
    if role == _NEXT_FILE and kind == _NUMBER:
        part.next_number = int.from_bytes(file.read(4), "big", signed=True)
    elif role == _NEXT_FILE and kind == _NAME:
        part.next_name = file.read(min(length, 4096)).decode("latin-1")
    return role

"""FIF: what MNE writes, and the magnetoencephalographs of one maker. Samples are in SI units: V, T, T/m."""

import gzip
import logging
import math
import struct
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import optional
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Sampling, Source, Stretch

FORMAT = "FIF"

Raw = Any  # mne.io.BaseRaw: MNE has no types

SKIP = "BAD_ACQ_SKIP"  # what MNE calls a break in the acquisition; it fills the break with zeros

# Warnings of MNE that do not matter here, or that are errors here.
_NOISE: tuple[str, ...] = ("coordinate information", "naming conventions", "filter", "digmontage", "maxshield")
_NOISE += ("internal active", "invalid tag")
_DEPRECATION = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_UNITS = {"V": "V", "T": "T", "T_M": "T/m", "CEL": "°C", "S": "S", "AM": "A m"}
_UNITS |= {"MOL": "mol/l", "RAD": "rad", "PX": "px"}


@dataclass
class RawSource(Source):
    """Channels of a Raw, read by MNE on demand."""

    raw: Raw
    path: str
    format: str
    unit_size: NDArray[np.float64] | None = None  # of the unit of each channel, in MNE's

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float64]:
        data = self.raw[columns, first:last][0]
        if self.unit_size is not None:
            data /= self.unit_size[columns, None]
        return np.asarray(data.T)


def check_raw(raw: Any) -> None:
    """An error if it is not an MNE Raw."""
    if hasattr(raw, "n_times") and hasattr(raw, "first_samp"):
        return
    advice = "Open the file first, as mne.io.read_raw(path)."
    if hasattr(raw, "events") or hasattr(raw, "nave"):  # Epochs, Evoked
        advice = "Give the Raw that it was cut from: windows that touch an annotation whose description begins with "
        advice += "BAD are left out."
    raise DataError(f"from_mne makes views of an MNE Raw, and {type(raw).__name__} was given. {advice}")


def recording_of_raw(raw: Raw, path: str = "", format: str = "MNE Raw", notes: Iterable[str] = ()) -> Recording:
    """A Raw as a recording, in MNE's units: one signal for each stretch without a break."""
    if not len(raw.ch_names) or not raw.n_times:
        raise DataError(
            f"{path!r} holds {len(raw.ch_names)} channels of {raw.n_times} samples, and at least 1 of each is needed."
        )
    rate = float(raw.info["sfreq"])
    if not (np.isfinite(rate) and rate > 0):
        raise DataError(f"{path!r} says that its rate is {rate:g} Hz; a number above 0 is needed. Export it again.")
    for ch in raw.info["chs"]:
        scale = float(ch["cal"]) * float(ch["range"])
        if not np.isfinite(scale) or scale == 0:
            raise DataError(
                f"{path!r} scales the samples of channel {ch['ch_name']!r} by {scale:g}: a finite number other than 0 "
                "is needed. Correct its header, or export it again."
            )
    signals = Sampling(rate, between_skips(raw)).signals(RawSource(raw, path, format), channels_of(raw))
    when = raw.info["meas_date"]
    start = None if when is None else when + timedelta(seconds=raw.first_time)
    marks = tuple(  # with onsets after the first sample; MNE counts them from when the clock of the file began
        Annotation(float(mark["onset"]) - raw.first_time, float(mark["duration"]), str(mark["description"]))
        for mark in raw.annotations
    )
    return Recording(path, format, signals, start, marks, tuple(notes))


def channels_of(raw: Raw) -> list[Channel]:
    """Names, units and kinds as MNE has them."""
    units = [_UNITS.get(getattr(ch["unit"], "_name", "").removeprefix("FIFF_UNIT_"), "") for ch in raw.info["chs"]]
    return list(map(Channel, raw.ch_names, units, raw.get_channel_types()))


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
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).tolist()
    return [Stretch(a, b - a, a / rate) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def open_raw(format: str, opening: Callable[[Any], Raw]) -> tuple[Raw, list[str]]:
    """A Raw from one of MNE's readers, and the warnings of MNE about the file that matter here."""
    package = optional("mne", "eeg", format)
    log = logging.getLogger("mne")  # which writes to the standard output unless it is held back
    handlers, log.handlers = log.handlers, [logging.NullHandler()]
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            raw = opening(package)
    finally:
        log.handlers = handlers
    texts = dict.fromkeys(str(warning.message) for warning in caught if not issubclass(warning.category, _DEPRECATION))
    return raw, [text for text in texts if not any(noise in text.lower() for noise in _NOISE)]


_TAG = struct.Struct(">iiii")  # kind, type, bytes, and where the next tag is: 0 right behind, -1 nowhere
_ROLE, _NUMBER, _NAME = 115, 117, 118  # kinds of tags that name another file
_NEXT_FILE = 2  # the role of a file that goes on where this one ends


def open(path: str) -> Recording:
    """A recording in FIF, through MNE; breaks in the acquisition divide it into several signals."""
    parts = _parts(path)
    raw, notes = open_raw(FORMAT, lambda mne: mne.io.read_raw_fif(path, allow_maxshield="yes", verbose="WARNING"))
    for part, is_cut_short in parts:
        if is_cut_short:
            raise DataError(
                f"{str(part)!r} ends after {part.stat().st_size} bytes, about {raw.n_times} samples, before its last "
                "tag: it was cut short. Copy or export it again, or crop it in MNE to the samples that can be read and "
                "save that."
            )
    return recording_of_raw(raw, path, FORMAT, notes)


def _parts(path: str) -> list[tuple[Path, bool]]:
    """The files over which a recording is split, and whether each is cut short."""
    # Tags are followed here first: MNE would follow tags or files that lead in a circle without an end.
    parts: list[tuple[Path, bool]] = []
    following: Path | None = Path(path)
    while following is not None and following.is_file():
        if any(following.resolve() == part.resolve() for part, _ in parts):
            raise DataError(
                f"{path!r} is split over files that lead in a circle: {str(parts[-1][0])!r} is followed by "
                f"{str(following)!r} again. Copy or export the files again, under the names they were written with."
            )
        part = following
        is_cut_short, following = _walked(part)
        parts.append((part, is_cut_short))
    return parts


def _walked(path: Path) -> tuple[bool, Path | None]:
    """Whether a file is cut short, and the file that continues it: every tag is visited once."""
    is_packed = path.name.lower().endswith(".gz")
    size = math.inf if is_packed else path.stat().st_size
    named = numbered = None
    with gzip.open(path) if is_packed else path.open("rb") as file:
        at, role = 0, 0
        back: set[int] = set()  # where jumps back led to: a circle leads to one of these places again
        while True:
            file.seek(at)
            head = file.read(_TAG.size)
            if len(head) < _TAG.size:
                return not is_packed, named or numbered  # gzip itself complains
            kind, _, length, following = _TAG.unpack(head)
            if kind < 1 or length < 0 or following < -1:
                raise DataError(
                    f"{str(path)!r} is damaged: at byte {at} is a tag of kind {kind} and {length} bytes, followed by "
                    f"the one at byte {following}. Copy or export it again."
                )
            if kind == _ROLE:
                role = int.from_bytes(file.read(4), "big", signed=True)
            elif role == _NEXT_FILE and kind == _NAME and length:
                named = path.parent / file.read(min(length, 4096)).decode("latin-1")
            elif role == _NEXT_FILE and kind == _NUMBER:
                numbered = _numbered(path, int.from_bytes(file.read(4), "big", signed=True))
            end = at + _TAG.size + length
            if following == -1 or end > size:
                return end > size, named or numbered
            then = following or end
            if then <= at and (then in back or is_packed):  # packed, every jump back would unpack the file anew
                raise DataError(
                    f"{str(path)!r} is damaged: its tags lead in a circle, from byte {at} back to byte {then}. Copy or "
                    "export it again."
                )
            if then <= at:
                back.add(then)
            at = then


def _numbered(path: Path, number: int) -> Path:
    """The part of this number of a recording, named as MNE names it: x_raw.fif, x_raw-1.fif."""
    base, _, endings = path.name.partition(".")
    stem, dash, own = base.rpartition("-")
    return path.parent / f"{stem if dash and own.isdigit() else base}-{number}.{endings}"

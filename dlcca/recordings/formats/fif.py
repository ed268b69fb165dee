"""FIF: what MNE writes, and the magnetoencephalographs of one maker. Samples are in SI units: V, T, T/m."""

from __future__ import annotations

import gzip
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dlcca.errors import DataError
from dlcca.recordings.formats.files import check_file, refusing
from dlcca.recordings.formats.from_mne import open_raw, recording
from dlcca.recordings.formats.recording import Recording

ENDINGS: tuple[str, ...] = (".fif", ".fif.gz")
FORMAT = "FIF"

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
    return recording(raw, path=path, format=FORMAT, notes=notes)


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
    """Note what a tag says of the next file; the role of the file that is spoken of."""
    if kind == _ROLE:
        return int.from_bytes(file.read(4), "big", signed=True)
    if role == _NEXT_FILE and kind == _NUMBER:
        part.next_number = int.from_bytes(file.read(4), "big", signed=True)
    elif role == _NEXT_FILE and kind == _NAME:
        part.next_name = file.read(min(length, 4096)).decode("latin-1")
    return role

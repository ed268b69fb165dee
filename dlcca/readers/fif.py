"""FIF: what MNE writes, and the magnetoencephalographs of one maker. Samples are in SI units: V, T, T/m."""

from __future__ import annotations

import struct
from pathlib import Path

from ..errors import DataError
from .files import check_file
from .from_mne import open_raw, recording
from .recording import Recording

ENDINGS: tuple[str, ...] = (".fif", ".fif.gz")
FORMAT = "FIF"

_TAG = struct.Struct(">iiii")  # kind, type, bytes, and where the next tag is: 0 right behind, -1 nowhere


def open(path: str) -> Recording:
    """A recording in FIF, through MNE; breaks in the acquisition divide it into several signals."""
    size = check_file(path, FORMAT)
    raw, notes = open_raw(path, FORMAT, lambda mne: mne.io.read_raw_fif(path, allow_maxshield="yes", verbose="WARNING"))
    if _cut_short(path, size):
        raise DataError(
            f"{path!r} ends after {size} bytes, about {raw.n_times} samples, before its last tag: it was cut short. "
            "Copy or export it again, or crop it in MNE to the samples that can be read and save that."
        )
    return recording(raw, path=path, format=FORMAT, notes=notes)


def _cut_short(path: str, size: int) -> bool:
    """Whether the tags lead past the end of the file. MNE reads such files without complaint."""
    if path.lower().endswith(".gz"):  # gzip itself complains
        return False
    at = 0
    with Path(path).open("rb") as file:
        while at + _TAG.size <= size:
            file.seek(at)
            _, _, length, following = _TAG.unpack(file.read(_TAG.size))
            end = at + _TAG.size + length
            if following == -1 or end > size or length < 0:
                return end > size
            at = following or end
    return True

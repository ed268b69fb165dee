"""One array of a file of arrays: what its name, type and attributes make of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlcca.recordings.formats.clock import TIME_NAMES, TimeColumn, time_unit
from dlcca.recordings.formats.declared import declared, plain_key
from dlcca.recordings.formats.slices import Opened, Scaling


@dataclass(frozen=True)
class Member:
    """One array of a file: "group/name", or "" where the file is the array."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    opened: Opened
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dims: tuple[str, ...] = ()  # names of its axes, where the file has them

    @property
    def group(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def leaf(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def is_text(self) -> bool:
        return self.dtype.kind in "USTO"

    @property
    def is_coordinate(self) -> bool:
        return self.dims == (self.leaf,) and bool(self.leaf)


def channel_names(member: Member, width: int, given: Sequence[str], *, alone: bool) -> list[str]:
    """Names of channels: as given, with the array before them where there are several; else numbers."""
    prefix = f"{member.name}." if member.name else ""
    if given:
        return [name if alone else f"{prefix}{name}" for name in given]
    if len(member.shape) == 1 and member.name:
        return [member.name]
    if len(member.shape) > 2:
        return [prefix + ".".join(map(str, place)) for place in np.ndindex(*member.shape[1:])]
    return [f"{prefix}{i}" for i in range(width)]


def widths(member: Member) -> set[int]:
    """How many channels an array may have, whichever of its axes is time."""
    if len(member.shape) == 2:
        return set(member.shape)
    return {int(np.prod(member.shape[1:]))}


def called(member: Member) -> str:
    return repr(member.name) if member.name else "the array"


def fault(member: Member) -> str:
    """Why an array cannot be samples; empty where it can."""
    if member.dtype.kind == "c":
        return f"holds complex numbers ({member.dtype}; save its real and imaginary parts, or its modulus, as channels)"
    if member.dtype.kind not in "biuf":
        return f"holds {member.dtype} and no numbers"
    if not member.shape:
        return "is a single number"
    return f"is empty (shape {member.shape})" if 0 in member.shape else ""


def says_rate(leaf: str) -> bool:
    return re.search(r"(?:^|_)(?:fs|rate|sfreq|srate)(?:_hz)?$", plain_key(leaf)) is not None


def texts(member: Member) -> Any:
    """Texts of an array as a list, or as one text where it is a scalar; numbers are written out."""
    values = np.asarray(member.opened.array()[...])
    words = [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in values.reshape(-1)]
    return words if values.ndim else words[0]


def is_time(member: Member | None) -> bool:
    if member is None:
        return False
    named = plain_key(member.leaf) in TIME_NAMES and member.dtype.kind in "iuf"
    return member.dtype.kind in "Mm" or named or " since " in str(member.attributes.get("units", ""))


def time_column(clock: Member) -> TimeColumn:
    """The clock in seconds; `units` is "s", "ms", ... or, as CF writes it, "seconds since 2024-05-31 22:30:00"."""
    unit, since, epoch = str(clock.attributes.get("units", "")).partition(" since ")
    start = declared({"start": epoch.strip()}, called(clock)).start if since else None
    return TimeColumn(clock.name, time_unit(unit), epoch=start)


def scaling(attributes: Mapping[str, Any]) -> Scaling:
    def number(key: str) -> float | None:
        value = attributes.get(key)
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):  # Zarr 3 writes fill values of floats as text; they are NaN already
            return None
        return float(array.reshape(-1)[0]) if value is not None and array.size == 1 else None

    factor, offset = number("scale_factor"), number("add_offset")
    missing = number("_FillValue")
    if missing is not None and np.isnan(missing):
        missing = None
    return Scaling(1.0 if factor is None else factor, 0.0 if offset is None else offset, missing)

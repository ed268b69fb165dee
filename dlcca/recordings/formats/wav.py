"""WAV, RF64 and Broadcast WAV: sound, and whatever else was recorded with a sound card.

Integers of 8, 16, 24 and 32 bits come as a fraction of full scale, from -1 to 1, and floats as they are; with
`integers=True` integers come as they are stored (8 bits: less their middle, 128). The file is mapped, never loaded.
"""

from __future__ import annotations

import builtins
import functools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArraySource, Opened, Scaling
from dlcca.recordings.formats.checks import check_choice, check_complete, check_file, refusing
from dlcca.recordings.formats.metadata import channels_of, from_options
from dlcca.recordings.formats.recording import Recording, Sampling, int24

FORMAT = "WAV"

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_NAMES = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "ADPCM", 85: "MP3"}
_CHUNKS_AT_MOST = 10_000  # before the samples; a header has a handful
_UNKNOWN = 0xFFFFFFFF  # a length that was not known when the header was written
_DTYPES = {(_PCM, 8): "u1", (_PCM, 16): "<i2", (_PCM, 24): "V3", (_PCM, 32): "<i4"}
_DTYPES |= {(_FLOAT, 32): "<f4", (_FLOAT, 64): "<f8"}


def open(
    path: str,
    *,
    integers: bool = False,
    truncated: str = "refuse",
    start: datetime | date | str | None = None,
    names: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
) -> Recording:
    """The channels of a WAV file, called 0, 1, ... unless names are given.

    Parameters
    ----------
    integers : integers as they are stored, not as a fraction of full scale
    truncated : "refuse", or "keep" to read what is there of a file that is shorter than its header says
    """
    check_choice("truncated", truncated, ("refuse", "keep"))
    facts = from_options(start=start, names=names, unit=unit)
    size = check_file(path, FORMAT)
    with refusing(path, FORMAT):
        head = _read_head(path, size)
    n, notes = _samples_present(path, head, size, truncated)
    called = facts.names or tuple(str(i) for i in range(head.channels))
    channels = channels_of(repr(path), head.channels, called, facts.units)
    opened = Opened(functools.partial(_mapped, path, head, n))
    source = WavSource(path, FORMAT, opened, head.channels, scaling=head.scaling(integers))
    signals = Sampling.even(head.rate, n).signals(source, channels)
    return Recording(path, FORMAT, signals, facts.start or head.start, notes=tuple(notes))


@dataclass(frozen=True)
class Head:
    """What the header says."""

    coding: int
    bits: int
    channels: int
    rate: float
    offset: int  # of the first sample, in bytes
    length: int | None  # of all samples, in bytes; None where it was not known
    start: datetime | None

    @property
    def frame(self) -> int:
        """Bytes of one sample of all channels."""
        return self.channels * self.bits // 8

    def scaling(self, integers: bool) -> Scaling:
        """From integers to fractions of full scale, or to integers without their middle."""
        unit = 1.0 if integers or self.coding == _FLOAT else 2.0 ** (1 - self.bits)
        return Scaling(unit, -128 * unit if self.bits == 8 else 0.0)


class WavSource(ArraySource):
    """Integers of three bytes are unpacked; up to 24 bits values are float32, which holds them exactly."""

    def stored(self, first: int, last: int, columns: Sequence[int]) -> NDArray[Any]:
        stored = super().stored(first, last, columns)
        if stored.dtype.kind != "V":
            return stored
        return int24(np.ascontiguousarray(stored).view(np.uint8).reshape(*stored.shape, 3))

    def rows(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        values = super().rows(first, last, columns)
        return values.astype(np.float32, copy=False) if self.opened.array().itemsize < 4 else values


def _mapped(path: str, head: Head, n: int) -> NDArray[Any]:
    dtype = np.dtype(_DTYPES[head.coding, head.bits])
    return np.memmap(path, dtype, "r", head.offset, (n, head.channels)) if n else np.zeros((0, head.channels), dtype)


def _samples_present(path: str, head: Head, size: int, truncated: str) -> tuple[int, list[str]]:
    """Samples of each channel that the file holds, checked against what its header says."""
    there = max(0, size - head.offset)
    if head.length is None:
        return there // head.frame, ["the header does not say how long it is: read to the end of the file"]
    promised, present = head.length // head.frame, min(head.length, there) // head.frame
    if present == promised:
        return promised, []
    found = f"is truncated: the header says {promised} samples, and the file holds {present}"
    return present, check_complete(path, truncated, found, f"the {present} samples")


def _read_head(path: str, size: int) -> Head:
    found: dict[bytes, bytes] = {}
    with builtins.open(path, "rb") as file:
        outer, _, kind = struct.unpack("<4sI4s", file.read(12).ljust(12, b"\0"))
        if outer not in (b"RIFF", b"RF64", b"BW64") or kind != b"WAVE":
            raise DataError(f"{path!r} is not WAV: it begins with {(outer + kind)!r} and not with RIFF and WAVE.")
        for name, length, offset in _chunks(path, file, size):
            if name == b"data":
                return _head(path, found, offset, length)
            if name in (b"fmt ", b"ds64", b"bext"):
                found[name] = file.read(min(length, 1024))
    raise DataError(f"{path!r} has no samples: there is no chunk 'data' in it.")


def _chunks(path: str, file: IO[bytes], size: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, length and place of each part of the file; parts begin at even bytes.

    A wrong length leads into the samples, where silence looks like millions of parts of no length.
    """
    place = 12
    for _ in range(_CHUNKS_AT_MOST):
        if place + 8 > size:
            return
        file.seek(place)
        name, length = struct.unpack("<4sI", file.read(8))
        if not all(32 <= letter < 127 for letter in name):
            raise DataError(
                f"{path!r} has a damaged header: at byte {place} a chunk begins with {name!r}, and not with a name of "
                "four letters. Copy or export it again."
            )
        yield name, length, place + 8
        place += 8 + length + length % 2
    raise DataError(f"{path!r} has more than {_CHUNKS_AT_MOST} chunks before its samples: its header is damaged.")


def _head(path: str, found: dict[bytes, bytes], offset: int, length: int) -> Head:
    if len(found.get(b"fmt ", b"")) < 16:
        raise DataError(f"{path!r} has no chunk 'fmt ' before its samples: nothing says what they are.")
    coding, channels, rate, _, _, bits = struct.unpack("<HHIIHH", found[b"fmt "][:16])
    if coding == _EXTENSIBLE and len(found[b"fmt "]) >= 26:
        coding = struct.unpack("<H", found[b"fmt "][24:26])[0]
    if (coding, bits) not in _DTYPES:
        raise DataError(
            f"{path!r} holds {_NAMES.get(coding, f'coding {coding}')} of {bits} bits; integers of 8, 16, 24 or 32 bits "
            "and floats of 32 or 64 are read. Convert it first."
        )
    if not channels or not rate:
        raise DataError(f"{path!r} says that it has {channels} channels at {rate} Hz.")
    known: int | None = length
    if length == _UNKNOWN and b"ds64" in found:
        known = struct.unpack("<Q", found[b"ds64"][8:16])[0]
    elif length in (0, _UNKNOWN):  # a program that wrote to a pipe, or was stopped before it could say
        known = None
    return Head(coding, bits, channels, float(rate), offset, known, _origination(found.get(b"bext", b"")))


def _origination(bext: bytes) -> datetime | None:
    """When a Broadcast WAV was begun: date and time are texts of 10 and 8 letters."""
    text = bext[320:338].decode("ascii", "replace")
    try:
        return datetime.fromisoformat(f"{text[:10].replace(':', '-')}T{text[10:].replace('-', ':')}")
    except ValueError:
        return None

"""WAV, RF64 and Broadcast WAV: sound, and whatever else was recorded with a sound card.

Integers of 8, 16, 24 and 32 bits are read as a fraction of full scale, from -1 to 1, and floats as they are; with
`integers=True` integers are read as they are stored (8 bits: less their middle, 128). The file is mapped, never loaded.
"""

import builtins
import os
import struct
from collections.abc import Sequence
from datetime import date, datetime

import numpy as np

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArraySource, Opened, Scaling
from dlcca.recordings.formats.checks import Damaged, Truncated, check_beginning, check_complete
from dlcca.recordings.formats.metadata import channels_of, from_options, moment
from dlcca.recordings.formats.recording import Recording, Sampling

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
    truncated: Truncated = "refuse",
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
    facts = from_options(start=start, names=names, unit=unit)
    size = os.path.getsize(path)
    chunks, offset, length = _read_header(path, size)
    coding, bits, width, rate = _coding(path, chunks.get(b"fmt ", b""))
    there, frame, dtype = max(0, size - offset), width * bits // 8, _DTYPES[coding, bits]
    n = min(there if length is None else length, there) // frame
    notes = ["the header does not say how long it is: read to the end of the file"] if length is None else []
    if length is not None and n < length // frame:
        found = f"is truncated: the header says {length // frame} samples, and the file holds {n}"
        notes = check_complete(path, truncated, found, f"the {n} samples")
    channels = channels_of(repr(path), width, facts.names or tuple(map(str, range(width))), facts.units)
    opened = Opened(np.memmap, path, dtype, "r", offset, (n, width)) if n else Opened(np.zeros, (n, width), dtype)
    full = 1.0 if integers or coding == _FLOAT else 2.0 ** (1 - bits)
    # 8 bits are stored without a sign; up to 24 bits, float32 holds a fraction of full scale exactly.
    scaling = Scaling(full, -128 * full if bits == 8 else 0.0, dtype=np.float32 if bits < 32 else np.float64)
    source = ArraySource(path, FORMAT, opened, width, scaling=scaling)
    # When a Broadcast WAV was begun: date and time are texts of 10 and 8 letters.
    text = chunks.get(b"bext", b"")[320:338].decode("ascii", "replace")
    begun = moment(f"{text[:10].replace(':', '-')}T{text[10:].replace('-', ':')}")
    signals = Sampling.even(rate, n).signals(source, channels)
    return Recording(path, FORMAT, signals, facts.start or begun, notes=tuple(notes))


def _read_header(path: str, size: int) -> tuple[dict[bytes, bytes], int, int | None]:
    """The chunks before the samples; place and length of these in bytes, None where it was not known."""
    # Chunks begin at even bytes.
    # A wrong length leads into the samples, where silence looks like millions of chunks of no length.
    found: dict[bytes, bytes] = {}
    with builtins.open(path, "rb") as file:
        outer, _, kind = struct.unpack("<4sI4s", file.read(12).ljust(12, b"\0"))
        check_beginning(path, outer + kind, FORMAT, b"RIFFWAVE", b"RF64WAVE", b"BW64WAVE")
        place = 12
        for _ in range(_CHUNKS_AT_MOST):
            if place + 8 > size:
                raise Damaged("has no samples: there is no chunk 'data' in it")
            file.seek(place)
            name, length = struct.unpack("<4sI", file.read(8))
            if not all(32 <= letter < 127 for letter in name):
                raise Damaged(
                    f"has a damaged header: at byte {place} a chunk begins with {name!r}, and not with a name of four "
                    "letters"
                )
            if name == b"data":
                known: int | None = length
                if length == _UNKNOWN and b"ds64" in found:
                    (known,) = struct.unpack("<Q", found[b"ds64"][8:16])
                elif length in (0, _UNKNOWN):  # a program that wrote to a pipe, or was stopped before it could say
                    known = None
                return found, place + 8, known
            if name in (b"fmt ", b"ds64", b"bext"):
                found[name] = file.read(min(length, 1024))
            place += 8 + length + length % 2
    raise Damaged(f"has a damaged header: there are more than {_CHUNKS_AT_MOST} chunks before its samples")


def _coding(path: str, form: bytes) -> tuple[int, int, int, float]:
    """How samples are coded: the number of the coding, bits, channels and rate."""
    if len(form) < 16:
        raise Damaged("has no chunk 'fmt ' before its samples: nothing says what they are")
    coding, channels, rate, _, _, bits = struct.unpack("<HHIIHH", form[:16])
    if coding == _EXTENSIBLE and len(form) >= 26:
        (coding,) = struct.unpack("<H", form[24:26])
    if (coding, bits) not in _DTYPES:
        raise DataError(
            f"{path!r} holds {_NAMES.get(coding, f'coding {coding}')} of {bits} bits; integers of 8, 16, 24 or 32 bits "
            "and floats of 32 or 64 are read. Convert it first."
        )
    if not channels or not rate:
        raise Damaged(f"says that it has {channels} channels at {rate} Hz")
    return coding, bits, channels, float(rate)

r"""The annotations of EDF+ and BDF+: lists of text in a signal of their own, one piece in each record.

A list is ``+onset[\x15duration]\x14text\x14...text\x14\x00``, in seconds after the start in the header. The first list
of each record has an empty first text and says when the record began.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings.formats.edf_header import Header
from dlcca.recordings.formats.recording import Annotation

_RECORDS = 1024  # read at a time, for a memory that does not grow with the file


@dataclass(frozen=True)
class Marks:
    """What the annotation signals hold, in seconds after the start in the header."""

    onsets: NDArray[np.float64]  # of the records; NaN where a record does not say
    annotations: tuple[Annotation, ...]
    unreadable: int  # lists that are not as they should be


def read_marks(path: str, header: Header, n_records: int) -> Marks:
    """When each record began, and the annotations in the order of their onsets."""
    onsets = np.full(n_records, np.nan)
    annotations: list[Annotation] = []
    unreadable = 0
    for record, place, text in _texts(path, header, n_records):
        lists = [piece for piece in text.split(b"\0") if piece]
        for number, piece in enumerate(lists):
            parsed = _parse(piece)
            if parsed is None:
                unreadable += 1
                continue
            onset, duration, texts = parsed
            if place == 0 and number == 0 and texts[:1] == [""]:
                onsets[record] = onset
            annotations += [Annotation(onset, duration, text) for text in texts if text]
    return Marks(onsets, tuple(sorted(annotations, key=lambda mark: mark.onset_s)), unreadable)


def _texts(path: str, header: Header, n_records: int) -> Iterator[tuple[int, int, bytes]]:
    """Each record's bytes of each annotation signal: the number of the record and of the signal among its like."""
    entries = [entry for entry in header.entries if entry.is_annotations]
    for first in range(0, n_records, _RECORDS):
        shape = (min(_RECORDS, n_records - first), header.record_bytes)
        # A map, given back after each piece: only the pages with text in them are read, and none are kept.
        records = np.memmap(path, np.uint8, "r", header.bytes + first * header.record_bytes, shape)
        for place, entry in enumerate(entries):
            width = entry.samples * header.sample_bytes
            for i, row in enumerate(np.array(records[:, entry.offset : entry.offset + width])):
                yield first + i, place, row.tobytes()


def _parse(piece: bytes) -> tuple[float, float, list[str]] | None:
    """Onset, duration and texts of one list; None where it is none."""
    head, *texts = piece.split(b"\x14")
    onset, _, duration = head.partition(b"\x15")
    if onset[:1] not in (b"+", b"-") or not texts:
        return None
    try:
        times = float(onset), float(duration or 0)
    except ValueError:
        return None
    if not np.isfinite(times).all():
        return None
    return *times, [_decode(text) for text in texts[:-1]] if not texts[-1] else [_decode(text) for text in texts]


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:  # written before EDF+ asked for UTF-8, or against it
        return text.decode("latin-1")

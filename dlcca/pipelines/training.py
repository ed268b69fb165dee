"""Rows of several recordings as one store of views: what a model is fitted to, and what is held out of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.storage import run as run_store
from dlcca.storage import views as store
from dlcca.storage.arrays import plain, replacing, seal, write_array

#: Bytes of a chunk, and of what is copied at a time.
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Piece:
    """Some rows, one after another, of a store of views."""

    store: str
    first: int
    last: int  # not included

    @property
    def rows(self) -> int:
        return self.last - self.first


def whole(address: str) -> Piece:
    """All rows of a store."""
    return Piece(address, 0, store.describe(address)["rows"])


def split(address: str, held_out: float) -> tuple[Piece, Piece]:
    """The rows of a store for the fit, and those at its end that are held out."""
    n = store.describe(address)["rows"]
    cut = n - int(held_out * n)
    return Piece(address, 0, cut), Piece(address, cut, n)


def join(place: Path, pieces: Sequence[Piece], made: Any) -> None:
    """Write the rows of all pieces, one after another, as a store of views; ``made`` says how they were treated.

    Unbroken stretches stay apart, so that no window of time crosses from one recording to the next.
    """
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    from dlcca.recordings.recorded_views import open_views

    pieces = [piece for piece in pieces if piece.rows]
    opened = [open_views(piece.store) for piece in pieces]
    n = sum(piece.rows for piece in pieces)
    inputs = hashlib.sha256(repr(pieces).encode()).hexdigest()
    with replacing(place, store.FORM) as aside:
        group: Any = zarr.create_group(str(aside), zarr_format=3)
        widths = {}
        for name in made.facts["views"]:
            d, dtype = opened[0][name].shape[1], opened[0][name].dtype
            widths[name] = d
            rows = max(1, min(n, CHUNK_BYTES // (d * dtype.itemsize)))
            array = group.create_array(
                f"views/{name}",
                shape=(n, d),
                chunks=(rows, d),
                dtype=dtype,
                compressors=[ZstdCodec(), Crc32cCodec()],
                config={"write_empty_chunks": True},  # then a chunk that is not there is known to be missing
                **store.array_of_view(inputs, dtype, finished=True),
            )
            _copy(array, [views[name] for views in opened], pieces, rows)
        small = {**_clock(opened, pieces), **made.scaling}
        manifest = {name: write_array(group, name, X) for name, X in small.items()}
        seal(
            group,
            store.FORM,
            plain({**_header(made, widths, _recordings(pieces), inputs, opened), "manifest": manifest}),
        )


def _copy(array: Any, sources: Sequence[Any], pieces: Sequence[Piece], rows: int) -> None:
    """Whole chunks, each written once, whatever the pieces that it is made of."""
    at, waiting, held = 0, [], 0
    for part in _parts(sources, pieces, rows):
        waiting.append(part)
        held += len(part)
        if held >= rows:
            block = np.concatenate(waiting)
            keep = held - held % rows
            array[at : at + keep] = block[:keep]
            at, waiting, held = at + keep, [block[keep:]], held - keep
    if held:
        array[at : at + held] = np.concatenate(waiting)


def _parts(sources: Sequence[Any], pieces: Sequence[Piece], rows: int) -> Iterator[np.ndarray]:
    for X, piece in zip(sources, pieces, strict=True):
        for first in range(piece.first, piece.last, rows):
            yield np.asarray(X[first : min(first + rows, piece.last)])


def _clock(opened: Sequence[Any], pieces: Sequence[Piece]) -> dict[str, np.ndarray]:
    """Times that rise through all pieces, and stretches that are counted through."""
    times, segments, end, count = [], [], 0.0, 0
    for views, piece in zip(opened, pieces, strict=True):
        rows = slice(piece.first, piece.last)
        time, segment = views.time[rows], views.segments[rows]
        times.append(time - time[0] + end)
        end = float(times[-1][-1]) + 1.0
        segments.append(segment - segment[0] + count)
        count = int(segments[-1][-1]) + 1
    n = sum(map(len, times))
    return {
        "time": np.concatenate(times),
        "reason": np.zeros(n, np.uint8),
        "segment": np.concatenate(segments).astype(np.int64),
        "rows": np.arange(n),
    }


def rows_of_recordings(address: str) -> list[int]:
    """How many rows of a store are of each recording, in their order."""
    header = store.describe(address)
    return list(header.get("recordings", [header["rows"]]))


def _recordings(pieces: Sequence[Piece]) -> list[int]:
    """The same for pieces, of which some may be whole stores of several recordings."""
    found: list[int] = []
    for piece in pieces:
        each = rows_of_recordings(piece.store)
        found += each if piece.rows == sum(each) else [piece.rows]
    return found


def _header(
    made: Any, widths: dict[str, int], recordings: list[int], inputs: str, opened: Sequence[Any]
) -> dict[str, Any]:
    n = sum(recordings)
    views = {
        name: {
            **view,
            "width": widths[name],
            "features": view["recipe"]["features"],
            "scaling": view["recipe"]["scaling"],
            "finished": True,
        }
        for name, view in made.facts["views"].items()
    }
    return {
        "start": None,
        "time_unit": "s",
        "window_s": made.facts["window_s"],
        "step_s": made.facts["step_s"],
        "windows": n,
        "rows": n,
        "segments": len(opened),
        "recordings": recordings,
        "reasons": {"valid": n},
        "views": views,
        "files": [],
        "annotations": [],
        "notes": ["rows of several recordings, one after another"],
        "fingerprint": inputs,
        "versions": run_store.versions(),
    }

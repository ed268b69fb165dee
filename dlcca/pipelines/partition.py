"""The rows of a day, written aside: a store of coordinates like those of ``dlcca transform``, and a Parquet file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from dlcca.errors import StoreFileError
from dlcca.export.results import needed
from dlcca.storage import run as run_store
from dlcca.storage import transformed
from dlcca.storage.arrays import open_sealed, plain, replacing, seal
from dlcca.storage.views import Reason

#: Rows of a chunk, and of what is held at a time.
ROWS = 65_536
#: In a partition, besides those of every store of coordinates: which of its recordings a row is of.
RECORDING = "recording"


@dataclass(frozen=True)
class Day:
    """A day and its recordings (rows of the catalog), in the order of their starts."""

    day: str
    version: str  # fingerprint of what is in it
    recordings: Sequence[dict[str, Any]]
    begins_h: float = 0.0

    @property
    def begin(self) -> datetime:
        return datetime.combine(date.fromisoformat(self.day), time(), UTC) + timedelta(hours=self.begins_h)

    def offset_s(self, recording: dict[str, Any]) -> float:
        """From the beginning of the day to that of a recording; 0 if it is not known when it began."""
        if recording["start"] is None:
            return 0.0
        return (datetime.fromisoformat(recording["start"]) - self.begin).total_seconds()


@dataclass(frozen=True)
class Part:
    """Some rows of one recording, with all that is told of them; arrays (b, ...) by name."""

    recording: int  # its place among those of the day
    arrays: dict[str, np.ndarray]


def parts(day: Day) -> Iterator[Part]:
    """All rows of a day in order, some at a time; the results are checked while they are read."""
    for place, recording in enumerate(day.recordings):
        group, header = open_sealed(recording["result"], transformed.FORM)
        made = {name: hashlib.sha256(_head(group[name])) for name in transformed.ARRAYS}
        n = int(group["time"].shape[0])
        for first in range(0, n, ROWS):
            try:
                arrays = {name: np.asarray(group[name][first : first + ROWS]) for name in transformed.ARRAYS}
            except OSError:
                raise
            except Exception as error:  # each codec complains in its own way
                raise StoreFileError(f"{recording['result']} is damaged: {str(error).rstrip('.')}.") from error
            for name, X in arrays.items():
                made[name].update(np.ascontiguousarray(X).data)
            arrays["time"] = arrays["time"] + day.offset_s(recording)
            arrays[RECORDING] = np.full(len(arrays["time"]), place, np.int32)
            yield Part(place, arrays)
        for name, digest in made.items():
            if digest.hexdigest() != header["manifest"][name]:
                raise StoreFileError(f"array {name!r} of {recording['result']} is damaged.")


def _head(array: Any) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode()


def write_zarr(day: Day, place: Path) -> None:
    """The day as a store of coordinates, with an array ``recording``; it is there whole or not at all."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    n, (q, dtype) = sum(recording["rows"] for recording in day.recordings), _form(day)
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "embedding": ((n, q), dtype),
        "time": ((n,), "float64"),
        "reason": ((n,), "uint8"),
        "distance": ((n,), "float64"),
        "outside": ((n,), "bool"),
        RECORDING: ((n,), "int32"),
    }
    with replacing(place, transformed.FORM) as aside:
        group = zarr.create_group(str(aside), zarr_format=3)
        arrays: dict[str, Any] = {
            name: group.create_array(
                name,
                shape=shape,
                chunks=(min(n, ROWS), *shape[1:]),
                dtype=dtype,
                compressors=[ZstdCodec(), Crc32cCodec()],
                config={"write_empty_chunks": True},  # then a chunk that is not there is known to be missing
            )
            for name, (shape, dtype) in shapes.items()
        }
        digests = {name: hashlib.sha256(_head(array)) for name, array in arrays.items()}
        at = 0
        for part in parts(day):
            for name, X in part.arrays.items():
                X = np.ascontiguousarray(X, dtype=arrays[name].dtype)
                arrays[name][at : at + len(X)] = X
                digests[name].update(X.data)
            at += len(part.arrays["time"])
        manifest = {name: made.hexdigest() for name, made in digests.items()}
        seal(group, transformed.FORM, plain({**_header(day), "manifest": manifest}))


def _form(day: Day) -> tuple[int, np.dtype]:
    """Coordinates of a row, and their type."""
    arrays = [open_sealed(recording["result"], transformed.FORM)[0]["embedding"] for recording in day.recordings]
    widths = {int(array.shape[1]) for array in arrays}
    if len(widths) > 1:
        raise StoreFileError(
            f"the results of {day.day} have {sorted(widths)} coordinates, as they are of models of other settings; "
            "embed them again (dlcca pipeline backfill)."
        )
    return widths.pop(), np.result_type(*(array.dtype for array in arrays))


def _header(day: Day) -> dict[str, Any]:
    opened = [open_sealed(recording["result"], transformed.FORM)[1] for recording in day.recordings]
    told = [
        {
            "path": recording["path"],
            "content": recording["content"],
            "start": recording["start"],
            "rows": recording["rows"],
            "valid": recording["valid"],
            "outside": recording["outside"],
            "model": recording["model"],
        }
        for recording in day.recordings
    ]
    return {
        "day": day.day,
        "recordings": told,
        "model": ", ".join(sorted({PurePath(header["model"]).name for header in opened})),  # in the folder of models
        "models": sorted({recording["model"] for recording in day.recordings}),
        "model_checksum": sorted({header["model_checksum"] for header in opened}),
        "views": opened[0]["views"],
        "missing_views": sorted({view for header in opened for view in header["missing_views"]}),
        "time_unit": "s",
        "start": day.begin.isoformat(),
        "step_s": opened[0]["step_s"],
        "samples": sum(recording["rows"] for recording in day.recordings),
        "valid": sum(recording["valid"] for recording in day.recordings),
        "outside": sum(recording["outside"] for recording in day.recordings),
        "fingerprint": day.version,
        "stages": [],  # it is put together here, from results that were made by stages
        "versions": run_store.versions(),
    }


def write_parquet(day: Day, place: Path) -> None:
    """The day as a Parquet file, a row group for each part that is read."""
    arrow = needed("pyarrow", "parquet", "writing Parquet")
    parquet = needed("pyarrow.parquet", "parquet", "writing Parquet")
    q, dtype = _form(day)
    number = arrow.float32() if dtype.itemsize <= 4 else arrow.float64()
    fields = [("time", arrow.timestamp("us", tz="UTC")), ("seconds", arrow.float64())]
    fields += [(f"c{i}", number) for i in range(1, q + 1)]
    fields += [("reason", arrow.string()), ("outside", arrow.bool_()), ("distance", arrow.float64())]
    schema = arrow.schema([*fields, ("file", arrow.string()), ("model", arrow.int32())])
    schema = schema.with_metadata({"dlcca_day": day.day, "dlcca_fingerprint": day.version})
    with parquet.ParquetWriter(str(place), schema, compression="zstd") as file:
        for part in parts(day):
            columns = _columns(day, part, q)
            file.write_table(arrow.table({name: arrow.array(X, from_pandas=True) for name, X in columns.items()},
                                         schema=schema))  # fmt: skip


def _columns(day: Day, part: Part, q: int) -> dict[str, Any]:
    recording, arrays = day.recordings[part.recording], part.arrays
    words = np.array([reason.name.lower() for reason in sorted(Reason)])
    begin = np.datetime64(day.begin.replace(tzinfo=None), "us")
    n = len(arrays["time"])
    return {
        "time": begin + np.rint(arrays["time"] * 1e6).astype("timedelta64[us]"),
        "seconds": arrays["time"],
        **{f"c{i}": arrays["embedding"][:, i - 1] for i in range(1, q + 1)},
        "reason": words[arrays["reason"]],
        "outside": arrays["outside"],
        "distance": arrays["distance"],
        "file": np.full(n, recording["path"].rsplit("/", 1)[-1]),
        "model": np.full(n, recording["model"], np.int32),
    }

"""Publication of days: a partition is written aside and moved into place, so that readers never see half of one.

A Zarr group is published by replacing a link, a Parquet file by a rename. Processes that have the earlier version open
can read it until the retention removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from dlcca.errors import StorageError, StoreFileError
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.recordings import MOST_ATTEMPTS
from dlcca.storage.places import refuse_file

if TYPE_CHECKING:
    import numpy as np

#: Rows of a chunk, and of what is in memory at a time.
ROWS = 65_536
#: The array of a partition that other stores of coordinates do not have: the index of the recording of each row.
RECORDING = "recording"


def due(pipeline: Pipeline) -> list[str]:
    """Days whose partition is missing or not up to date, in order; without days that wait for a recording."""
    published = {row["day"]: row["version"] for row in pipeline.catalog.all("SELECT day, version FROM partitions")}
    query = "SELECT DISTINCT day FROM recordings WHERE status = 'new' OR (status = 'failed' AND attempts < ?)"
    waiting = {row["day"] for row in pipeline.catalog.all(query, [MOST_ATTEMPTS])}
    wanted = {day: _version(rows) for day, rows in _finished(pipeline).items()}
    found = []
    for day in sorted((wanted.keys() | published.keys()) - waiting):
        if wanted.get(day) != published.get(day) or not all(place.exists() for place in places(pipeline, day)):
            found.append(day)
    return found


def _finished(pipeline: Pipeline, day: str = "%") -> dict[str, list[Row]]:
    """The finished recordings of every day, or of one, in order of start."""
    query = "SELECT * FROM recordings WHERE status = 'done' AND day LIKE ? ORDER BY day, start IS NULL, start, path"
    found: dict[str, list[Row]] = defaultdict(list)
    for row in pipeline.catalog.all(query, [day]):
        found[row["day"]].append(row)
    return found


def _of_day(pipeline: Pipeline, day: str) -> list[Row]:
    """The finished recordings of a day, with absolute paths."""
    return [pipeline.located(row) for row in _finished(pipeline, day)[day]]


def _version(rows: list[Row]) -> str:
    """A fingerprint of the content of a partition."""
    content = [[row["content"], row["model"], row["settings"], row["path"]] for row in rows]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def places(pipeline: Pipeline, day: str) -> list[Path]:
    """Where the partition of a day is published."""
    outputs, found = pipeline.settings.outputs, []
    if outputs.zarr:
        found.append(pipeline.settings.place(outputs.zarr) / f"{day}.zarr")
    if outputs.parquet:
        found.append(pipeline.settings.place(outputs.parquet) / f"date={day}" / "rows.parquet")
    return found


def publish(pipeline: Pipeline, day: str) -> None:
    """Publish, update or withdraw the partition of a day."""
    rows = _of_day(pipeline, day)
    made = Day(day, _version(rows), rows, pipeline.settings.outputs.day_begins_h)
    try:
        if not rows:
            _withdraw(pipeline, day)
            return
        _put_in_place(pipeline, made)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"{day} cannot be published: {error.strerror or error}. What was published before is unchanged."
        ) from error
    with pipeline.catalog.change():
        n, models = sum(row["rows"] for row in rows), sorted({row["model"] for row in rows})
        pipeline.catalog.do("DELETE FROM partitions WHERE day = ?", [day])
        row = {"day": day, "version": made.version, "recordings": len(rows), "rows": n}
        pipeline.catalog.insert("partitions", {**row, "models": json.dumps(models), "published": iso(pipeline.now)})
        text = f"{day} is published: {len(rows)} recording{'s' * (len(rows) != 1)}, {n} rows."
        pipeline.note("published", text, day=day)


def repeat_damaged(pipeline: Pipeline, day: str) -> None:
    """Mark recordings of a day with damaged results to be embedded again by the next run, if their files exist."""
    for row in _of_day(pipeline, day):
        known = pipeline.catalog.value("SELECT 1 FROM files WHERE content = ? AND state = 'known'", [row["content"]])
        if known and not _is_intact(row["result"]):
            pipeline.remove(row["result"])
            with pipeline.catalog.change():
                pipeline.catalog.update("recordings", {"status": "new", "result": None, "attempts": 0}, id=row["id"])
                text = f"The result of {row['path']} is damaged; the next run computes it again."
                pipeline.note("damaged", text, row)


def _is_intact(result: str) -> bool:
    from dlcca.storage import transformed

    try:
        return not any(transformed.damages(result).values())
    except StoreFileError:
        return False


def _put_in_place(pipeline: Pipeline, day: Day) -> None:
    """Write both forms aside, and move them into place only when both are complete."""
    with ExitStack() as leftovers:
        moves: list[tuple[Path, Path]] = []
        if pipeline.settings.outputs.parquet:
            moves.append(_parquet_aside(pipeline, day, leftovers))
        if pipeline.settings.outputs.zarr:
            moves.append(_zarr_aside(pipeline, day, leftovers))
        for aside, place in moves:
            os.replace(aside, place)


def _zarr_aside(pipeline: Pipeline, day: Day, leftovers: ExitStack) -> tuple[Path, Path]:
    """Write a version of the day; a new link to it, and the link that it replaces."""
    from dlcca.storage import transformed

    folder = pipeline.settings.place(pipeline.settings.outputs.zarr)
    target = folder / ".versions" / f"{day.day}-{day.version[:16]}.zarr"
    if not transformed.is_transformed(str(target)):  # it exists if a run was stopped right after writing it
        write_zarr(day, target)
    link = folder / f"{day.day}.zarr"
    aside = _link_aside(pipeline, link, Path(".versions") / target.name)
    leftovers.callback(pipeline.remove, aside)
    return aside, link


def point(pipeline: Pipeline, link: Path, target: Path) -> None:
    """Change the target of a link atomically."""
    if not (link.is_symlink() and os.readlink(link) == str(target)):
        os.replace(_link_aside(pipeline, link, target), link)


def _link_aside(pipeline: Pipeline, link: Path, target: Path) -> Path:
    """A link that is to replace another one; an error if something else is in its place."""
    if link.exists() and not link.is_symlink():
        raise StorageError(f"{link} exists and is not a link made by this pipeline; move it away.")
    aside = link.with_name(f".{link.name}.new")
    pipeline.remove(aside)
    os.symlink(target, aside)
    return aside


def _parquet_aside(pipeline: Pipeline, day: Day, leftovers: ExitStack) -> tuple[Path, Path]:
    """Write a file to a folder that readers ignore; the file, and its final place."""
    from dlcca.export.formats import is_known_parquet

    folder = pipeline.settings.place(pipeline.settings.outputs.parquet)
    aside = folder / ".aside" / f"{day.day}.parquet"
    aside.parent.mkdir(parents=True, exist_ok=True)
    leftovers.callback(pipeline.remove, aside)
    write_parquet(day, aside)
    with open(aside, "rb") as file:
        os.fsync(file.fileno())
    place = folder / f"date={day.day}" / "rows.parquet"
    known = pipeline.catalog.one("SELECT 1 FROM partitions WHERE day = ?", [day.day]) is not None
    is_ours = partial(is_known_parquet, mark="dlcca_day")
    noun = "the Parquet file of a day that this pipeline has published"
    refuse_file(place, lambda path: known or is_ours(path), noun, setting="[outputs] parquet")
    place.parent.mkdir(exist_ok=True)
    leftovers.callback(_remove_if_empty, place.parent)
    return aside, place


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _withdraw(pipeline: Pipeline, day: str) -> None:
    """Remove the partition of a day without recordings: all were replaced by recordings of other days."""
    for place in places(pipeline, day):
        pipeline.remove(place)
        if place.name == "rows.parquet":
            _remove_if_empty(place.parent)
    with pipeline.catalog.change():
        pipeline.catalog.do("DELETE FROM partitions WHERE day = ?", [day])
        pipeline.note("withdrawn", f"{day} is withdrawn: it has no recordings any more.", day=day)


# The rows of a day, as a store of coordinates like those of `dlcca transform`, and as a Parquet file.


@dataclass(frozen=True)
class Day:
    """A day and its recordings (rows of the catalog), in order of start."""

    day: str
    version: str  # fingerprint of its content
    recordings: Sequence[Row]
    begins_h: float = 0.0

    @property
    def begin(self) -> datetime:
        return datetime.combine(date.fromisoformat(self.day), time(), UTC) + timedelta(hours=self.begins_h)

    def offset_s(self, recording: Row) -> float:
        """From the beginning of the day to that of a recording; 0 if its start is not known."""
        if recording["start"] is None:
            return 0.0
        return (datetime.fromisoformat(recording["start"]) - self.begin).total_seconds()

    def total(self, column: str) -> int:
        """The sum of a column over the recordings."""
        return sum(recording[column] for recording in self.recordings)


def parts(day: Day) -> Iterator[tuple[Row, dict[str, np.ndarray]]]:
    """All rows of a day in order, at most `ROWS` at a time: their recording, and arrays (b, ...) by name.

    The checksums of the results are verified on the way.
    """
    import numpy as np

    from dlcca.storage import transformed
    from dlcca.storage.formats import open_sealed, read_rows

    form = transformed.FORM
    for place, recording in enumerate(day.recordings):
        result = recording["result"]
        group, header = open_sealed(result, form)
        try:
            for _, arrays in read_rows(group, transformed.ARRAYS, header["manifest"], result, form, step=ROWS):
                arrays["time"] = arrays["time"] + day.offset_s(recording)
                arrays[RECORDING] = np.full(len(arrays["time"]), place, np.int32)
                yield recording, arrays
        except StoreFileError as error:
            if isinstance(error.__cause__, OSError):  # the disk failed; the result may be intact
                raise error.__cause__ from error
            raise StoreFileError(f"{result} is damaged: {error}") from error


def write_zarr(day: Day, place: Path) -> None:
    """Write the day as a store of coordinates with an array ``recording``, completely or not at all."""
    import numpy as np
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    from dlcca.storage import transformed
    from dlcca.storage.formats import plain, seal
    from dlcca.storage.manifest import new_hash
    from dlcca.storage.places import replacing

    n, dtype = day.total("rows"), _shape(day)[1]
    with replacing(place, transformed.FORM) as aside:
        group: Any = zarr.create_group(str(aside), zarr_format=3)
        arrays: dict[str, Any] = {}
        digests: dict[str, Any] = {}
        at = 0
        for _, part in parts(day):
            part["embedding"] = part["embedding"].astype(dtype)
            for name, X in part.items():
                if name not in arrays:
                    arrays[name] = group.create_array(
                        name,
                        shape=(n, *X.shape[1:]),
                        chunks=(min(n, ROWS), *X.shape[1:]),
                        dtype=X.dtype,
                        compressors=[ZstdCodec(), Crc32cCodec()],
                        config={"write_empty_chunks": True},  # so that an absent chunk is known to be missing
                    )
                    digests[name] = new_hash(arrays[name])
                arrays[name][at : at + len(X)] = X
                digests[name].update(np.ascontiguousarray(X).data)
            at += len(part["time"])
        manifest = {name: made.hexdigest() for name, made in digests.items()}
        seal(group, transformed.FORM, plain({**_header(day), "manifest": manifest}))


def _shape(day: Day) -> tuple[int, np.dtype]:
    """Number of coordinates, and their dtype."""
    import numpy as np

    from dlcca.storage import transformed
    from dlcca.storage.formats import open_sealed

    arrays = [open_sealed(recording["result"], transformed.FORM)[0]["embedding"] for recording in day.recordings]
    widths = {int(array.shape[1]) for array in arrays}
    if len(widths) > 1:
        raise StoreFileError(
            f"the results of {day.day} have {sorted(widths)} coordinates, because their models have different "
            "settings; embed them again (dlcca pipeline backfill)."
        )
    return widths.pop(), np.result_type(*(array.dtype for array in arrays))


def _header(day: Day) -> dict[str, Any]:
    from dlcca.storage import run as run_store
    from dlcca.storage import transformed

    headers = [transformed.describe(recording["result"]) for recording in day.recordings]
    columns = ("path", "content", "start", "rows", "valid", "outside", "model")
    return {
        "day": day.day,
        "recordings": [{name: recording[name] for name in columns} for recording in day.recordings],
        "model": ", ".join(sorted({PurePath(header["model"]).name for header in headers})),  # in the folder of models
        "models": sorted({recording["model"] for recording in day.recordings}),
        "model_checksum": sorted({header["model_checksum"] for header in headers}),
        "views": headers[0]["views"],
        "missing_views": sorted({view for header in headers for view in header["missing_views"]}),
        "time_unit": "s",
        "start": day.begin.isoformat(),
        "step_s": headers[0]["step_s"],
        "samples": day.total("rows"),
        "valid": day.total("valid"),
        "outside": day.total("outside"),
        "fingerprint": day.version,
        "stages": [],
        "versions": run_store.versions(),
    }


def write_parquet(day: Day, place: Path) -> None:
    """Write the day as a Parquet file, with a row group for each part that is read."""
    from dlcca.export.formats import needed

    arrow = needed("pyarrow", "parquet", "writing Parquet")
    parquet = needed("pyarrow.parquet", "parquet", "writing Parquet")
    q, dtype = _shape(day)
    number = arrow.float32() if dtype.itemsize <= 4 else arrow.float64()
    fields = [("time", arrow.timestamp("us", tz="UTC")), ("seconds", arrow.float64())]
    fields += [(f"c{i}", number) for i in range(1, q + 1)]
    fields += [("reason", arrow.string()), ("outside", arrow.bool_()), ("distance", arrow.float64())]
    schema = arrow.schema([*fields, ("file", arrow.string()), ("model", arrow.int32())])
    schema = schema.with_metadata({"dlcca_day": day.day, "dlcca_fingerprint": day.version})
    with parquet.ParquetWriter(str(place), schema, compression="zstd") as file:
        for recording, part in parts(day):
            columns = _columns(day, recording, part, q)
            arrays = {name: arrow.array(X, from_pandas=True) for name, X in columns.items()}
            file.write_table(arrow.table(arrays, schema=schema))


def _columns(day: Day, recording: Row, part: dict[str, np.ndarray], q: int) -> dict[str, Any]:
    import numpy as np

    from dlcca.storage.views import Reason

    words = np.array([reason.name.lower() for reason in sorted(Reason)])
    begin = np.datetime64(day.begin.replace(tzinfo=None), "us")
    n = len(part["time"])
    return {
        "time": begin + np.rint(part["time"] * 1e6).astype("timedelta64[us]"),
        "seconds": part["time"],
        **{f"c{i}": part["embedding"][:, i - 1] for i in range(1, q + 1)},
        "reason": words[part["reason"]],
        "outside": part["outside"],
        "distance": part["distance"],
        "file": np.full(n, recording["path"].rsplit("/", 1)[-1]),
        "model": np.full(n, recording["model"], np.int32),
    }

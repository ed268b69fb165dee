"""Publication of days: a partition is written aside and moved into place, so that readers never see half of one.

A Zarr group is published by replacing a link, a Parquet file by a rename. Processes that have the earlier version open
can read it until the retention removes it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import StorageError, StoreFileError
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import IN_TIME, Pipeline, folders
from dlcca.pipelines.recordings import MOST_ATTEMPTS
from dlcca.storage import transformed
from dlcca.storage.files import storage_errors
from dlcca.storage.formats import new_array, open_sealed, plain, read_rows, seal
from dlcca.storage.manifest import digest_of_facts, new_hash
from dlcca.storage.places import refuse_file, replacing

#: Rows of a chunk, and of what is in memory at a time.
ROWS = 65_536
#: The array of a partition that other stores of coordinates do not have: the index of the recording of each row.
RECORDING = "recording"


@dataclass(frozen=True)
class Day:
    """A day and its recordings (rows of the catalog), in order of start."""

    day: str
    version: str  # fingerprint of its content
    recordings: Sequence[Row]
    begin: datetime

    def total(self, column: str) -> int:
        """The sum of a column over the recordings."""
        return sum(recording[column] for recording in self.recordings)


def due(pipeline: Pipeline) -> list[str]:
    """Days whose partition is missing or not up to date, in order; without days that wait for a recording."""
    catalog = pipeline.catalog
    published = {row["day"]: row["version"] for row in catalog.all("SELECT day, version FROM partitions")}
    query = "SELECT DISTINCT day FROM recordings WHERE status = 'new' OR (status = 'failed' AND attempts < ?)"
    waiting = {row["day"] for row in catalog.all(query, [MOST_ATTEMPTS])}
    done = catalog.all(f"SELECT * FROM recordings WHERE status = 'done' ORDER BY {IN_TIME}")
    wanted = {day: _version(rows) for day, rows in groupby(done, key=itemgetter("day"))}
    return [
        day
        for day in sorted((wanted.keys() | published.keys()) - waiting)
        if wanted.get(day) != published.get(day) or not all(place.exists() for place in places(pipeline, day).values())
    ]


def _version(rows: Iterable[Row]) -> str:
    """A fingerprint of the content of a partition."""
    return digest_of_facts([[row["content"], row["model"], row["settings"], row["path"]] for row in rows])


def places(pipeline: Pipeline, day: str) -> dict[str, Path]:
    """Where the partition of a day is published, by form."""
    roots, names = folders(pipeline.settings), {"Zarr": f"{day}.zarr", "Parquet": f"date={day}/rows.parquet"}
    return {form: roots[form.lower()] / name for form, name in names.items() if form.lower() in roots}


def publish(pipeline: Pipeline, day: str) -> None:
    """Publish, update or withdraw the partition of a day."""
    rows = pipeline.recordings("status = 'done' AND day = ?", day)
    begin = datetime.combine(date.fromisoformat(day), time(), UTC)
    made = Day(day, _version(rows), rows, begin + timedelta(hours=pipeline.settings.outputs.day_begins_h))
    with storage_errors(day, "published", " What was published before is unchanged."):
        if rows:
            _put_in_place(pipeline, made)
        else:  # all were replaced by recordings of other days
            for form, place in places(pipeline, day).items():
                pipeline.remove(place)
                if form == "Parquet":
                    _remove_if_empty(place.parent)
    with pipeline.catalog.change():
        pipeline.catalog.do("DELETE FROM partitions WHERE day = ?", [day])
        if not rows:
            pipeline.note("withdrawn", f"{day} is withdrawn: it has no recordings any more.", day=day)
            return
        row = {"day": day, "version": made.version, "recordings": len(rows), "rows": made.total("rows")}
        models = json.dumps(sorted({row["model"] for row in rows}))
        pipeline.catalog.insert("partitions", {**row, "models": models, "published": iso(pipeline.now)})
        text = f"{day} is published: {len(rows)} recording{'s' * (len(rows) != 1)}, {row['rows']} rows."
        pipeline.note("published", text, day=day)


def repeat_damaged(pipeline: Pipeline, day: str) -> None:
    """Mark recordings of a day with damaged results to be embedded again by the next run, if their files exist."""
    for row in pipeline.recordings("status = 'done' AND day = ?", day):
        known = pipeline.catalog.value("SELECT 1 FROM files WHERE content = ? AND state = 'known'", [row["content"]])
        with suppress(StoreFileError):
            if not known or not any(transformed.damages(row["result"]).values()):
                continue
        pipeline.remove(row["result"])
        with pipeline.catalog.change():
            pipeline.catalog.update("recordings", {"status": "new", "result": None, "attempts": 0}, id=row["id"])
            text = f"The result of {row['path']} is damaged; the next run computes it again."
            pipeline.note("damaged", text, row)


def _put_in_place(pipeline: Pipeline, day: Day) -> None:
    """Write both forms aside, and move them into place only when both are complete."""
    from dlcca.export.formats import is_known_parquet

    found, moves = places(pipeline, day.day), []
    with ExitStack() as leftovers:
        if "Parquet" in found:  # from a folder that readers ignore
            place = found["Parquet"]
            aside = place.parents[1] / ".aside" / f"{day.day}.parquet"
            aside.parent.mkdir(parents=True, exist_ok=True)
            leftovers.callback(pipeline.remove, aside)
            write_parquet(day, aside)
            with open(aside, "rb") as file:
                os.fsync(file.fileno())
            known = pipeline.catalog.value("SELECT 1 FROM partitions WHERE day = ?", [day.day])
            noun = "the Parquet file of a day that this pipeline has published"
            is_ours = partial(is_known_parquet, mark="dlcca_day")
            refuse_file(place, (lambda _: True) if known else is_ours, noun, setting="[outputs] parquet")
            place.parent.mkdir(exist_ok=True)
            leftovers.callback(_remove_if_empty, place.parent)
            moves.append((aside, place))
        if "Zarr" in found:  # a new version, and a link to it
            place, target = found["Zarr"], Path(".versions") / f"{day.day}-{day.version[:16]}.zarr"
            version = place.parent / target
            if not transformed.is_transformed(str(version)):  # it exists if a run was stopped right after writing it
                write_zarr(day, version)
            aside = _link_aside(pipeline, place, target)
            leftovers.callback(pipeline.remove, aside)
            moves.append((aside, place))
        for aside, place in moves:
            os.replace(aside, place)


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


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


# The rows of a day, as a store of coordinates like those of `dlcca transform`, and as a Parquet file.


def parts(day: Day) -> Iterator[tuple[Row, dict[str, NDArray]]]:
    """All rows of a day in order, verified, at most `ROWS` at a time: their recording, and arrays (b, ...) by name."""
    form = transformed.FORM
    stores = [open_sealed(recording["result"], form) for recording in day.recordings]
    widths = {int(group["embedding"].shape[1]) for group, _ in stores}
    if len(widths) > 1:
        raise StoreFileError(
            f"the results of {day.day} have {sorted(widths)} coordinates, because their models have different "
            "settings; embed them again (dlcca pipeline backfill)."
        )
    dtype = np.result_type(*(group["embedding"].dtype for group, _ in stores))
    for place, (recording, (group, header)) in enumerate(zip(day.recordings, stores, strict=True)):
        start, result = recording["start"], recording["result"]
        offset_s = 0.0 if start is None else (datetime.fromisoformat(start) - day.begin).total_seconds()
        try:
            for _, arrays in read_rows(group, transformed.ARRAYS, header["manifest"], result, form, step=ROWS):
                arrays["embedding"] = arrays["embedding"].astype(dtype, copy=False)
                arrays["time"] = arrays["time"] + offset_s
                arrays[RECORDING] = np.full(len(arrays["time"]), place, np.int32)
                yield recording, arrays
        except StoreFileError as error:
            if isinstance(error.__cause__, OSError):  # the disk failed; the result may be intact
                raise error.__cause__ from error
            raise StoreFileError(f"{result} is damaged: {error}") from error


def write_zarr(day: Day, place: Path) -> None:
    """Write the day as a store of coordinates with an array ``recording``, completely or not at all."""
    with replacing(place, transformed.FORM) as group:
        arrays: dict[str, Any] = {}
        digests: dict[str, Any] = {}
        at = 0
        for _, part in parts(day):
            for name, X in part.items():
                if name not in arrays:
                    arrays[name] = new_array(group, name, (day.total("rows"), *X.shape[1:]), X.dtype, ROWS)
                    digests[name] = new_hash(arrays[name])
                arrays[name][at : at + len(X)] = X
                digests[name].update(np.ascontiguousarray(X).data)
            at += len(part["time"])
        manifest = {name: made.hexdigest() for name, made in digests.items()}
        seal(group, transformed.FORM, plain({**_header(day), "manifest": manifest}))


def _header(day: Day) -> dict[str, Any]:
    from dlcca.storage import run

    headers = [transformed.describe(recording["result"]) for recording in day.recordings]
    columns = ("path", "content", "start", "rows", "valid", "outside", "model")
    facts = {"day": day.day, "fingerprint": day.version, "start": day.begin.isoformat(), "time_unit": "s", "stages": []}
    totals = {"samples": day.total("rows"), "valid": day.total("valid"), "outside": day.total("outside")}
    return {
        **facts,
        **totals,
        **{name: headers[0][name] for name in ("views", "step_s")},
        "recordings": [{name: recording[name] for name in columns} for recording in day.recordings],
        "model": ", ".join(sorted({PurePath(header["model"]).name for header in headers})),  # in the folder of models
        "models": sorted({recording["model"] for recording in day.recordings}),
        "model_checksum": sorted({header["model_checksum"] for header in headers}),
        "missing_views": sorted({view for header in headers for view in header["missing_views"]}),
        "versions": run.versions(),
    }


def write_parquet(day: Day, place: Path) -> None:
    """Write the day as a Parquet file, with a row group for each part that is read."""
    from dlcca.export.formats import columns, write_table

    def tables() -> Iterator[dict[str, NDArray]]:
        for recording, part in parts(day):
            n, file = len(part["time"]), recording["path"].rsplit("/", 1)[-1]
            more = {"file": np.full(n, file), "model": np.full(n, recording["model"], np.int32)}
            yield {**columns(part, day.begin), "distance": part["distance"], **more}

    write_table(place, tables(), {"dlcca_day": day.day, "dlcca_fingerprint": day.version})

"""Days for those who read them: written aside, then put in place in one move, so that nobody ever sees half of one.

A Zarr group is published by a link that is replaced, a Parquet file by a rename. What was there before stays readable
for those who have it open, until the retention removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from dlcca.errors import StorageError, StoreFileError
from dlcca.export.tables import is_known_parquet
from dlcca.pipelines import folders
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.status import MOST_ATTEMPTS
from dlcca.storage import places as places_of


def due(flow: Pipeline) -> list[str]:
    """The days whose partition is not what it should be, in order; days that wait for a recording are left alone."""
    published = {row["day"]: row["version"] for row in flow.catalog.all("SELECT day, version FROM partitions")}
    query = "SELECT DISTINCT day FROM recordings WHERE status = 'new' OR (status = 'failed' AND attempts < ?)"
    waiting = {row["day"] for row in flow.catalog.all(query, [MOST_ATTEMPTS])}
    wanted = {day: _version(rows) for day, rows in _contents(flow).items()}
    found = []
    for day in sorted((wanted.keys() | published.keys()) - waiting):
        if wanted.get(day) != published.get(day) or not all(place.exists() for place in places(flow, day)):
            found.append(day)
    return found


def _contents(flow: Pipeline, day: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """The finished recordings of every day, in the order of their starts."""
    which, values = ("AND day = ?", [day]) if day is not None else ("", [])
    query = f"SELECT * FROM recordings WHERE status = 'done' {which} ORDER BY day, start IS NULL, start, path"
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in flow.catalog.all(query, values):
        found[row["day"]].append(row)
    return found


def _of_day(flow: Pipeline, day: str) -> list[dict[str, Any]]:
    """The finished recordings of a day, with their results where they are now."""
    return [folders.row_located(flow.settings, row) for row in _contents(flow, day).get(day, [])]


def _version(rows: list[dict[str, Any]]) -> str:
    """A fingerprint of what a partition holds."""
    told = [[row["content"], row["model"], row["settings"], row["path"]] for row in rows]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def places(flow: Pipeline, day: str) -> list[Path]:
    """Where the partition of a day is published."""
    outputs, found = flow.settings.outputs, []
    if outputs.zarr:
        found.append(flow.settings.place(outputs.zarr) / f"{day}.zarr")
    if outputs.parquet:
        found.append(flow.settings.place(outputs.parquet) / f"date={day}" / "rows.parquet")
    return found


def publish(flow: Pipeline, day: str) -> None:
    """Bring the partition of a day to what it should be."""
    rows = _of_day(flow, day)
    with _storing(day):
        if not rows:
            _withdraw(flow, day)
            return
        from dlcca.pipelines.partition import Day

        made = Day(day, _version(rows), rows, flow.settings.outputs.day_begins_h)
        _put_in_place(flow, made)
    with flow.catalog.change():
        n, models = sum(row["rows"] for row in rows), sorted({row["model"] for row in rows})
        flow.catalog.do("DELETE FROM partitions WHERE day = ?", [day])
        row = {"day": day, "version": made.version, "recordings": len(rows), "rows": n}
        flow.catalog.insert("partitions", {**row, "models": json.dumps(models), "published": iso(flow.now)})
        told = f"{len(rows)} recording{'s' * (len(rows) != 1)}, {n} rows"
        flow.note("published", f"{day} is published: {told}.", day=day)


def ask_for_damaged(flow: Pipeline, day: str) -> None:
    """Have recordings embedded again whose results were damaged since, by the next run, if their files are there."""
    for row in _of_day(flow, day):
        there = flow.catalog.value("SELECT 1 FROM files WHERE content = ? AND state = 'known'", [row["content"]])
        if there and not _is_sound(row["result"]):
            flow.remove(row["result"])
            with flow.catalog.change():
                flow.catalog.update("recordings", {"status": "new", "result": None, "attempts": 0}, id=row["id"])
                text = f"The result of {row['path']} is damaged, and is made again by the next run."
                flow.note("damaged", text, recording=row["id"], path=row["path"], day=day)


def _is_sound(result: str) -> bool:
    from dlcca.storage import transformed

    try:
        return not any(transformed.damages(result).values())
    except StoreFileError:
        return False


@contextmanager
def _storing(day: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"{day} cannot be published: {error.strerror or error}. What was published before is untouched."
        ) from error


def _put_in_place(flow: Pipeline, day: Any) -> None:
    """All that may fail for want of room is done aside, for both forms; only then are both moved to their places."""
    with ExitStack() as leftovers:
        moves: list[tuple[Path, Path]] = []
        if flow.settings.outputs.parquet:
            moves.append(_parquet_aside(flow, day, leftovers))
        if flow.settings.outputs.zarr:
            moves.append(_zarr_aside(flow, day, leftovers))
        for aside, place in moves:
            os.replace(aside, place)


def _zarr_aside(flow: Pipeline, day: Any, leftovers: ExitStack) -> tuple[Path, Path]:
    """Write a version of its own; a new link to it, and the one that it replaces."""
    from dlcca.pipelines.partition import write_zarr
    from dlcca.storage import transformed

    folder = flow.settings.place(flow.settings.outputs.zarr)
    target = folder / ".versions" / f"{day.day}-{day.version[:16]}.zarr"
    if not transformed.is_transformed(str(target)):  # it is there if a night was stopped just after it
        write_zarr(day, target)
    link = folder / f"{day.day}.zarr"
    before = os.readlink(link) if link.is_symlink() else None
    if before is not None and before != f".versions/{target.name}":
        _replaced(flow, folder, before)
    aside = _link_aside(flow, link, Path(".versions") / target.name)
    leftovers.callback(flow.remove, aside)
    return aside, link


def _replaced(flow: Pipeline, folder: Path, version: str) -> None:
    """Have the version that a link pointed to removed later, if it is one of ours."""
    if Path(version).parent == Path(".versions"):
        flow.later("zarr", folder / version)


def point(flow: Pipeline, link: Path, target: Path) -> None:
    """Have a link point elsewhere, in one move."""
    if not (link.is_symlink() and os.readlink(link) == str(target)):
        os.replace(_link_aside(flow, link, target), link)


def _link_aside(flow: Pipeline, link: Path, target: Path) -> Path:
    """A link that is to take the place of another one; an error if something else is there."""
    if link.exists() and not link.is_symlink():
        raise StorageError(f"{link} exists and is no link that this pipeline has made; move it away.")
    aside = link.with_name(f".{link.name}.new")
    flow.remove(aside)
    os.symlink(target, aside)
    return aside


def _parquet_aside(flow: Pipeline, day: Any, leftovers: ExitStack) -> tuple[Path, Path]:
    """Write a file in no folder that a reader looks into; it, and the place that it is for."""
    from dlcca.pipelines.partition import write_parquet

    folder = flow.settings.place(flow.settings.outputs.parquet)
    aside = folder / ".aside" / f"{day.day}.parquet"
    aside.parent.mkdir(parents=True, exist_ok=True)
    leftovers.callback(flow.remove, aside)
    write_parquet(day, aside)
    with open(aside, "rb") as file:
        os.fsync(file.fileno())
    place = folder / f"date={day.day}" / "rows.parquet"
    known = flow.catalog.one("SELECT 1 FROM partitions WHERE day = ?", [day.day]) is not None
    is_ours = partial(is_known_parquet, mark="dlcca_day")
    noun = "the Parquet file of a day that this pipeline has published"
    places_of.refuse_file(place, lambda path: known or is_ours(path), noun, setting="[outputs] parquet")
    place.parent.mkdir(exist_ok=True)
    leftovers.callback(_remove_if_empty, place.parent)
    return aside, place


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # it holds the day, as it should
        folder.rmdir()


def _withdraw(flow: Pipeline, day: str) -> None:
    """A day of which nothing is left: all its recordings were replaced by ones of another day."""
    for place in places(flow, day):
        if place.is_symlink():
            _replaced(flow, place.parent, os.readlink(place))
        flow.remove(place)
        if place.name == "rows.parquet":
            _remove_if_empty(place.parent)
    with flow.catalog.change():
        flow.catalog.do("DELETE FROM partitions WHERE day = ?", [day])
        flow.note("withdrawn", f"{day} is withdrawn: none of its recordings is left.", day=day)

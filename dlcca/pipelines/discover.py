"""Discovery: every file of the sources is listed, and read only if it is new or has changed.

A recording is the content of a file: it is embedded once, whatever the names it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from dlcca.errors import StorageError
from dlcca.pipelines import sources
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.sources import Seen

#: A change of the catalog.
Change = Callable[[], None]
#: Changes in one transaction: with one each, ten thousand files would take a minute.
CHANGES = 500


@dataclass
class Found:
    """The result of a discovery: paths, and the number of all files."""

    files: int = 0
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # for the first time
    gone: int = 0


def discover(pipeline: Pipeline) -> Found:
    """Update the catalog to the files in the sources."""
    settings, catalog = pipeline.settings, pipeline.catalog
    known = {row["path"]: row for row in catalog.all("SELECT path, size, stamp, content, state FROM files")}
    found, listed = Found(), set()
    changes: list[Change] = []
    for item in sources.seen(settings.sources, settings.path.parent, bool(known)):
        found.files += 1
        listed.add(item.path)
        before = known.get(item.path)
        same = before is not None and (before["size"], before["stamp"]) == (item.size, item.stamp)
        if same and before is not None and before["state"] == "known":
            continue
        changes.append(_inspect(pipeline, item, before, same, found))
        if len(changes) >= CHANGES:
            _commit(pipeline, changes)
    _commit(pipeline, changes)
    closed = _note_closed_folders(pipeline, known, found)
    gone = [
        path
        for path, row in known.items()
        if path not in listed and row["state"] not in ("gone", "closed") and not path.startswith(closed)
    ]
    if gone:
        with catalog.change():
            catalog.do_many("UPDATE files SET state = 'gone' WHERE path = ?", [[path] for path in gone])
            files = "1 file no longer exists" if len(gone) == 1 else f"{len(gone)} files no longer exist"
            pipeline.note("gone", f"{files} ({sources.names_of(gone)}); results are kept.")
        _give_up_lost(pipeline)
    found.gone = len(gone)
    # Recordings that were refused with other settings are tried again.
    catalog.do(
        "UPDATE recordings SET status = 'new', reason = NULL, day = NULL, attempts = 0 "
        "WHERE status IN ('refused', 'held') AND settings != ?",
        [settings.fingerprint()],
    )
    return found


def _commit(pipeline: Pipeline, changes: list[Change]) -> None:
    if changes:
        with pipeline.catalog.change():
            for change in changes:
                change()
        changes.clear()


def _note_closed_folders(pipeline: Pipeline, known: dict[str, Row], found: Found) -> tuple[str, ...]:
    """Note each folder that cannot be read once; its files are not gone. Returns the beginnings of their paths."""
    closed = sources.closed_folders(pipeline.settings.sources, pipeline.settings.path.parent)
    before = {path for path, row in known.items() if row["state"] == "closed"}
    if closed.keys() != before:
        with pipeline.catalog.change():
            for path in sorted(closed.keys() - before):
                found.unreadable.append(path)
                why = f"the folder {path} cannot be read: {closed[path]}."
                _store(pipeline, Seen(path, (), 0, 0, "", None), None, "closed", why)
                pipeline.note("unreadable", f"{why} Every run tries it again.", path=path)
            opened = [[path] for path in sorted(before - closed.keys())]
            pipeline.catalog.do_many("DELETE FROM files WHERE path = ?", opened)
    return tuple(f"{path}/" for path in closed)


def _give_up_lost(pipeline: Pipeline) -> None:
    """Recordings whose files were removed before they were embedded are not tried again, unless the files return."""
    lost = pipeline.catalog.all(
        "SELECT id, path FROM recordings WHERE status IN ('new', 'failed') AND result IS NULL AND content NOT IN "
        "(SELECT content FROM files WHERE state != 'gone' AND content IS NOT NULL)"
    )
    with pipeline.catalog.change():
        for row in lost:
            reason = "its file was removed before it was embedded"
            pipeline.catalog.update("recordings", {"status": "gone", "reason": reason}, id=row["id"])
            pipeline.note("gone", f"{row['path']}: {reason}.", recording=row["id"], path=row["path"])


def _inspect(pipeline: Pipeline, item: Seen, before: Row | None, same: bool, found: Found) -> Change:
    """The change of the catalog for a file that is new, has changed, or was not complete before."""
    settings = pipeline.settings
    why = sources.why_incomplete(item, settings.sources, settings.path.parent, pipeline.now, same)
    if why:
        return partial(_wait, pipeline, item, before, why, found)
    parts = [settings.source(part) for part in item.parts]
    try:
        content = sources.digest(parts)
    except StorageError as error:
        return partial(_unreadable, pipeline, item, before, str(error), found)
    if not sources.has_stamp(parts, item.stamp):
        return partial(_wait, pipeline, item, before, "it changed while it was read", found)
    return partial(_add, pipeline, item, before, content, found)


def _wait(pipeline: Pipeline, item: Seen, before: Row | None, why: str, found: Found) -> None:
    """An incomplete file; noted once."""
    found.waiting.append(item.path)
    _store(pipeline, item, before, "waiting", why)
    if before is None or before["state"] != "waiting":
        pipeline.note("waiting", f"{item.path} is not complete yet: {why}.", path=item.path)


def _unreadable(pipeline: Pipeline, item: Seen, before: Row | None, why: str, found: Found) -> None:
    """A file that cannot be read; noted once, and tried again by every run."""
    if before is None or before["state"] != "unreadable":
        found.unreadable.append(item.path)
        _store(pipeline, item, before, "unreadable", why)
        pipeline.note("unreadable", f"{why} Every run tries it again.", path=item.path)


def _store(
    pipeline: Pipeline, item: Seen, before: Row | None, state: str, reason: str | None, content: str | None = None
) -> None:
    """Store a file as it was seen; the earlier content stays until there is another."""
    content = content or (before["content"] if before is not None else None)
    parts, now = json.dumps(item.parts), iso(pipeline.now)
    pipeline.catalog.do(
        "INSERT INTO files (path, size, stamp, parts, n_read, content, state, reason, first_seen) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET size = excluded.size, "
        "stamp = excluded.stamp, parts = excluded.parts, n_read = excluded.n_read, content = excluded.content, "
        "state = excluded.state, reason = excluded.reason",
        [item.path, item.size, item.stamp, parts, item.n_read, content, state, reason, now],
    )


def _add(pipeline: Pipeline, item: Seen, before: Row | None, content: str, found: Found) -> None:
    """A file whose content has been read: a new recording, a duplicate, or a new content of a known file."""
    catalog, old = pipeline.catalog, before["content"] if before is not None else None
    _store(pipeline, item, before, "known", None, content)
    catalog.update("recordings", {"status": "new", "reason": None, "path": item.path}, content=content, status="gone")
    if content == old:
        return  # only its date has changed, or it has returned
    twin = catalog.one("SELECT id, path, status FROM recordings WHERE content = ?", [content])
    replaced = _without_file(pipeline, old)
    if twin is not None and twin["status"] != "superseded":
        found.duplicates.append(item.path)
        text = f"{item.path} has the same content as {twin['path']}, and is not embedded again."
        pipeline.note("duplicate", text, recording=twin["id"], path=item.path)
        if replaced is not None and replaced["id"] != twin["id"]:
            supersede(pipeline, replaced["id"], twin["id"], item.path)
        return
    if twin is not None:  # an earlier content has returned
        number = int(twin["id"])
        catalog.update("recordings", {"status": "new", "reason": None, "path": item.path, "result": None}, id=number)
    else:
        row = {"content": content, "path": item.path, "size": item.size, "modified": _modified(pipeline, item)}
        number = catalog.insert("recordings", {**row, "first_seen": iso(pipeline.now), "status": "new"})
    if replaced is None:
        found.new.append(item.path)
        pipeline.note("new", f"{item.path} is new.", recording=number, path=item.path)
        return
    found.changed.append(item.path)
    if replaced["status"] in ("new", "failed"):
        supersede(pipeline, replaced["id"], number, item.path)
    else:
        catalog.update("recordings", {"replaces": replaced["id"]}, id=number)
    kept = "; the earlier result is kept until the new one is finished" if replaced["status"] == "done" else ""
    pipeline.note("changed", f"{item.path} has changed since the last run{kept}.", recording=number, path=item.path)


def _modified(pipeline: Pipeline, item: Seen) -> str | None:
    """Modification time of the main file."""
    if item.changed is None:
        return None
    seconds = item.changed
    if not sources.is_object(item.path):
        seconds = os.stat(pipeline.settings.source(item.path)).st_mtime
    return iso(datetime.fromtimestamp(seconds, UTC))


def _without_file(pipeline: Pipeline, content: str | None) -> Row | None:
    """The recording with a content that no file has any more; None if there is none."""
    if content is None:
        return None
    others = pipeline.catalog.value("SELECT count(*) FROM files WHERE content = ? AND state != 'gone'", [content])
    if others:
        return None
    return pipeline.catalog.one("SELECT id, path, status FROM recordings WHERE content = ?", [content])


def supersede(pipeline: Pipeline, old: int, new: int, path: str) -> None:
    """Replace a recording by the new content of its file."""
    reason = f"replaced by the new content of {path} (recording {new})"
    pipeline.catalog.update("recordings", {"status": "superseded", "reason": reason}, id=old)
    pipeline.note("superseded", f"Recording {old} is {reason}.", recording=old, path=path)

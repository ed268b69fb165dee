"""Which recordings are new: every file is looked at, and read only if it is new or has changed.

A file by itself is of no account: it is its content that is embedded, once, under whatever names it comes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dlcca.errors import StorageError
from dlcca.pipelines import digest, listing
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.listing import Seen
from dlcca.pipelines.stats import stamp_of


@dataclass
class Found:
    """What a look at the sources came to: paths, and how many files there are in all."""

    files: int = 0
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # those that are so since this look
    gone: int = 0


def discover(flow: Pipeline) -> Found:
    """Bring the catalog to what the sources hold."""
    known = {row["path"]: row for row in flow.catalog.all("SELECT path, size, stamp, content, state FROM files")}
    found, there, batch = Found(), set(), Batch(flow)
    for item in listing.seen(flow.settings.sources, flow.settings.path.parent, bool(known)):
        found.files += 1
        there.add(item.path)
        before = known.get(item.path) or _by_full_path(flow, item, known)
        same = before is not None and (before["size"], before["stamp"]) == (item.size, item.stamp)
        if same and before is not None and before["state"] == "known":
            continue
        batch.add(_look_at(flow, item, before, same, found))
    batch.commit()
    closed = _look_at_closed(flow, known, found)
    gone = [
        path
        for path, row in known.items()
        if path not in there and row["state"] not in ("gone", "closed") and not path.startswith(closed)
    ]
    if gone:
        with flow.catalog.change():
            flow.catalog.do_many("UPDATE files SET state = 'gone' WHERE path = ?", [[path] for path in gone])
            many = "files are" if len(gone) > 1 else "file is"
            flow.note("gone", f"{len(gone)} {many} not there any more ({listing.names_of(gone)}); results are kept.")
        _lose(flow)
    found.gone = len(gone)
    _try_with_other_settings(flow)
    return found


def _by_full_path(flow: Pipeline, item: Seen, known: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """A file that an older dlcca recorded by its full path is the same file; its row gets the path of today."""
    full = flow.settings.source(item.path)
    row = known.pop(full, None) if full != item.path else None
    if row is not None:
        flow.catalog.update("files", {"path": item.path, "parts": json.dumps(item.parts)}, path=full)
        known[item.path] = row | {"path": item.path}
    return row


def _look_at_closed(flow: Pipeline, known: dict[str, dict[str, Any]], found: Found) -> tuple[str, ...]:
    """Tell once of folders that may not be looked into; their files are not gone. How the paths of these begin."""
    closed = listing.closed_folders(flow.settings.sources, flow.settings.path.parent)
    before = {path for path, row in known.items() if row["state"] == "closed"}
    if closed.keys() != before:
        with flow.catalog.change():
            for path in sorted(closed.keys() - before):
                found.unreadable.append(path)
                why = f"{path} cannot be looked into: {closed[path]}."
                _keep(flow, Seen(path, (), 0, 0, "", None), None, "closed", why)
                flow.note("unreadable", f"{why} It is tried again with every run.", path=path)
            open_now = sorted(before - closed.keys())
            flow.catalog.do_many("DELETE FROM files WHERE path = ?", [[path] for path in open_now])
    return tuple(f"{path}/" for path in closed)


def _lose(flow: Pipeline) -> None:
    """Recordings whose files were removed before they were embedded are not tried again, unless they come back."""
    lost = flow.catalog.all(
        "SELECT id, path FROM recordings WHERE status IN ('new', 'failed') AND result IS NULL AND content NOT IN "
        "(SELECT content FROM files WHERE state != 'gone' AND content IS NOT NULL)"
    )
    with flow.catalog.change():
        for row in lost:
            reason = "its file was removed before it was embedded"
            flow.catalog.update("recordings", {"status": "gone", "reason": reason}, id=row["id"])
            flow.note("gone", f"{row['path']}: {reason}.", recording=row["id"], path=row["path"])


def _try_with_other_settings(flow: Pipeline) -> None:
    """What was refused when views or fit were set otherwise may be good now."""
    flow.catalog.do(
        "UPDATE recordings SET status = 'new', reason = NULL, day = NULL, attempts = 0 "
        "WHERE status IN ('refused', 'held') AND settings != ?",
        [flow.settings.fingerprint()],
    )


#: Something to be written to the catalog.
Change = Callable[[], None]


class Batch:
    """Changes that are committed together: ten thousand commits, each waiting for the disk, would take a minute."""

    def __init__(self, flow: Pipeline, most: int = 500) -> None:
        self._flow, self._most = flow, most
        self._changes: list[Change] = []

    def add(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) >= self._most:
            self.commit()

    def commit(self) -> None:
        if self._changes:
            with self._flow.catalog.change():
                for change in self._changes:
                    change()
        self._changes = []


def _look_at(flow: Pipeline, item: Seen, before: dict[str, Any] | None, same: bool, found: Found) -> Change:
    """What is to be kept of a file that is new, has changed, or was not complete when it was last seen."""
    why = listing.is_complete(item, flow.settings.sources, flow.settings.path.parent, flow.now, same)
    if why:
        return lambda: _wait(flow, item, before, why, found)
    try:
        content = digest.digest([flow.settings.source(part) for part in item.parts])
    except StorageError as error:
        why = str(error)
        return lambda: _unreadable(flow, item, before, why, found)
    if _has_moved_on(flow, item):
        return lambda: _wait(flow, item, before, "it changed while it was read", found)
    return lambda: _take_in(flow, item, before, content, found)


def _wait(flow: Pipeline, item: Seen, before: dict[str, Any] | None, why: str, found: Found) -> None:
    """Told of once, however often it is looked at."""
    found.waiting.append(item.path)
    _keep(flow, item, before, "waiting", why)
    if before is None or before["state"] != "waiting":
        flow.note("waiting", f"{item.path} is not complete yet: {why}.", path=item.path)


def _has_moved_on(flow: Pipeline, item: Seen) -> bool:
    """Whether a file was written to while it was read."""
    if "://" in item.path:
        return False  # an object is replaced whole
    return stamp_of([flow.settings.source(part) for part in item.parts]) != item.stamp


def _unreadable(flow: Pipeline, item: Seen, before: dict[str, Any] | None, why: str, found: Found) -> None:
    """Told of once; tried again every time."""
    if before is None or before["state"] != "unreadable":
        found.unreadable.append(item.path)
        _keep(flow, item, before, "unreadable", why)
        flow.note("unreadable", f"{why} It is tried again with every run.", path=item.path)


def _keep(
    flow: Pipeline,
    item: Seen,
    before: dict[str, Any] | None,
    state: str,
    reason: str | None,
    content: str | None = None,
) -> None:
    """The file as it was seen; what is known of its earlier content stays until there is another."""
    content = content or (before["content"] if before is not None else None)
    flow.catalog.do(
        "INSERT INTO files (path, size, stamp, parts, n_read, content, state, reason, first_seen) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET size = excluded.size, "
        "stamp = excluded.stamp, parts = excluded.parts, n_read = excluded.n_read, content = excluded.content, "
        "state = excluded.state, reason = excluded.reason",
        [item.path, item.size, item.stamp, json.dumps(item.parts), item.n_read, content, state, reason, iso(flow.now)],
    )


def _take_in(flow: Pipeline, item: Seen, before: dict[str, Any] | None, content: str, found: Found) -> None:
    """A file whose content is known now."""
    catalog, old = flow.catalog, before["content"] if before is not None else None
    _keep(flow, item, before, "known", None, content)
    catalog.update("recordings", {"status": "new", "reason": None, "path": item.path}, content=content, status="gone")
    if content == old:
        return  # only its date has changed, or it is back
    twin = catalog.one("SELECT id, path, status FROM recordings WHERE content = ?", [content])
    replaced = _left_behind(flow, old)
    if twin is not None and twin["status"] != "superseded":
        found.duplicates.append(item.path)
        text = f"{item.path} holds the same as {twin['path']}, and is not embedded again."
        flow.note("duplicate", text, recording=twin["id"], path=item.path)
        if replaced is not None and replaced["id"] != twin["id"]:
            _supersede(flow, replaced, twin["id"], item.path)
        return
    if twin is not None:  # an earlier content has come back
        number = int(twin["id"])
        catalog.update("recordings", {"status": "new", "reason": None, "path": item.path, "result": None}, id=number)
    else:
        number = catalog.insert("recordings", _new(flow, item, content))
    if replaced is None:
        found.new.append(item.path)
        flow.note("new", f"{item.path} is new.", recording=number, path=item.path)
        return
    found.changed.append(item.path)
    if replaced["status"] in ("new", "failed"):
        _supersede(flow, replaced, number, item.path)
    else:
        catalog.update("recordings", {"replaces": replaced["id"]}, id=number)
    stands = "; the earlier result stands until the new one is there" if replaced["status"] == "done" else ""
    text = f"{item.path} has changed since it was last read{stands}."
    flow.note("changed", text, recording=number, path=item.path)


def _new(flow: Pipeline, item: Seen, content: str) -> dict[str, Any]:
    changed = None if item.changed is None else iso(datetime.fromtimestamp(_modified(flow, item), UTC))
    return {
        "content": content,
        "path": item.path,
        "size": item.size,
        "modified": changed,
        "first_seen": iso(flow.now),
        "status": "new",
    }


def _modified(flow: Pipeline, item: Seen) -> float:
    """When the main file was last written, in seconds since 1970."""
    if "://" in item.path:
        return item.changed or 0.0
    return os.stat(flow.settings.source(item.path)).st_mtime


def _left_behind(flow: Pipeline, content: str | None) -> dict[str, Any] | None:
    """The recording whose content no file has any more; None if there is none."""
    if content is None:
        return None
    others = flow.catalog.value("SELECT count(*) FROM files WHERE content = ? AND state != 'gone'", [content])
    if others:
        return None
    return flow.catalog.one("SELECT id, path, status FROM recordings WHERE content = ?", [content])


def _supersede(flow: Pipeline, old: dict[str, Any], new: int, path: str) -> None:
    """An earlier content gives way to another at once."""
    reason = f"replaced by what {path} holds now (recording {new})"
    flow.catalog.update("recordings", {"status": "superseded", "reason": reason}, id=old["id"])
    flow.note("superseded", f"Recording {old['id']} is {reason}.", recording=old["id"], path=path)

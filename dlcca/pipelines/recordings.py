"""Recordings in the catalog: their discovery in the sources, the day of each, their order, and how each came out.

Every file of the sources is listed, and read only if it is new or has changed. A recording is the content of a file: it
is embedded once, whatever the names it has.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from dlcca.errors import ClusterError, DlccaError, StorageError, described
from dlcca.pipelines import sources
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.sources import Seen
from dlcca.settings.recipe import ViewRecipe

#: A recording that failed this often no longer delays the publication of its day.
MOST_ATTEMPTS = 3
#: A start further in the future than this is not a matter of time zones.
AHEAD = timedelta(days=1)
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
                _store(pipeline, Seen(path, (), 0, 0, "", None), known.get(path), "closed", why)
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
    row = {"size": item.size, "stamp": item.stamp, "parts": json.dumps(item.parts), "n_read": item.n_read}
    row |= {"state": state, "reason": reason}
    if content is not None:
        row["content"] = content
    if before is not None:
        pipeline.catalog.update("files", row, path=item.path)
    else:
        pipeline.catalog.insert("files", {"path": item.path, **row, "first_seen": iso(pipeline.now)})


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


# Days, order and status.


class HeldBack(DlccaError):
    """A recording that can be read, and should not be trusted."""

    exit_code = 5


def order(pipeline: Pipeline) -> list[Row]:
    """Find the day of every pending recording; refuse those that cannot be opened. The others, in order of start."""
    for recording in _pending(pipeline):
        if recording["day"] is not None:
            continue
        try:
            facts = _day_and_span(pipeline, recording)
        except Exception as error:
            failed(pipeline, recording, error)
            continue
        with pipeline.catalog.change():
            pipeline.catalog.update("recordings", facts, id=recording["id"])
            _note_overlap(pipeline, recording, facts)
    return [recording for recording in _pending(pipeline) if recording["day"] is not None]


def _pending(pipeline: Pipeline) -> list[Row]:
    """The recordings to be embedded, in order of start; those without a start by name."""
    query = "SELECT * FROM recordings WHERE status IN ('new', 'failed') "
    return pipeline.catalog.all(query + "ORDER BY day IS NULL, day, start IS NULL, start, path")


def _day_and_span(pipeline: Pipeline, recording: Row) -> dict[str, str | None]:
    """Start, end and day of a recording."""
    start, end = _span(pipeline, recording)
    day = _day_in_name(recording["path"], pipeline.settings.sources.day_pattern)
    if day is None:
        when = start or datetime.fromisoformat(recording["modified"] or recording["first_seen"])
        day = (when.astimezone(UTC) - timedelta(hours=pipeline.settings.outputs.day_begins_h)).date()
    _refuse_wrong_clock(pipeline, day)
    return {
        "start": None if start is None else iso(start),
        "ends": None if end is None else iso(end),
        "day": day.isoformat(),
    }


def _span(pipeline: Pipeline, recording: Row) -> tuple[datetime | None, datetime | None]:
    """When a recording begins and ends, by the headers of its files; None if they do not say."""
    from dlcca.recordings.formats.registry import open_recording
    from dlcca.recordings.timeline import File

    parts, n_read, _stamp = files_of(pipeline, recording)
    scratch = pipeline.state / "work" / f"header-{recording['id']}"
    spans = []
    try:
        for path in sources.local_files(parts[:n_read], scratch):
            # The options of the first view that may be in this file.
            options = (r.reader_options for r in pipeline.settings.recipes.values() if path in files_for(r, [path]))
            opened = File.at(path, next(options, {})).open(open_recording)
            if opened.start is not None:
                start = opened.start if opened.start.tzinfo else opened.start.replace(tzinfo=UTC)
                lasts = max((signal.start_s + signal.duration_s for signal in opened.signals), default=0.0)
                spans.append((start, start + timedelta(seconds=lasts)))
    finally:
        pipeline.remove(scratch)
    if not spans:
        return None, None
    return min(start for start, _ in spans), max(end for _, end in spans)


def _day_in_name(path: str, pattern: str) -> date | None:
    found = re.search(pattern, os.path.basename(path)) if pattern else None
    if found is None:
        return None
    try:
        return date(*(int(group) for group in found.groups()))
    except ValueError as error:
        raise HeldBack(f"day_pattern = {pattern!r} finds no valid day in its name: {error}.") from error


def _refuse_wrong_clock(pipeline: Pipeline, day: date) -> None:
    """Hold back a recording whose day is impossible."""
    earliest = pipeline.settings.gate.earliest
    if earliest and day < date.fromisoformat(earliest):
        raise HeldBack(f"its start is on {day}, before [gate] earliest = {earliest}: was its clock set back?")
    if day > (pipeline.now + AHEAD).date():
        raise HeldBack(f"its start is on {day}, which is in the future: is its clock right, or that of this machine?")


def _note_overlap(pipeline: Pipeline, recording: Row, facts: dict[str, str | None]) -> None:
    """Note two recordings of the same time: they may be of two devices, or of one whose clock was set back."""
    if facts["start"] is None:
        return
    query = (
        "SELECT path FROM recordings WHERE id != ? AND start < ? AND ends > ? AND status IN ('new', 'done') "
        "AND id != coalesce(?, 0) LIMIT 1"
    )
    other = pipeline.catalog.value(query, [recording["id"], facts["ends"], facts["start"], recording["replaces"]])
    if other is not None:
        text = f"{recording['path']} overlaps in time with {other}: two devices, or a clock that was set back?"
        pipeline.note("overlap", text, {**recording, **facts})


def files_of(pipeline: Pipeline, recording: Row) -> tuple[list[str], int, str]:
    """All files of a recording, how many of them (the first) a reader is given, and their stamp."""
    query = "SELECT path, parts, n_read, stamp FROM files WHERE content = ? AND state = 'known' ORDER BY path = ? DESC"
    for row in pipeline.catalog.all(query, [recording["content"], recording["path"]]):
        parts = [pipeline.settings.source(part) for part in json.loads(row["parts"])]
        if sources.has_stamp(parts, row["stamp"]):
            return parts, row["n_read"], row["stamp"]
    raise StorageError(f"{recording['path']} no longer exists, or is being changed.")


def files_for(recipe: ViewRecipe, files: Sequence[str]) -> list[str]:
    """The files of a recording that a view is made of: the only one, or those whose names match its source."""
    if len(files) == 1 or not recipe.source:
        return list(files)
    patterns = [os.path.basename(path) for path in recipe.source]
    return [file for file in files if any(fnmatch.fnmatch(os.path.basename(file), form) for form in patterns)]


def failed(pipeline: Pipeline, recording: Row, error: Exception) -> None:
    """Store the error of a recording."""
    # An unexpected error or a missing package is a fault of this machine, not of the recording.
    temporary = not isinstance(error, DlccaError | OSError) or isinstance(error.__cause__, ImportError)
    status = "refused"
    if isinstance(error, HeldBack):
        status = "held"
    elif temporary or isinstance(error, StorageError | ClusterError | OSError):
        status = "failed"
    reason = described(error)
    words = {"refused": "is refused", "held": "is held back", "failed": "failed, and is tried again"}
    with pipeline.catalog.change():
        row = {"status": status, "reason": reason, "run": pipeline.run, "finished": iso(pipeline.now)}
        row["settings"] = pipeline.settings.fingerprint()  # with others it is tried again
        if recording["result"]:
            row = {"status": "done"}
            reason += " Its earlier result is kept."
        pipeline.catalog.update("recordings", {**row, "attempts": recording["attempts"] + 1}, id=recording["id"])
        text = f"{recording['path']} {words[status]}: {reason}"
        pipeline.note(status, text, recording)


def done(pipeline: Pipeline, recording: Row, facts: dict[str, Any]) -> None:
    """Store that a recording is embedded; the recording that it replaces is superseded in the same transaction."""
    catalog, number = pipeline.catalog, recording["id"]
    with catalog.change():
        row = {"status": "done", "reason": None, "run": pipeline.run, "finished": iso(pipeline.now)}
        row |= pipeline.relative(facts)
        catalog.update("recordings", {**row, "attempts": recording["attempts"] + 1}, id=number)
        replaced = recording["replaces"]
        if replaced is not None and pipeline.recording(replaced)["status"] == "done":
            supersede(pipeline, replaced, number, recording["path"])
        text = (
            f"{recording['path']} was embedded with model {facts['model']}: {facts['valid']} of {facts['rows']} rows "
            f"are valid, {facts['outside']} are outside the data of the fit."
        )
        pipeline.note("done", text, recording)

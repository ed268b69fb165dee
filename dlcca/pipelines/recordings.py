"""Recordings in the catalog: their discovery in the sources, the day of each, their order, and how each came out.

Every file of the sources is listed, and read only if it is new or has changed. A recording is the content of a file: it
is embedded once, whatever the names it has.
"""

import fnmatch
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

from dlcca.errors import ClusterError, DlccaError, StorageError, described
from dlcca.pipelines import sources
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline, recorded
from dlcca.pipelines.sources import Seen
from dlcca.settings.recipe import ViewRecipe

#: A recording that failed this often no longer delays the publication of its day.
MOST_ATTEMPTS = 3
#: A start further in the future than this is not a matter of time zones.
AHEAD = timedelta(days=1)
#: SQL: recordings whose drift was not measured with the model that they were embedded with.
NOT_MEASURED = (
    "status = 'done' AND NOT EXISTS "
    "(SELECT 1 FROM drift WHERE recording = recordings.id AND drift.model = recordings.model)"
)
#: Files that are recorded in one transaction: with one for each, ten thousand files would take a minute.
FILES = 500


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

    def inspected() -> Iterator[tuple[Seen, Row, str, str]]:
        """Files that are new, have changed or were not complete before; state, and content or reason."""
        for item in sources.seen(settings.sources, settings.path.parent, bool(known)):
            found.files += 1
            listed.add(item.path)
            before = known.get(item.path, {})
            same = (before.get("size"), before.get("stamp")) == (item.size, item.stamp)
            if same and before["state"] == "known":
                continue
            parts, state = [settings.address(part) for part in item.parts], "waiting"
            text = sources.why_incomplete(item, settings.sources, settings.path.parent, pipeline.now, same)
            if not text:
                try:
                    state, text = "known", sources.digest(parts)
                    if not sources.has_stamp(parts, item.stamp):
                        state, text = "waiting", "it changed while it was read"
                except StorageError as error:
                    state, text = "unreadable", str(error)
            yield item, before, state, text

    files = inspected()
    while some := list(islice(files, FILES)):
        with catalog.change():
            for each in some:
                _record(pipeline, found, *each)
    closed = _record_closed_folders(pipeline, known, found)
    known = {path: row for path, row in known.items() if row["state"] not in ("gone", "closed")}
    gone = [path for path in known if path not in listed and not path.startswith(closed)]
    found.gone = len(gone)
    if gone:
        with catalog.change():
            catalog.do_many("UPDATE files SET state = 'gone' WHERE path = ?", [[path] for path in gone])
            exist = "1 file no longer exists" if len(gone) == 1 else f"{len(gone)} files no longer exist"
            pipeline.note("gone", f"{exist} ({sources.names_of(gone)}); results are kept.")
            # Recordings whose files were removed before they were embedded are not tried again, unless these return.
            lost = pipeline.recordings(
                "status IN ('new', 'failed') AND result IS NULL AND content NOT IN "
                "(SELECT content FROM files WHERE state != 'gone' AND content IS NOT NULL)"
            )
            for row in lost:
                reason = "its file was removed before it was embedded"
                catalog.update("recordings", {"status": "gone", "reason": reason}, id=row["id"])
                pipeline.note("gone", f"{row['path']}: {reason}.", recording=row["id"], path=row["path"])
    # Recordings that were refused with other settings are tried again.
    catalog.do(
        "UPDATE recordings SET status = 'new', reason = NULL, day = NULL, attempts = 0 "
        "WHERE status IN ('refused', 'held') AND settings != ?",
        [settings.fingerprint()],
    )
    return found


def _record_closed_folders(pipeline: Pipeline, known: dict[str, Row], found: Found) -> tuple[str, ...]:
    """Record folders that cannot be read; their files are not gone. Returns the beginnings of their paths."""
    closed = sources.closed_folders(pipeline.settings.sources, pipeline.settings.path.parent)
    before = {path for path, row in known.items() if row["state"] == "closed"}
    if closed.keys() != before:
        with pipeline.catalog.change():
            for path in sorted(closed.keys() - before):
                why = f"the folder {path} cannot be read: {closed[path]}."
                _record(pipeline, found, Seen(path, (), 0, 0, "", None), known.get(path, {}), "closed", why)
            opened = [[path] for path in sorted(before - closed.keys())]
            pipeline.catalog.do_many("DELETE FROM files WHERE path = ?", opened)
    return tuple(f"{path}/" for path in closed)


def _record(pipeline: Pipeline, found: Found, item: Seen, before: Row, state: str, text: str) -> None:
    """Record a file; ``before`` is its earlier row, or empty. One that cannot be read (yet) is noted once."""
    row = {"size": item.size, "stamp": item.stamp, "parts": json.dumps(item.parts), "n_read": item.n_read}
    is_known, is_waiting, is_same = state == "known", state == "waiting", before.get("state") == state
    if is_same and state == "unreadable":
        return
    # The earlier content stays until there is another.
    row |= {"state": state} | ({"content": text, "reason": None} if is_known else {"reason": text})
    if before:
        pipeline.catalog.update("files", row, path=item.path)
    else:
        pipeline.catalog.insert("files", {"path": item.path, **row, "first_seen": iso(pipeline.now)})
    if is_known:
        _add(pipeline, item, before.get("content"), text, found)
        return
    (found.waiting if is_waiting else found.unreadable).append(item.path)
    if not is_same:
        line = f"{item.path} is not complete yet: {text}." if is_waiting else f"{text} Every run tries it again."
        pipeline.note("waiting" if is_waiting else "unreadable", line, path=item.path)


def _add(pipeline: Pipeline, item: Seen, old: str | None, content: str, found: Found) -> None:
    """A file whose content has been read: a new recording, a duplicate, or a new content of a known file."""
    catalog = pipeline.catalog
    catalog.update("recordings", {"status": "new", "reason": None, "path": item.path}, content=content, status="gone")
    if content == old:
        return  # only its date has changed, or it has returned
    recording_of = "SELECT id, path, status FROM recordings WHERE content = ?"
    twin, replaced = catalog.one(recording_of, [content]), catalog.one(recording_of, [old])
    if catalog.value("SELECT count(*) FROM files WHERE content = ? AND state != 'gone'", [old]):
        replaced = None  # other files still have the old content
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
        modified = None if item.modified is None else iso(datetime.fromtimestamp(item.modified, UTC))
        row = {"content": content, "path": item.path, "size": item.size, "modified": modified, "status": "new"}
        number = catalog.insert("recordings", {**row, "first_seen": iso(pipeline.now)})
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


def supersede(pipeline: Pipeline, old: int, new: int, path: str) -> None:
    """Replace a recording by the new content of its file."""
    reason = f"replaced by the new content of {path} (recording {new})"
    pipeline.catalog.update("recordings", {"status": "superseded", "reason": reason}, id=old)
    pipeline.note("superseded", f"Recording {old} is {reason}.", recording=old, path=path)


class HeldBack(DlccaError):
    """A recording that can be read, and should not be trusted."""

    exit_code = 5


def order(pipeline: Pipeline) -> list[Row]:
    """Find the day of every pending recording; refuse those that cannot be opened. The others, in order of start."""
    catalog, pending = pipeline.catalog, "status IN ('new', 'failed')"
    for recording in pipeline.recordings(f"{pending} AND day IS NULL"):
        try:
            facts = _day_and_span(pipeline, recording)
        except Exception as error:
            failed(pipeline, recording, error)
            continue
        with catalog.change():
            catalog.update("recordings", facts, id=recording["id"])
            # Two recordings of the same time may be of two devices, or of one whose clock was set back.
            query = (
                "SELECT path FROM recordings WHERE id != :id AND start < :ends AND ends > :start "
                "AND status IN ('new', 'done') AND id != coalesce(:replaces, 0) LIMIT 1"
            )
            if other := catalog.value(query, {**recording, **facts}):
                text = f"{recording['path']} overlaps in time with {other}: two devices, or a clock that was set back?"
                pipeline.note("overlap", text, {**recording, **facts})
    return pipeline.recordings(f"{pending} AND day IS NOT NULL")


def _day_and_span(pipeline: Pipeline, recording: Row) -> dict[str, str | None]:
    """Start, end and day of a recording; one of an impossible day is held back."""
    spans = _spans(pipeline, recording)
    start = min((start for start, _ in spans), default=None)
    pattern, day = pipeline.settings.sources.day_pattern, None
    if pattern and (found := re.search(pattern, os.path.basename(recording["path"]))):
        try:
            day = date(*map(int, found.groups()))
        except ValueError as error:
            raise HeldBack(f"day_pattern = {pattern!r} finds no valid day in its name: {error}.") from error
    if day is None:
        when = start or datetime.fromisoformat(recording["modified"] or recording["first_seen"])
        day = (when.astimezone(UTC) - timedelta(hours=pipeline.settings.outputs.day_begins_h)).date()
    earliest = pipeline.settings.gate.earliest
    if earliest and day < date.fromisoformat(earliest):
        raise HeldBack(f"its start is on {day}, before [gate] earliest = {earliest}: was its clock set back?")
    if day > (pipeline.now + AHEAD).date():
        raise HeldBack(f"its start is on {day}, which is in the future: is its clock right, or that of this machine?")
    ends = iso(max(end for _, end in spans)) if spans else None
    return {"start": None if start is None else iso(start), "ends": ends, "day": day.isoformat()}


def _spans(pipeline: Pipeline, recording: Row) -> list[tuple[datetime, datetime]]:
    """When the files of a recording begin and end, as far as their headers say so."""
    from dlcca.recordings.timeline import File

    parts, n_read, _stamp = files_of(pipeline, recording)
    spans = []
    with pipeline.scratch(f"header-{recording['id']}") as scratch:
        for path in sources.local_files(parts[:n_read], scratch):
            # The options of the first view that may be in this file.
            options = (r.reader_options for r in pipeline.settings.recipes.values() if path in files_for(r, [path]))
            opened = File.at(path, next(options, {})).recording
            if opened.start is not None:
                start = opened.start if opened.start.tzinfo else opened.start.replace(tzinfo=UTC)
                spans.append((start, start + timedelta(seconds=opened.end_s)))
    return spans


def files_of(pipeline: Pipeline, recording: Row) -> tuple[list[str], int, str]:
    """All files of a recording, how many of them (the first) a reader is given, and their stamp."""
    query = "SELECT path, parts, n_read, stamp FROM files WHERE content = ? AND state = 'known' ORDER BY path = ? DESC"
    for row in pipeline.catalog.all(query, [recording["content"], recording["path"]]):
        parts = [pipeline.settings.address(part) for part in json.loads(row["parts"])]
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
    is_ours = isinstance(error, StorageError | ClusterError) or isinstance(error.__cause__, ImportError)
    if isinstance(error, HeldBack):
        status, what = "held", "is held back"
    elif is_ours or not isinstance(error, DlccaError):
        status, what = "failed", "failed, and is tried again"
    else:
        status, what = "refused", "is refused"
    reason = described(error)
    row = {"status": status, "reason": reason, "run": pipeline.run, "finished": iso(pipeline.now)}
    row["settings"] = pipeline.settings.fingerprint()  # with others it is tried again
    if recording["result"]:
        row = {"status": "done"}
        reason += " Its earlier result is kept."
    with pipeline.catalog.change():
        pipeline.catalog.update("recordings", {**row, "attempts": recording["attempts"] + 1}, id=recording["id"])
        pipeline.note(status, f"{recording['path']} {what}: {reason}", recording)


def done(pipeline: Pipeline, recording: Row, facts: dict[str, Any]) -> None:
    """Store that a recording is embedded; the recording that it replaces is superseded in the same transaction."""
    number, replaced = recording["id"], recording["replaces"]
    row = {"status": "done", "reason": None, "run": pipeline.run, "finished": iso(pipeline.now)}
    row |= {**pipeline.with_paths(recorded, facts), "attempts": recording["attempts"] + 1}
    with pipeline.catalog.change():
        pipeline.catalog.update("recordings", row, id=number)
        if pipeline.catalog.value("SELECT status FROM recordings WHERE id = ?", [replaced]) == "done":
            supersede(pipeline, replaced, number, recording["path"])
        text = (
            f"{recording['path']} was embedded with model {facts['model']}: {facts['valid']} of {facts['rows']} rows "
            f"are valid, {facts['outside']} are outside the data of the fit."
        )
        pipeline.note("done", text, recording)

"""Recordings in the catalog: the day that each belongs to, their order, and how each came out."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dlcca.errors import ClusterError, DlccaError, StorageError
from dlcca.pipelines import sources
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.discover import supersede
from dlcca.settings.recipe import ViewRecipe

#: A recording that failed this often no longer delays the publication of its day.
MOST_ATTEMPTS = 3
#: A start further in the future than this is not a matter of time zones.
AHEAD = timedelta(days=1)


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
    from dlcca.recordings import ingest
    from dlcca.recordings.timeline import File

    parts, n_read, _stamp = files_of(pipeline, recording)
    scratch = pipeline.state / "work" / f"header-{recording['id']}"
    spans = []
    try:
        for path in sources.local_files(parts[:n_read], scratch):
            # The options of the first view that may be in this file.
            options = (r.reader_options for r in pipeline.settings.recipes.values() if path in files_for(r, [path]))
            opened = File.at(path, next(options, {})).open(ingest.opener())
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
        pipeline.note("overlap", text, recording=recording["id"], path=recording["path"], day=facts["day"])


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


def failed(pipeline: Pipeline, recording: Row, error: Exception) -> str:
    """Store the error of a recording; the status that it then has."""
    known = isinstance(error, DlccaError | OSError)
    temporary = not known or isinstance(error.__cause__, ImportError)  # a fault of this machine, not of the recording
    status = "refused"
    if isinstance(error, HeldBack):
        status = "held"
    elif temporary or isinstance(error, StorageError | ClusterError | OSError):
        status = "failed"
    reason = str(error) if known else f"unexpected {type(error).__name__}: {error}"
    words = {"refused": "is refused", "held": "is held back", "failed": "failed, and is tried again"}
    with pipeline.catalog.change():
        row = {"status": status, "reason": reason, "run": pipeline.run, "finished": iso(pipeline.now)}
        row["settings"] = pipeline.settings.fingerprint()  # with others it is tried again
        if recording["result"]:
            row = {"status": "done"}
            reason += " Its earlier result is kept."
        pipeline.catalog.update("recordings", {**row, "attempts": recording["attempts"] + 1}, id=recording["id"])
        text = f"{recording['path']} {words[status]}: {reason}"
        pipeline.note(status, text, recording=recording["id"], path=recording["path"], day=recording["day"])
    return status


def done(pipeline: Pipeline, recording: Row, facts: dict[str, Any]) -> None:
    """Store that a recording is embedded; the recording that it replaces is superseded in the same transaction."""
    catalog, number = pipeline.catalog, recording["id"]
    with catalog.change():
        row = {"status": "done", "reason": None, "run": pipeline.run, "finished": iso(pipeline.now)}
        row |= pipeline.relative(facts)
        catalog.update("recordings", {**row, "attempts": recording["attempts"] + 1}, id=number)
        if recording["result"] and recording["result"] != facts["result"]:
            pipeline.remove_later("state", recording["result"])
        replaced = recording["replaces"]
        if replaced is not None and pipeline.recording(replaced)["status"] == "done":
            supersede(pipeline, replaced, number, recording["path"])
        text = (
            f"{recording['path']} was embedded with model {facts['model']}: {facts['valid']} of {facts['rows']} rows "
            f"are valid, {facts['outside']} are outside the data of the fit."
        )
        pipeline.note("done", text, recording=number, path=recording["path"], day=recording["day"])

"""The day that each new recording belongs to, by its header; they are then embedded in the order of their starts."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dlcca.pipelines import status
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.status import HeldBack

#: A start this far ahead is no matter of time zones.
AHEAD = timedelta(days=1)


def pending(flow: Pipeline) -> list[dict[str, Any]]:
    """The recordings that are to be embedded, in the order of their starts; those of unknown start by name."""
    query = "SELECT * FROM recordings WHERE status IN ('new', 'failed') "
    return flow.catalog.all(query + "ORDER BY day IS NULL, day, start IS NULL, start, path")


def order(flow: Pipeline) -> list[dict[str, Any]]:
    """Find out the day of every pending recording; what cannot be opened is refused. Those that are left, in order."""
    for recording in pending(flow):
        if recording["day"] is not None:
            continue
        try:
            facts = _looked_up(flow, recording)
        except Exception as error:
            status.failed(flow, recording, error)
            continue
        with flow.catalog.change():
            flow.catalog.update("recordings", facts, id=recording["id"])
            _note_overlap(flow, recording, facts)
    return [recording for recording in pending(flow) if recording["day"] is not None]


def _looked_up(flow: Pipeline, recording: dict[str, Any]) -> dict[str, Any]:
    """Start, end and day of a recording."""
    span = _span(flow, recording)
    named = _day_in_name(recording["path"], flow.settings.sources.day_pattern)
    start, end = span if span is not None else (None, None)
    if named is None:
        when = start or datetime.fromisoformat(recording["modified"] or recording["first_seen"])
        named = day_of(when, flow.settings.outputs.day_begins_h)
    _refuse_wrong_clock(flow, named)
    return {
        "start": None if start is None else iso(start),
        "ends": None if end is None else iso(end),
        "day": named.isoformat(),
    }


def day_of(moment: datetime, begins_h: float) -> date:
    """The day that a moment belongs to, if days begin at this hour (UTC)."""
    return (moment.astimezone(UTC) - timedelta(hours=begins_h)).date()


def _span(flow: Pipeline, recording: dict[str, Any]) -> tuple[datetime, datetime] | None:
    """When a recording begins and ends; None if it does not say. Reads headers alone."""
    from dlcca.pipelines.digest import here
    from dlcca.recordings import ingest
    from dlcca.recordings.timeline import File

    _parts, read, _stamp = status.files_of(flow, recording)
    scratch = flow.state / "work" / f"header-{recording['id']}"
    spans = []
    try:
        for path in here(read, scratch):
            opened = File.at(path, _reader_options(flow, path)).open(ingest.opener())
            if opened.start is not None:
                start = opened.start if opened.start.tzinfo else opened.start.replace(tzinfo=UTC)
                lasts = max((signal.start_s + signal.duration_s for signal in opened.signals), default=0.0)
                spans.append((start, start + timedelta(seconds=lasts)))
    finally:
        flow.remove(scratch)
    if not spans:
        return None
    return min(start for start, _ in spans), max(end for _, end in spans)


def _reader_options(flow: Pipeline, path: str) -> dict[str, Any]:
    """What the reader of a file is told, by the first view that may be in it."""
    from dlcca.pipelines.preprocessing import files_for

    for recipe in flow.settings.recipes.values():
        if path in files_for(recipe, [path]):
            return recipe.reader_options
    return {}


def _day_in_name(path: str, pattern: str) -> date | None:
    found = re.search(pattern, os.path.basename(path)) if pattern else None
    if found is None:
        return None
    try:
        return date(*(int(group) for group in found.groups()))
    except ValueError as error:
        raise HeldBack(f"its name holds no day that day_pattern = {pattern!r} could tell: {error}.") from error


def _refuse_wrong_clock(flow: Pipeline, day: date) -> None:
    """A start that cannot be true would be published under a day that nobody looks at."""
    earliest = flow.settings.gate.earliest
    if earliest and day < date.fromisoformat(earliest):
        raise HeldBack(f"it says that it began on {day}, before [gate] earliest = {earliest}: was its clock set back?")
    if day > (flow.now + AHEAD).date():
        raise HeldBack(f"it says that it began on {day}, which is in the future: is its clock right, or ours?")


def _note_overlap(flow: Pipeline, recording: dict[str, Any], facts: dict[str, Any]) -> None:
    """Two recordings of one time may be of two devices, or of one whose clock was set back: a line, no more."""
    if facts["start"] is None:
        return
    query = (
        "SELECT path FROM recordings WHERE id != ? AND start < ? AND ends > ? AND status IN ('new', 'done') "
        "AND id != coalesce(?, 0) LIMIT 1"
    )
    other = flow.catalog.value(query, [recording["id"], facts["ends"], facts["start"], recording["replaces"]])
    if other is not None:
        text = (
            f"{recording['path']} says that it was recorded while {other} was: two devices, or a clock that went back?"
        )
        flow.note("overlap", text, recording=recording["id"], path=recording["path"], day=facts["day"])

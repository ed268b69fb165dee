"""How a recording came out, in the catalog: one change, with its line in the history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dlcca.errors import ClusterError, DlccaError, StorageError
from dlcca.pipelines import folders
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.stats import stamp_of

#: A recording that failed so often no longer keeps its day from being published.
MOST_ATTEMPTS = 3


class HeldBack(DlccaError):
    """A recording that could be read, and should not be trusted."""

    exit_code = 5


def files_of(flow: Pipeline, recording: dict[str, Any]) -> tuple[list[str], list[str], str]:
    """All files of a recording, those among them that are opened, and their stamp; a file that holds it still."""
    query = "SELECT path, parts, n_read, stamp FROM files WHERE content = ? AND state = 'known' ORDER BY path = ? DESC"
    for row in flow.catalog.all(query, [recording["content"], recording["path"]]):
        parts = [flow.settings.source(part) for part in json.loads(row["parts"])]
        if "://" in row["path"] or stamp_of(parts) == row["stamp"]:
            return parts, parts[: row["n_read"]], row["stamp"]
    raise StorageError(f"{recording['path']} is not there any more, or is being changed.")


def failed(flow: Pipeline, recording: dict[str, Any], error: Exception) -> str:
    """Take note of what went wrong with a recording; the status that it then has."""
    known = isinstance(error, DlccaError | OSError)
    ours = not known or isinstance(error.__cause__, ImportError)  # a fault of this machine, not of the recording
    status = "refused"
    if isinstance(error, HeldBack):
        status = "held"
    elif ours or isinstance(error, StorageError | ClusterError | OSError):
        status = "failed"
    reason = str(error) if known else f"unexpected {type(error).__name__}: {error}"
    words = {"refused": "is refused", "held": "is held back", "failed": "could not be done, and is tried again"}
    with flow.catalog.change():
        row = {"status": status, "reason": reason, "run": flow.run, "finished": iso(flow.now)}
        row["settings"] = flow.settings.fingerprint()  # with others it is tried again
        if recording["result"]:  # it was to be embedded once more: what it has stands
            row = {"status": "done"}
            reason += " Its earlier result stands."
        flow.catalog.update("recordings", {**row, "attempts": recording["attempts"] + 1}, id=recording["id"])
        text = f"{recording['path']} {words[status]}: {reason}"
        flow.note(status, text, recording=recording["id"], path=recording["path"], day=recording["day"])
    return status


def done(flow: Pipeline, recording: dict[str, Any], facts: dict[str, Any]) -> None:
    """A recording has its coordinates; what it replaces gives way to it in the same moment."""
    catalog, number = flow.catalog, recording["id"]
    with catalog.change():
        row = {"status": "done", "reason": None, "run": flow.run, "finished": iso(flow.now)}
        row |= folders.row_recorded(flow.settings, facts)
        catalog.update("recordings", {**row, "attempts": recording["attempts"] + 1}, id=number)
        if recording["result"] and recording["result"] != facts["result"]:
            flow.later("state", recording["result"])
        replaced = recording["replaces"]
        if replaced is not None and flow.recording(replaced)["status"] == "done":
            reason = f"replaced by what {recording['path']} holds now (recording {number})"
            catalog.update("recordings", {"status": "superseded", "reason": reason}, id=replaced)
            flow.note("superseded", f"Recording {replaced} is {reason}.", recording=replaced, path=recording["path"])
        text = (
            f"{recording['path']} was embedded with model {facts['model']}: {facts['valid']} of {facts['rows']} rows "
            f"are valid, {facts['outside']} outside what the fit saw."
        )
        flow.note("done", text, recording=number, path=recording["path"], day=recording["day"])


def clear(flow: Pipeline, place: Path, begun: bool) -> None:
    """Make what a killed run has left at a place fit to be gone on with; what was not even ``begun`` is removed."""
    if not begun:
        flow.remove(place)
        return
    flow.remove(*place.rglob("*.partial"))  # files that Zarr was writing when it was killed

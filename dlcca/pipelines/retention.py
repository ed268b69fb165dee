"""What is old and no longer needed is removed. Published days stay, and so does whatever the catalog points to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from dlcca.errors import DlccaError
from dlcca.pipelines import folders
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline

#: Names of views, results and versions of days, as they are made; whatever else lies beside them stays.
OURS = re.compile(r"(\d{6}-[0-9a-f]{12}|\d{4}-\d\d-\d\d)-.*\.zarr")


@dataclass
class Removed:
    """What a clearing came to."""

    paths: list[str] = field(default_factory=list)
    views: int = 0
    models: list[int] = field(default_factory=list)
    lines: int = 0
    refused: list[str] = field(default_factory=list)  # why something stays, in sentences

    def __bool__(self) -> bool:
        return bool(self.paths or self.views or self.models or self.lines)


def retain(flow: Pipeline, *, dry: bool = False) -> Removed:
    """Remove what [retention] does not keep; with ``dry`` only say what it would be."""
    removed = Removed()
    _views(flow, removed, dry)
    _models(flow, removed, dry)
    _replaced(flow, removed, dry)
    _history(flow, removed, dry)
    for reason in removed.refused:
        flow.note("failed", reason)
    if removed and not dry:
        flow.note(
            "retention",
            f"Removed: views of {removed.views} recordings, {len(removed.models)} models, {removed.lines} lines of the "
            f"history, {len(removed.paths)} results that had been replaced.",
        )
    return removed


def _views(flow: Pipeline, removed: Removed, dry: bool) -> None:
    """Views of recordings that were embedded long ago."""
    days = flow.settings.retention.views_days
    if not days:
        return
    query = "SELECT id, views FROM recordings WHERE views IS NOT NULL AND finished < ?"
    old = flow.catalog.all(query, [iso(flow.now - timedelta(days=days))])
    for row in old:
        places = _removable(flow, removed, flow.state, row["views"])
        removed.views += bool(places)
        if places and not dry:
            flow.catalog.update("recordings", {"views": None}, id=row["id"])
            flow.remove(*places)


def _models(flow: Pipeline, removed: Removed, dry: bool) -> None:
    """Versions beyond those that are kept, the oldest first; never the one in use."""
    most = flow.settings.retention.models
    if not most:
        return
    query = "SELECT version, address, rows_store, held_store FROM models WHERE status IN ('kept', 'rejected') "
    for row in flow.catalog.all(query + "ORDER BY version DESC")[most - 1 :]:
        names = [name for name in (row["address"], row["rows_store"], row["held_store"]) if name]
        places = _removable(flow, removed, flow.settings.models, *names)
        if names and not places:
            continue
        removed.models.append(row["version"])
        if not dry:
            flow.catalog.update("models", {"status": "removed"}, version=row["version"])
            flow.remove(*places)


def _replaced(flow: Pipeline, removed: Removed, dry: bool) -> None:
    """What nobody points to any more, so long after this was first seen that nobody reads it either."""
    found = flow.catalog.all("SELECT * FROM replaced ORDER BY folder, path")
    known = {(row["folder"], row["path"]): row["since"] for row in found}
    loose = set(_loose(flow))
    fresh = sorted(place for place in loose if place not in known)
    if fresh and not dry:
        flow.catalog.do_many("INSERT OR IGNORE INTO replaced VALUES (?, ?, ?)", [[*p, iso(flow.now)] for p in fresh])
    keep, roots = timedelta(days=flow.settings.retention.replaced_days), folders.of(flow.settings)
    for (folder, name), since in known.items():
        is_old, is_loose = flow.since(since) >= keep, (folder, name) in loose
        if is_loose and is_old:
            places = _removable(flow, removed, roots[folder], name)
            removed.paths += places
            if not dry:
                flow.remove(*places)
        if not dry and (not is_loose or (is_old and not os.path.exists(roots[folder] / name))):
            flow.catalog.do("DELETE FROM replaced WHERE folder = ? AND path = ?", [folder, name])


def _removable(flow: Pipeline, removed: Removed, folder: Path, *names: str) -> list[str]:
    """Where paths of the catalog are; none if one of them may not be removed, and then it is noted why."""
    try:
        places = [folders.located(folder, name) for name in names]
        folders.refuse_outside(flow.settings, *places)
    except DlccaError as error:
        removed.refused.append(str(error))
        return []
    return places


def _loose(flow: Pipeline) -> Iterator[tuple[str, str]]:
    """Versions of days, views and results that nothing points to: the folder they are in, and their path in it."""
    outputs = flow.settings.outputs
    if outputs.zarr:
        folder = flow.settings.place(outputs.zarr)
        used = {os.readlink(link) for link in folder.glob("*.zarr") if link.is_symlink()}
        yield from (("zarr", path) for path in _inside(folder, ".versions") if path not in used)
    for name, column in (("views", "views"), ("results", "result")):
        query = f"SELECT {column} AS place FROM recordings WHERE {column} IS NOT NULL AND status != 'superseded'"
        used = {row["place"] for row in flow.catalog.all(query)}
        yield from (("state", path) for path in _inside(flow.state, name) if path not in used)


def _inside(root: Path, name: str) -> list[str]:
    """What lies in a folder under a name as we give them."""
    folder = root / name
    names = sorted(place.name for place in folder.iterdir()) if folder.is_dir() else []
    return [f"{name}/{inner}" for inner in names if OURS.fullmatch(inner)]


def _history(flow: Pipeline, removed: Removed, dry: bool) -> None:
    days = flow.settings.retention.history_days
    if not days:
        return
    before = iso(flow.now - timedelta(days=days))
    removed.lines = flow.catalog.value("SELECT count(*) FROM history WHERE at < ?", [before])
    if removed.lines and not dry:
        flow.catalog.do("DELETE FROM history WHERE at < ?", [before])

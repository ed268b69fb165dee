"""What is old and no longer needed is removed. Published days stay, and so does whatever the catalog points to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from dlcca.pipelines.catalog import iso
from dlcca.pipelines.flow import Pipeline


@dataclass
class Removed:
    """What a clearing came to."""

    paths: list[str] = field(default_factory=list)
    views: int = 0
    models: list[int] = field(default_factory=list)
    lines: int = 0

    def __bool__(self) -> bool:
        return bool(self.paths or self.views or self.models or self.lines)


def retain(flow: Pipeline, *, dry: bool = False) -> Removed:
    """Remove what [retention] does not keep; with ``dry`` only say what it would be."""
    removed = Removed()
    _views(flow, removed, dry)
    _models(flow, removed, dry)
    _replaced(flow, removed, dry)
    _history(flow, removed, dry)
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
    removed.views = len(old)
    for row in [] if dry else old:
        flow.catalog.update("recordings", {"views": None}, id=row["id"])
        shutil.rmtree(row["views"], ignore_errors=True)


def _models(flow: Pipeline, removed: Removed, dry: bool) -> None:
    """Versions beyond those that are kept, the oldest first; never the one in use."""
    most = flow.settings.retention.models
    if not most:
        return
    query = "SELECT version, address, rows_store, held_store FROM models WHERE status IN ('kept', 'rejected') "
    for row in flow.catalog.all(query + "ORDER BY version DESC")[most - 1 :]:
        removed.models.append(row["version"])
        if not dry:
            flow.catalog.update("models", {"status": "removed"}, version=row["version"])
            for place in (row["address"], row["rows_store"], row["held_store"]):
                if place:
                    shutil.rmtree(place, ignore_errors=True)


def _replaced(flow: Pipeline, removed: Removed, dry: bool) -> None:
    """What nobody points to any more, so long after this was first seen that nobody reads it either."""
    known = {row["path"]: row["since"] for row in flow.catalog.all("SELECT * FROM replaced")}
    loose = set(_loose(flow))
    fresh = [path for path in loose if path not in known]
    if fresh and not dry:
        flow.catalog.do_many("INSERT OR IGNORE INTO replaced VALUES (?, ?)", [[p, iso(flow.now)] for p in fresh])
    keep = timedelta(days=flow.settings.retention.replaced_days)
    for path, since in known.items():
        is_old = flow.since(since) >= keep
        if path in loose and is_old:
            removed.paths.append(path)
            if not dry:
                shutil.rmtree(path, ignore_errors=True)
        if not dry and (path not in loose or (is_old and not os.path.exists(path))):
            flow.catalog.do("DELETE FROM replaced WHERE path = ?", [path])


def _loose(flow: Pipeline) -> Iterator[str]:
    """Versions of days, views and results that nothing points to."""
    outputs = flow.settings.outputs
    if outputs.zarr:
        folder = flow.settings.place(outputs.zarr)
        used = {os.readlink(link) for link in folder.glob("*.zarr") if link.is_symlink()}
        yield from (str(p) for p in _inside(folder / ".versions") if f".versions/{p.name}" not in used)
    for name, column in (("views", "views"), ("results", "result")):
        query = f"SELECT {column} AS place FROM recordings WHERE {column} IS NOT NULL AND status != 'superseded'"
        used = {row["place"] for row in flow.catalog.all(query)}
        yield from (str(p) for p in _inside(flow.state / name) if str(p) not in used)


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _history(flow: Pipeline, removed: Removed, dry: bool) -> None:
    days = flow.settings.retention.history_days
    if not days:
        return
    before = iso(flow.now - timedelta(days=days))
    removed.lines = flow.catalog.value("SELECT count(*) FROM history WHERE at < ?", [before])
    if removed.lines and not dry:
        flow.catalog.do("DELETE FROM history WHERE at < ?", [before])

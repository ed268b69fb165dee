"""Retention: removal of what is old and not needed. Published days and all that the catalog refers to are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from dlcca.errors import DlccaError
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline, folders, located, refuse_outside

#: Names of views, results and versions of days; other files beside them are kept.
OURS = re.compile(r"(\d{6}-[0-9a-f]{12}|\d{4}-\d\d-\d\d)-.*\.zarr")


@dataclass
class Removed:
    """What was removed."""

    paths: list[str] = field(default_factory=list)
    views: int = 0
    models: list[int] = field(default_factory=list)
    lines: int = 0
    refused: list[str] = field(default_factory=list)  # why something was not removed

    def __bool__(self) -> bool:
        return bool(self.paths or self.views or self.models or self.lines)


def retain(pipeline: Pipeline, *, dry: bool = False) -> Removed:
    """Remove what [retention] does not keep; with ``dry``, only report it."""
    removed = Removed()
    _views(pipeline, removed, dry)
    _models(pipeline, removed, dry)
    _replaced(pipeline, removed, dry)
    _history(pipeline, removed, dry)
    for reason in removed.refused:
        pipeline.note("failed", reason)
    if removed and not dry:
        pipeline.note(
            "retention",
            f"Removed: views of {removed.views} recordings, {len(removed.models)} models, {removed.lines} lines of the "
            f"history, {len(removed.paths)} replaced results.",
        )
    return removed


def _views(pipeline: Pipeline, removed: Removed, dry: bool) -> None:
    """Views of recordings that were embedded long ago."""
    days = pipeline.settings.retention.views_days
    if not days:
        return
    query = "SELECT id, views FROM recordings WHERE views IS NOT NULL AND finished < ?"
    old = pipeline.catalog.all(query, [iso(pipeline.now - timedelta(days=days))])
    for row in old:
        places = _removable(pipeline, removed, pipeline.state, row["views"])
        removed.views += bool(places)
        if places and not dry:
            pipeline.catalog.update("recordings", {"views": None}, id=row["id"])
            pipeline.remove(*places)


def _models(pipeline: Pipeline, removed: Removed, dry: bool) -> None:
    """Versions beyond those that are kept; never the one in use."""
    most = pipeline.settings.retention.models
    if not most:
        return
    query = "SELECT version, address, rows_store, held_store FROM models WHERE status IN ('kept', 'rejected') "
    for row in pipeline.catalog.all(query + "ORDER BY version DESC")[most - 1 :]:
        names = [name for name in (row["address"], row["rows_store"], row["held_store"]) if name]
        places = _removable(pipeline, removed, pipeline.settings.models, *names)
        if names and not places:
            continue
        removed.models.append(row["version"])
        if not dry:
            pipeline.catalog.update("models", {"status": "removed"}, version=row["version"])
            pipeline.remove(*places)


def _replaced(pipeline: Pipeline, removed: Removed, dry: bool) -> None:
    """What nothing refers to, after the time that [retention] gives to processes that still read it.

    The time begins with the first call that finds it.
    """
    found = pipeline.catalog.all("SELECT * FROM replaced ORDER BY folder, path")
    known = {(row["folder"], row["path"]): row["since"] for row in found}
    loose = set(_loose(pipeline))
    fresh = sorted(place for place in loose if place not in known)
    if fresh and not dry:
        rows = [[*place, iso(pipeline.now)] for place in fresh]
        pipeline.catalog.do_many("INSERT OR IGNORE INTO replaced VALUES (?, ?, ?)", rows)
    keep, roots = timedelta(days=pipeline.settings.retention.replaced_days), folders(pipeline.settings)
    for (folder, name), since in known.items():
        is_old, is_loose = pipeline.since(since) >= keep, (folder, name) in loose
        if is_loose and is_old:
            places = _removable(pipeline, removed, roots[folder], name)
            removed.paths += places
            if not dry:
                pipeline.remove(*places)
        if not dry and (not is_loose or (is_old and not os.path.exists(roots[folder] / name))):
            pipeline.catalog.do("DELETE FROM replaced WHERE folder = ? AND path = ?", [folder, name])


def _removable(pipeline: Pipeline, removed: Removed, folder: Path, *names: str) -> list[str]:
    """Absolute paths of paths of the catalog; none, with the reason noted, if one of them cannot be removed."""
    try:
        places = [located(folder, name) for name in names]
        refuse_outside(pipeline.settings, *places)
    except DlccaError as error:
        removed.refused.append(str(error))
        return []
    return places


def _loose(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Versions of days, views and results that nothing refers to: the name of their folder, and their path in it."""
    outputs = pipeline.settings.outputs
    if outputs.zarr:
        folder = pipeline.settings.place(outputs.zarr)
        used = {os.readlink(link) for link in folder.glob("*.zarr") if link.is_symlink()}
        yield from (("zarr", path) for path in _inside(folder, ".versions") if path not in used)
    for name, column in (("views", "views"), ("results", "result")):
        query = f"SELECT {column} AS place FROM recordings WHERE {column} IS NOT NULL AND status != 'superseded'"
        used = {row["place"] for row in pipeline.catalog.all(query)}
        yield from (("state", path) for path in _inside(pipeline.state, name) if path not in used)


def _inside(root: Path, name: str) -> list[str]:
    """Paths in a subfolder with names that a pipeline gives."""
    folder = root / name
    names = sorted(place.name for place in folder.iterdir()) if folder.is_dir() else []
    return [f"{name}/{inner}" for inner in names if OURS.fullmatch(inner)]


def _history(pipeline: Pipeline, removed: Removed, dry: bool) -> None:
    days = pipeline.settings.retention.history_days
    if not days:
        return
    before = iso(pipeline.now - timedelta(days=days))
    removed.lines = pipeline.catalog.value("SELECT count(*) FROM history WHERE at < ?", [before])
    if removed.lines and not dry:
        pipeline.catalog.do("DELETE FROM history WHERE at < ?", [before])

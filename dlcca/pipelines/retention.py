"""Retention: removal of what is old and not needed. Published days and all that the catalog refers to are kept."""

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

    def __str__(self) -> str:
        counts = f"{len(self.models)} models, {self.lines} lines of the history"
        return f"views of {self.views} recordings, {counts}, {len(self.paths)} replaced results"


def retain(pipeline: Pipeline, *, dry: bool = False) -> Removed:
    """Remove what [retention] does not keep; with ``dry``, only report it."""
    removed = Removed()
    for step in (_views, _models, _replaced):
        step(pipeline, removed, dry)
    before = [_limit(pipeline, pipeline.settings.retention.history_days)]
    removed.lines = pipeline.catalog.value("SELECT count(*) FROM history WHERE at < ?", before)
    if removed.lines and not dry:
        pipeline.catalog.do("DELETE FROM history WHERE at < ?", before)
    for reason in removed.refused:
        pipeline.note("failed", reason)
    if not dry and (removed.paths or removed.views or removed.models or removed.lines):
        pipeline.note("retention", f"Removed: {removed}.")
    return removed


def _limit(pipeline: Pipeline, days: float) -> str:
    """The time before which something is removed; with 0 days, earlier than all times."""
    return iso(pipeline.now - timedelta(days=days)) if days else ""


def _views(pipeline: Pipeline, removed: Removed, dry: bool) -> None:
    """Views of recordings that were embedded long ago."""
    query = "SELECT id, views FROM recordings WHERE views IS NOT NULL AND finished < ?"
    for row in pipeline.catalog.all(query, [_limit(pipeline, pipeline.settings.retention.views_days)]):
        places = _removable(pipeline, removed, pipeline.state, row["views"])
        removed.views += bool(places)
        if places and not dry:
            pipeline.catalog.update("recordings", {"views": None}, id=row["id"])
            pipeline.remove(*places)


def _models(pipeline: Pipeline, removed: Removed, dry: bool) -> None:
    """Versions beyond those that are kept; never the one in use."""
    most = pipeline.settings.retention.models
    query = "SELECT version, address, rows_store, held_store FROM models WHERE status IN ('kept', 'rejected') "
    for row in pipeline.catalog.all(query + "ORDER BY version DESC")[most - 1 :] if most else []:
        version, *names = (value for value in row.values() if value)
        places = _removable(pipeline, removed, pipeline.settings.models, *names)
        if len(places) == len(names):
            removed.models.append(version)
            if not dry:
                pipeline.catalog.update("models", {"status": "removed"}, version=version)
                pipeline.remove(*places)


def _replaced(pipeline: Pipeline, removed: Removed, dry: bool) -> None:
    """What nothing refers to, after the time that [retention] gives readers, from the first call that finds it."""
    catalog, loose, roots = pipeline.catalog, set(_loose(pipeline)), folders(pipeline.settings)
    found = catalog.all("SELECT * FROM replaced ORDER BY folder, path")
    known = {(row["folder"], row["path"]): row["since"] for row in found}
    if not dry:
        fresh = [[*place, iso(pipeline.now)] for place in sorted(loose - known.keys())]
        catalog.do_many("INSERT OR IGNORE INTO replaced VALUES (?, ?, ?)", fresh)
    keep = timedelta(days=pipeline.settings.retention.replaced_days)
    for (folder, name), since in known.items():
        is_old, is_loose = pipeline.since(since) >= keep, (folder, name) in loose
        if is_loose and is_old:
            places = _removable(pipeline, removed, roots[folder], name)
            removed.paths += places
            if not dry:
                pipeline.remove(*places)
        if not dry and (not is_loose or (is_old and not os.path.exists(roots[folder] / name))):
            catalog.do("DELETE FROM replaced WHERE folder = ? AND path = ?", [folder, name])


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
    roots = folders(pipeline.settings)
    query = "SELECT views, result FROM recordings WHERE status != 'superseded'"
    used = {row[column] for row in pipeline.catalog.all(query) for column in ("views", "result")}
    if "zarr" in roots:
        used |= {os.readlink(link) for link in roots["zarr"].glob("*.zarr") if link.is_symlink()}
    for folder, inner in (("zarr", ".versions"), ("state", "views"), ("state", "results")):
        for place in (roots[folder] / inner).glob("*") if folder in roots else ():
            if OURS.fullmatch(place.name) and f"{inner}/{place.name}" not in used:
                yield folder, f"{inner}/{place.name}"

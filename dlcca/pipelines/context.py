"""A pipeline as every step receives it: settings, catalog, clock, workers, and its folders.

The catalog records paths relative to the folders of the pipeline, and nothing outside them is ever removed. So a
pipeline can be copied or moved with all its files, and the copy works on its own files only.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from dlcca.clusters import LazyClient
from dlcca.errors import SettingsError, StorageError, StoreFileError
from dlcca.pipelines import settings as settings_file
from dlcca.pipelines.catalog import FILE, OWNER, Catalog, Row, iso, refuse_other_state
from dlcca.pipelines.settings import PipelineSettings
from dlcca.storage import places
from dlcca.storage.files import files_at

#: Columns of the catalog that hold paths, and the folder that they are relative to.
PATHS = {"views": "state", "result": "state", "address": "models", "rows_store": "models", "held_store": "models"}

#: SQL: recordings in order of time; those without a start, by name.
IN_TIME = "day IS NULL, day, start IS NULL, start, path"

Say = Callable[[str], None]


def silent(text: str) -> None:
    """Print nothing."""


@dataclass
class Pipeline:
    """An open pipeline."""

    settings: PipelineSettings
    catalog: Catalog
    workers: LazyClient
    clock: Callable[[], datetime]
    say: Say = silent
    run: int | None = None  # id in the catalog

    @property
    def now(self) -> datetime:
        return self.clock()

    @property
    def state(self) -> Path:
        return self.settings.state

    def note(self, kind: str, text: str, of: Mapping[str, Any] | None = None, **columns: Any) -> None:
        """Add a line to the history, about the recording ``of`` it or with other ``columns``."""
        line = {"run": self.run, "at": iso(self.now), "kind": kind, "text": text, **columns}
        if of is not None:
            line |= {"recording": of["id"], "path": of["path"], "day": of["day"]}
        self.catalog.insert("history", line)
        self.say(text)

    def with_paths(self, convert: Callable[[Path, str], str], row: Mapping[str, Any]) -> Row:
        """A row of the catalog with absolute paths (`located`), or one for the catalog (`recorded`)."""
        folders = {key: getattr(self.settings, folder) for key, folder in PATHS.items() if row.get(key)}
        return {**row, **{key: convert(folder, row[key]) for key, folder in folders.items()}}

    def recordings(self, where: str, *values: Any) -> list[Row]:
        """The recordings for which a condition in SQL is true, in order of time, with absolute paths."""
        found = self.catalog.all(f"SELECT * FROM recordings WHERE {where} ORDER BY {IN_TIME}", values)
        return [self.with_paths(located, row) for row in found]

    def models(self, where: str, *values: Any) -> list[Row]:
        """The models for which a condition in SQL is true, with absolute paths and decoded measures."""
        found = self.catalog.all(f"SELECT * FROM models WHERE {where}", values)
        return [{**self.with_paths(located, row), "measures": json.loads(row["measures"] or "{}")} for row in found]

    def model(self, where: str, *values: Any) -> Row | None:
        """The first such model, or None."""
        return next(iter(self.models(where, *values)), None)

    def current_model(self) -> Row | None:
        """The model in use; None before the first fit."""
        return self.model("status = 'current'")

    @property
    def generation(self) -> int:
        """The generation, from 1, of the model in use or else of the next one; ``backfill --anew`` begins another."""
        current = self.current_model()
        if current is not None:
            return int(current["generation"])
        query = "SELECT max(generation) FROM models WHERE status != 'fitting' AND reason IS NULL"  # were used
        return int(self.catalog.value(query) or 0) + 1

    def remove(self, *paths: Path | str) -> None:
        """Remove files, links and folders of the pipeline; a missing one is not an error.

        This is the only function of a pipeline that deletes. It refuses any path that is not strictly inside a folder
        of the pipeline, both the path itself and, if it is a symbolic link, its target.
        """
        refuse_outside(self.settings, *paths)
        for path in paths:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                Path(path).unlink(missing_ok=True)

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A place for temporary files, which are removed after the block, or by the next run if this one is killed."""
        place = self.state / "work" / name
        try:
            yield place
        finally:
            self.remove(place)

    def since(self, moment: str) -> timedelta:
        """Time since a moment; at least 0, because clocks may be set back."""
        return max(timedelta(0), self.now - datetime.fromisoformat(moment))


@contextmanager
def opened(
    path: str | Path, cluster: str | None = None, say: Say = silent, clock: Callable[[], datetime] | None = None
) -> Iterator[Pipeline]:
    """Open the pipeline of a file."""
    read = settings_file.read(path)
    refuse_occupied(read)
    limits = read.cluster
    with Catalog(read.state / FILE) as catalog, LazyClient(cluster, limits.workers, limits.memory_gib, say) as workers:
        yield Pipeline(read, catalog, workers, clock or partial(datetime.now, UTC), say)


#: The folders that a pipeline writes to, by short names, and their settings.
FOLDERS = {"state": "[pipeline] state", "models": "[model] path"}
FOLDERS |= {name: f"[outputs] {name}" for name in ("zarr", "parquet")}


def folders(settings: PipelineSettings) -> dict[str, Path]:
    """The folders that a pipeline writes to, by the names in `FOLDERS`."""
    published = {name: path for name in ("zarr", "parquet") if (path := getattr(settings.outputs, name))}
    written = {"state": settings.pipeline.state, "models": settings.model.path, **published}
    return {name: settings.place(path) for name, path in written.items()}


def refuse_occupied(settings: PipelineSettings) -> None:
    """An error if a folder that the pipeline writes to belongs to something else."""
    for name, folder in folders(settings).items():
        if name == "state":
            refuse_other_state(folder)
        else:
            places.refuse_folder(folder, setting=FOLDERS[name])


def recorded(folder: Path, path: Path | str) -> str:
    """A path inside a folder, relative to the folder."""
    inner = os.path.relpath(path, folder)
    if inner == os.curdir or inner.startswith(os.pardir):
        raise StorageError(f"{path} is outside {folder}, and cannot be recorded in the catalog.")
    return PurePosixPath(inner).as_posix()


def located(folder: Path, name: str) -> str:
    """The absolute path of a path of the catalog; an error if it leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "://" in name:
        raise StoreFileError(
            f"the catalog has the path {name}, which is not inside {folder}: it was damaged or edited. Restore it from "
            "a backup."
        )
    return str(folder / path)


def refuse_outside(settings: PipelineSettings, *paths: Path | str) -> None:
    """An error for a path that `Pipeline.remove` refuses."""
    roots = list(folders(settings).values())
    for given in paths:
        path, found = Path(given), []
        if "://" not in str(given) and path.is_absolute():
            found = [Path(os.path.realpath(path.parent)) / path.name, Path(os.path.realpath(path))]
            if ".." not in path.parts and all(any(root in place.parents for root in roots) for place in found):
                continue
        where = f" (it is {found[-1]})" if found and found[-1] != path else ""
        raise StorageError(
            f"{given}{where} is not removed: it is not inside a folder of this pipeline "
            f"({', '.join(map(str, roots))}). If it belongs to the pipeline, move it back there, or name its folder in "
            "pipeline.toml."
        )


def claim(settings: PipelineSettings) -> None:
    """Record in each existing folder which pipeline it belongs to; an error if it belongs to another one.

    A copied pipeline has copies of its folders, except of those that its file names by an absolute path or that are
    links: these it would share with the original. A folder can be claimed again if it was itself copied or moved, or if
    its pipeline no longer exists.
    """
    home = Path(os.path.realpath(settings.path.parent))
    mine = str(home / settings.path.name)
    for name, folder in folders(settings).items():
        owner = place = ""
        with suppress(OSError, ValueError):  # nobody has claimed it
            owner, place = (folder / OWNER).read_text(encoding="utf-8").splitlines()
        if (owner, place) == (mine, str(folder)):
            continue
        if place == str(folder) and Path(owner).parent != home and os.path.isfile(owner):
            raise SettingsError(
                f"{folder} belongs to the pipeline {owner}; two pipelines cannot share a folder. Choose another one in "
                f"{settings.path.name}: {FOLDERS[name]}."
            )
        if folder.is_dir():
            with suppress(StorageError):  # the next write into the folder reports it
                files_at(str(folder)).put(OWNER, f"{mine}\n{folder}\n".encode())

"""The folders of a pipeline: what the catalog records is relative to them, and nothing outside them is ever removed.

A pipeline may be copied or moved with all its files. The copy has the catalog of the original: a path in it must lead
into the folders of the pipeline that reads it, and nowhere else.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from dlcca.errors import SettingsError, StorageError, StoreFileError
from dlcca.pipelines.catalog import OWNER
from dlcca.pipelines.settings import PipelineSettings

#: Columns of the catalog that hold paths, and the folder that they are relative to.
COLUMNS = {"views": "state", "result": "state", "address": "models", "rows_store": "models", "held_store": "models"}


def of(settings: PipelineSettings) -> dict[str, Path]:
    """The folders that a pipeline writes to, by short names."""
    found = {"state": settings.state, "models": settings.models}
    for name in ("zarr", "parquet"):
        said = getattr(settings.outputs, name)
        if said:
            found[name] = settings.place(said)
    return found


def recorded(folder: Path, path: Path | str) -> str:
    """A path inside a folder as the catalog records it: relative to the folder."""
    inner = os.path.relpath(path, folder)
    if inner == os.curdir or inner.startswith(os.pardir):
        raise StorageError(f"{path} is outside {folder}, and cannot be recorded in the catalog.")
    return PurePosixPath(inner).as_posix()


def located(folder: Path, said: str) -> str:
    """Where a path of the catalog is now; one that leads out of the folder is an error."""
    path = PurePosixPath(said)
    if path.is_absolute() or ".." in path.parts or "://" in said:
        raise StoreFileError(
            f"the catalog has the path {said}, which is not inside {folder}: it was damaged or edited. Restore it from "
            "a copy."
        )
    return str(folder / path)


def row_recorded(settings: PipelineSettings, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for the catalog, its paths relative."""
    return _converted(recorded, settings, row)


def row_located(settings: PipelineSettings, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the catalog, its paths where they are now."""
    return _converted(located, settings, row)


def _converted(convert: Any, settings: PipelineSettings, row: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: COLUMNS[key] for key, value in row.items() if value and key in COLUMNS}
    known = {name: getattr(settings, name) for name in set(given.values())}
    return {**row, **{key: convert(known[name], row[key]) for key, name in given.items()}}


def remove(settings: PipelineSettings, *paths: Path | str) -> None:
    """Remove files, links and folders of the pipeline; what is not there is no error.

    The only function of a pipeline that deletes. It refuses whatever is not strictly inside a folder of the pipeline,
    both the name itself and, if it is a symbolic link, what it points to.
    """
    refuse_outside(settings, *paths)
    for path in paths:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)


def refuse_outside(settings: PipelineSettings, *paths: Path | str) -> None:
    """An error for a path that `remove` does not remove."""
    roots = list(of(settings).values())
    for path in paths:
        _refuse_outside(path, roots)


def _refuse_outside(path: Path | str, roots: list[Path]) -> None:
    said, found = Path(path), []
    if "://" not in str(path) and said.is_absolute():
        found = [Path(os.path.realpath(said.parent)) / said.name, Path(os.path.realpath(said))]
        if ".." not in said.parts and all(any(root in place.parents for root in roots) for place in found):
            return
    where = f" (it is {found[-1]})" if found and found[-1] != said else ""
    inside = ", ".join(str(root) for root in roots)
    raise StorageError(
        f"{path}{where} is not removed: it is not inside a folder of this pipeline ({inside}). If it belongs to the "
        "pipeline, move it back there, or name its folder in pipeline.toml."
    )


def claim(settings: PipelineSettings) -> None:
    """Note in each folder that is there which pipeline it belongs to; an error if it belongs to another one.

    A copy of a pipeline brings its folders with it, except those that its file names by an absolute path or that are
    links: they would be shared with the original. A folder that was copied or moved itself may be claimed anew, and so
    may one whose pipeline is not there any more.
    """
    home = Path(os.path.realpath(settings.path.parent))
    mine = str(home / settings.path.name)
    keys = {"state": "[pipeline] state", "models": "[model] path"}
    for name, folder in of(settings).items():
        owner, place = _owner(folder)
        if (owner, place) == (mine, str(folder)):
            continue
        if place == str(folder) and Path(owner).parent != home and os.path.isfile(owner):
            raise SettingsError(
                f"{folder} belongs to the pipeline {owner}; two pipelines cannot share a folder. Name another one in "
                f"{settings.path.name}: {keys.get(name, f'[outputs] {name}')}."
            )
        if folder.is_dir():
            with suppress(OSError):  # no room, or not allowed: what is stored there next says so
                _write(folder / OWNER, f"{mine}\n{folder}\n")


def _owner(folder: Path) -> tuple[str, str]:
    """The pipeline that a folder belongs to, and where the folder was then; empty if nobody has claimed it."""
    try:
        owner, place = (folder / OWNER).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return "", ""
    return owner, place


def _write(place: Path, text: str) -> None:
    aside = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, place)
    finally:
        aside.unlink(missing_ok=True)


def report_place(page: Path, version: int) -> Path:
    """Where the report of a version of the model is, beside a page."""
    return page.parent / "reports" / f"model-{version:04d}.html"

"""``run.toml``: which views, which settings, which store, which cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, suggest
from dlcca.settings.fit import Settings, count_needed, is_count, is_number, read_toml
from dlcca.settings.recipe import ViewRecipe

SECTIONS = ("store", "views", "landmarks", "neighborhoods", "metric", "kernel", "spectrum", "cluster")


@dataclass(frozen=True)
class ClusterSettings:
    """A local cluster of worker processes."""

    workers: int | None = None
    """Processes of one thread each; by default one for each core."""
    memory_gib: float | None = None
    """Memory of each worker; by default an equal share of what the machine has."""

    def __post_init__(self) -> None:
        if self.workers is not None and not is_count(self.workers, 1):
            raise SettingsError(f"[cluster] workers = {self.workers!r}; {count_needed(self.workers, 1)}")
        if self.memory_gib is not None and not (is_number(self.memory_gib) and self.memory_gib > 0):
            raise SettingsError(f"[cluster] memory_gib = {self.memory_gib!r}; a number above 0 is needed.")


@dataclass(frozen=True)
class RunFile:
    """The content of a run file, paths made absolute."""

    store: str
    views: dict[str, str]  # name -> address of a Zarr array (samples, channels), be it there or yet to be made
    settings: Settings
    seed: int = 0
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    recordings: dict[str, ViewRecipe] = field(default_factory=dict)  # how views are made, where they are
    missing_chunks: dict[str, str] = field(default_factory=dict)  # of views that are Zarr arrays: "refuse" or "fill"

    @property
    def inputs(self) -> list[str]:
        """Everything that the run is made from: arrays, or files of recordings, which may be patterns."""
        if not self.recordings:
            return list(self.views.values())
        return [source for recipe in self.recordings.values() for source in recipe.source]

    @property
    def ingested(self) -> str:
        """Where views that are made of recordings are kept."""
        return recordings_of(self.store)


def recordings_of(store: str) -> str:
    """The place in a run where views that are made of recordings are kept."""
    return f"{store.rstrip('/')}/recordings"


def read(path: str | Path) -> RunFile:
    """The run file at ``path``, checked; paths in it are relative to it."""
    path = Path(path)
    content = read_toml(path)
    for section in content:
        if section not in SECTIONS:
            raise SettingsError(f"[{section}] in {path} is not a section; {suggest(section, SECTIONS)}")
    store = _keys(content, "store", ("path", "seed"))
    if "path" not in store:
        raise SettingsError(f"{path} lacks [store] path, the place of the run, for instance path = 'run.zarr'.")
    seed = store.get("seed", 0)
    if not is_count(seed, 0):
        raise SettingsError(f"[store] seed = {seed!r}; {count_needed(seed, 0)}")
    stages = {name: values for name, values in content.items() if name not in ("store", "views", "cluster")}
    place = _address(store["path"], path, "[store] path")
    views, recordings, missing_chunks = _views(content.get("views", {}), path, place)
    return RunFile(
        store=place,
        views=views,
        recordings=recordings,
        missing_chunks=missing_chunks,
        settings=Settings.from_dict(stages),
        seed=seed,
        cluster=ClusterSettings(**_keys(content, "cluster", ("workers", "memory_gib"))),
    )


def _views(sections: Any, path: Path, store: str) -> tuple[dict[str, str], dict[str, ViewRecipe], dict[str, str]]:
    """The address of every view, the recipes of those made of recordings, and "missing_chunks" of the others."""
    if not sections or not isinstance(sections, Mapping):
        raise SettingsError(f"{path} names no views; add [views.NAME] source = '...' for each sensor.")
    views, recordings, missing_chunks = {}, {}, {}
    for name, values in sections.items():
        where = f"[views.{name}]"
        if not isinstance(values, Mapping):
            raise SettingsError(f"{where} in {path} is {values!r}; a section with a source is needed.")
        if "/" in name or name.startswith("."):
            raise SettingsError(
                f"{where} in {path}: a name that begins with a point or holds a / is no name of a view."
            )
        recipe = ViewRecipe.of(values, where)
        if not recipe.source:
            raise SettingsError(f"{where} in {path} lacks source, the address of a Zarr array or files of a recording.")
        source = tuple(_address(said, path, f"{where} source") for said in recipe.source)
        if _is_samples(source, values):
            views[name] = source[0]
            missing_chunks[name] = recipe.missing_chunks
        else:
            views[name] = f"{recordings_of(store)}/views/{name}"
            recordings[name] = replace(recipe, source=source)
    _refuse_mixed(views, recordings)
    return views, recordings, missing_chunks


def _is_samples(source: tuple[str, ...], values: Mapping[str, Any]) -> bool:
    """Whether a view is a Zarr array whose rows are taken as they are: a single one, of which no more is said."""
    if len(source) != 1 or not set(values) <= {"source", "missing_chunks"}:
        return False
    return source[0].rstrip("/").endswith(".zarr") or "://" in source[0] or Path(source[0]).is_dir()


def _refuse_mixed(views: Mapping[str, str], recordings: Mapping[str, ViewRecipe]) -> None:
    """Rows of an array have no time: they cannot be put beside windows of a recording."""
    arrays = [name for name in views if name not in recordings]
    if arrays and recordings:
        raise SettingsError(
            f"[views.{arrays[0]}] is an array of samples and [views.{next(iter(recordings))}] a recording; rows of an "
            f"array have no time by which to put them together. Say channels, features or window_s in "
            f"[views.{arrays[0]}] too (and its rate, reader = {{ rate = ... }}), so that it is read as a recording."
        )


def _keys(content: Mapping[str, Any], section: str, known: tuple[str, ...], within: str = "") -> dict[str, Any]:
    values = content.get(section, {})
    if not isinstance(values, Mapping):
        raise SettingsError(f"{section} = {values!r}; a section [{within}{section}] is needed.")
    for key in values:
        if key not in known:
            raise SettingsError(f"[{within}{section}] {key} is not a setting; {suggest(key, known)}")
    return dict(values)


def _address(said: Any, path: Path, where: str) -> str:
    if not isinstance(said, str) or not said.strip() or "\0" in said:
        raise SettingsError(f"{where} = {said!r}; a path or an address is needed.")
    if "://" in said:
        return said
    place = path.parent / said
    is_dangling = place.is_symlink() and not place.exists()  # a store is not made where it points to, but refused
    return str(place.absolute() if is_dangling else place.resolve())

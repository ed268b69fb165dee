"""``run.toml``: which views, which settings, which store, which cluster."""

from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError
from dlcca.settings import fit, schema
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe, read_views, views_schema


@dataclass(frozen=True)
class StoreSection(schema.Section):
    """Where the run is kept."""

    path: str = schema.setting(schema.text(), MISSING)
    """Where the run is kept: a folder relative to the file, or `s3://bucket/prefix`."""
    seed: int = schema.setting(schema.count(0), 0)
    """Of the choice of landmarks, and of all else that is random."""


@dataclass(frozen=True)
class ClusterSettings(schema.Section):
    """A local cluster of worker processes."""

    workers: int | None = schema.setting(schema.count(1))
    """Processes of one thread each; by default one for each core."""
    memory_gib: float | None = schema.setting(schema.POSITIVE)
    """Memory of each worker; by default an equal share of what the machine has."""


#: Sections beside the store, which a pipeline file may have too.
SHARED = ("views", *fit.STAGES, "cluster")


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
    content = schema.read_toml(path)
    schema.check_sections(content, ("store", *SHARED), path)
    store = schema.from_table(StoreSection, content.get("store", {}), "[store]")
    address = _address(store.path, path)
    views, recordings, missing_chunks = _views(content.get("views"), path, address)
    return RunFile(
        store=address,
        views=views,
        recordings=recordings,
        missing_chunks=missing_chunks,
        settings=Settings.from_dict({name: content[name] for name in fit.STAGES if name in content}),
        seed=store.seed,
        cluster=schema.from_table(ClusterSettings, content.get("cluster", {}), "[cluster]"),
    )


def shared_schemas(*required: str) -> schema.Json:
    """The JSON Schemas of the sections that run files and pipeline files share; ``required`` are keys of each view."""
    kinds = {**fit.STAGES, "cluster": ClusterSettings}
    return {"views": views_schema(required), **{name: schema.json_schema(kind) for name, kind in kinds.items()}}


def run_schema() -> schema.Json:
    """The JSON Schema of run files."""
    sections = {"store": schema.json_schema(StoreSection), **shared_schemas("source")}
    return schema.file_schema("dlcca run file", schema.table_schema(sections, ("store", "views")))


def _views(sections: Any, path: Path, store: str) -> tuple[dict[str, str], dict[str, ViewRecipe], dict[str, str]]:
    """The address of every view, the recipes of those made of recordings, and "missing_chunks" of the others."""
    views, recordings, missing_chunks = {}, {}, {}
    for name, recipe in read_views(sections).items():
        if not recipe.source:
            raise SettingsError(f"[views.{name}] lacks source, the address of a Zarr array or files of a recording.")
        source = tuple(_address(said, path) for said in recipe.source)
        at, folder = source[0].rstrip("/"), Path(source[0])
        is_array = len(source) == 1 and (at.endswith(".zarr") or "://" in at or folder.is_dir())
        if is_array and set(sections[name]) <= {"source", "missing_chunks"}:  # its rows are taken as they are
            views[name], missing_chunks[name] = source[0], recipe.missing_chunks
        else:
            views[name] = f"{recordings_of(store)}/views/{name}"
            recordings[name] = replace(recipe, source=source)
    if missing_chunks and recordings:
        array, recording = next(iter(missing_chunks)), next(iter(recordings))
        raise SettingsError(
            f"[views.{array}] is an array of samples and [views.{recording}] a recording; rows of an array have no "
            f"time by which to put them together. Say channels, features or window_s in [views.{array}] too (and its "
            "rate, reader = { rate = ... }), so that it is read as a recording."
        )
    return views, recordings, missing_chunks


def _address(said: str, path: Path) -> str:
    """A path relative to the file made absolute; an address of object storage as it is."""
    if "://" in said:
        return said
    place = path.parent / said
    is_dangling = place.is_symlink() and not place.exists()  # a store is not made where it points to, but refused
    return str(place.absolute() if is_dangling else place.resolve())

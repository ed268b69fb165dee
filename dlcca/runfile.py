"""``run.toml``: which views, which settings, which store, which cluster."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, suggest
from dlcca.settings import Settings

SECTIONS = ("store", "views", "landmarks", "neighborhoods", "metric", "kernel", "spectrum", "cluster")


@dataclass(frozen=True)
class ClusterSettings:
    """A local cluster of worker processes."""

    workers: int | None = None
    """Processes of one thread each; by default one for each core."""
    memory_gib: float | None = None
    """Memory of each worker; by default an equal share of what the machine has."""

    def __post_init__(self) -> None:
        if self.workers is not None and (not isinstance(self.workers, int) or self.workers < 1):
            raise SettingsError(f"[cluster] workers = {self.workers!r}; a whole number of at least 1 is needed.")
        if self.memory_gib is not None and not 0 < float(self.memory_gib):
            raise SettingsError(f"[cluster] memory_gib = {self.memory_gib!r}; a number above 0 is needed.")


@dataclass(frozen=True)
class RunFile:
    """The content of a run file, paths made absolute."""

    store: str
    views: dict[str, str]  # name -> address of a Zarr array (samples, channels)
    settings: Settings
    seed: int = 0
    cluster: ClusterSettings = field(default_factory=ClusterSettings)


def read(path: str | Path) -> RunFile:
    """The run file at ``path``, checked; paths in it are relative to it."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}.") from error
    for section in content:
        if section not in SECTIONS:
            raise SettingsError(f"[{section}] in {path} is not a section; {suggest(section, SECTIONS)}")
    store = _keys(content, "store", ("path", "seed"))
    if "path" not in store:
        raise SettingsError(f"{path} lacks [store] path, the place of the run, for instance path = 'run.zarr'.")
    stages = {name: values for name, values in content.items() if name not in ("store", "views", "cluster")}
    return RunFile(
        store=_address(str(store["path"]), path),
        views=_views(content.get("views", {}), path),
        settings=Settings.from_dict(stages),
        seed=int(store.get("seed", 0)),
        cluster=ClusterSettings(**_keys(content, "cluster", ("workers", "memory_gib"))),
    )


def _views(sections: Mapping[str, Any], path: Path) -> dict[str, str]:
    if not sections:
        raise SettingsError(f"{path} names no views; add [views.NAME] source = '...' for each sensor.")
    views = {}
    for name in sections:
        known = _keys(sections, name, ("source",), within="views.")
        if "source" not in known:
            raise SettingsError(f"[views.{name}] in {path} lacks source, the address of a Zarr array.")
        views[name] = _address(str(known["source"]), path)
    return views


def _keys(content: Mapping[str, Any], section: str, known: tuple[str, ...], within: str = "") -> dict[str, Any]:
    values = content.get(section, {})
    for key in values:
        if key not in known:
            raise SettingsError(f"[{within}{section}] {key} is not a setting; {suggest(key, known)}")
    return dict(values)


def _address(said: str, path: Path) -> str:
    return said if "://" in said else str((path.parent / said).resolve())

"""``pipeline.toml``: where recordings come from, how they are embedded, what is published, when a refit is due."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, suggest
from dlcca.pipelines import sections
from dlcca.pipelines.checking import section
from dlcca.settings.fit import Settings, count_needed, is_count, read_toml
from dlcca.settings.recipe import ViewRecipe
from dlcca.settings.runfile import ClusterSettings

#: Sections of this file alone, each with its class.
OWN = {
    "pipeline": sections.PipelineSection,
    "sources": sections.SourceSection,
    "model": sections.ModelSection,
    "outputs": sections.OutputSection,
    "gate": sections.GateSection,
    "drift": sections.DriftSection,
    "refit": sections.RefitSection,
    "retention": sections.RetentionSection,
    "notify": sections.NotifySection,
}
#: How recordings are embedded: here, or in the run.toml that [run] file names.
STAGES = ("landmarks", "neighborhoods", "metric", "kernel", "spectrum")
OF_RUN = ("views", *STAGES, "cluster")


@dataclass(frozen=True)
class PipelineSettings:
    """The content of a pipeline file, paths made absolute."""

    path: Path
    pipeline: sections.PipelineSection
    sources: sections.SourceSection
    model: sections.ModelSection
    outputs: sections.OutputSection
    gate: sections.GateSection
    drift: sections.DriftSection
    refit: sections.RefitSection
    retention: sections.RetentionSection
    notify: sections.NotifySection
    recipes: dict[str, ViewRecipe]
    fit: Settings
    seed: int
    cluster: ClusterSettings

    @property
    def state(self) -> Path:
        return self.place(self.pipeline.state)

    @property
    def models(self) -> Path:
        return self.place(self.model.path)

    def place(self, said: str) -> Path:
        """A path that the file names, which is relative to it."""
        return (self.path.parent / said).resolve()

    def source(self, said: str) -> str:
        """Where a file of a recording is, which is recorded as [sources] files names it."""
        return said if "://" in said or os.path.isabs(said) else f"{self.path.parent}/{said}"

    def address(self, said: str) -> str:
        """The same for what may also be an address of object storage."""
        return said if "://" in said else str(self.path.parent.resolve() / said)

    def fingerprint(self) -> str:
        """Of everything that decides what the coordinates of a recording are.

        What has its default is left out: a dlcca that knows one more setting must not refuse a model for it.
        """
        usual = Settings().to_dict()
        fit = {name: _unusual(values, usual[name]) for name, values in self.fit.to_dict().items()}
        told = {"views": recipes_told(self.recipes), "fit": fit, "seed": self.seed}
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=list).encode()).hexdigest()


def recipes_told(recipes: Mapping[str, ViewRecipe]) -> dict[str, Any]:
    """How views are made, in plain values, as far as it is not the default; without the files they are made of."""
    usual = ViewRecipe().to_dict()
    return {name: _unusual(recipe.to_dict() | {"source": ()}, usual) for name, recipe in recipes.items()}


def _unusual(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not the default ones."""
    return {key: value for key, value in values.items() if key not in usual or value != usual[key]}


def read(path: str | Path) -> PipelineSettings:
    """The pipeline file at ``path``, checked."""
    path = Path(path).absolute()
    content = read_toml(path)
    known = (*OWN, "run", *OF_RUN)
    for name in content:
        if name not in known:
            raise SettingsError(f"[{name}] in {path} is not a section; {suggest(name, known)}")
    try:
        made: dict[str, Any] = {name: section(kind, content, name) for name, kind in OWN.items()}
        recipes, fit, seed, cluster = _run_settings(content, path)
    except SettingsError as error:
        raise SettingsError(f"{path.name}: {error}") from error
    return PipelineSettings(path=path, recipes=recipes, fit=fit, seed=seed, cluster=cluster, **made)


def state_of(path: str | Path) -> Path | None:
    """Where the state of a pipeline is, even if the rest of its file is wrong; None if that cannot be told."""
    path = Path(path).absolute()
    state: Any = sections.PipelineSection.state
    try:
        content = read_toml(path)
    except SettingsError:
        usual = (path.parent / state).resolve()
        return usual if (usual / "catalog.sqlite").is_file() else None
    said = content.get("pipeline", {})
    state = said.get("state", state) if isinstance(said, Mapping) else None
    return (path.parent / state).resolve() if "sources" in content and isinstance(state, str) else None


def _run_settings(content: Mapping[str, Any], path: Path) -> tuple[dict[str, ViewRecipe], Settings, int, Any]:
    """Views, settings of the fit, seed and cluster: from here, or from the run.toml that is named."""
    run = _keys(content, "run", ("file", "seed"))
    seed = run.get("seed", 0)
    if "file" in run:
        here = [name for name in OF_RUN if name in content]
        if here:
            raise SettingsError(f"[{here[0]}] is said here and [run] file = {run['file']!r} besides; say it there.")
        place = (path.parent / str(run["file"])).resolve()
        content = read_toml(place)
        for name in content:
            if name not in ("store", *OF_RUN):
                raise SettingsError(f"[{name}] in {place} is not a section; {suggest(name, ('store', *OF_RUN))}")
        seed = run.get("seed", content.get("store", {}).get("seed", 0))
    if not is_count(seed, 0):
        raise SettingsError(f"seed = {seed!r}; {count_needed(seed, 0)}")
    cluster = ClusterSettings(**_keys(content, "cluster", ("workers", "memory_gib")))
    fit = Settings.from_dict({name: content[name] for name in STAGES if name in content})
    return _recipes(content.get("views", {})), fit, seed, cluster


def _recipes(views: Any) -> dict[str, ViewRecipe]:
    if not views or not isinstance(views, Mapping):
        raise SettingsError("no views are named; add [views.NAME] channels = [...] for each sensor, or [run] file.")
    made = {}
    for name, values in views.items():
        if not isinstance(values, Mapping):
            raise SettingsError(f"[views.{name}] is {values!r}; a section is needed.")
        if "/" in name or name.startswith("."):
            raise SettingsError(f"[views.{name}]: a name that begins with a point or holds a / is no name of a view.")
        made[name] = ViewRecipe.of(values, f"[views.{name}]")
    return made


def _keys(content: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, Any]:
    values = content.get(name, {})
    if not isinstance(values, Mapping):
        raise SettingsError(f"{name} = {values!r}; a section [{name}] is needed.")
    for key in values:
        if key not in known:
            raise SettingsError(f"[{name}] {key} is not a setting; {suggest(key, known)}")
    return dict(values)

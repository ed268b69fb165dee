"""The rows that a model is refitted to: those that are new, and those of its fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dlcca.cli.console import Voice
from dlcca.cli.views import new_views

#: What a run.toml may say of views that are made as those of a model are; their files and channels are their own.
SAID_OF_VIEWS = ("features", "scaling", "pca_components", "resample", "window_s", "step_s")


def appended_rows(
    voice: Voice, model: str, fitted: Any, files: list[str], place: str, cluster: str | None, workers: int
) -> tuple[Mapping[str, Any], str]:
    """New views by name, and the store of views that they are, if any: ``place``, if they are made of recordings."""
    from dlcca.fitting.job import array_sources

    if len(files) == 1 and files[0].endswith(".toml"):
        from dlcca.settings import runfile

        asked = runfile.read(files[0])
        if not asked.recordings:
            return _arrays(array_sources(asked.views, asked.missing_chunks)), ""
        _refuse_other_recipes(files[0], asked.recordings, fitted.recordings_)
        files = list(dict.fromkeys(file for recipe in asked.recordings.values() for file in recipe.source))
    elif len(files) == 1:
        files = [_views_within(files[0]) or files[0]]
    sources, clock = new_views(voice, model, files, place, cluster, workers)
    return (_recorded(clock) if clock else _arrays(sources)), clock


def rows_of_fit(model: str, fitted: Any, said: list[str] | None, alone: bool) -> Mapping[str, Any] | None:
    """The views that a model was fitted to, where they are said or where a run holds them; None to do without."""
    from dlcca.errors import SettingsError
    from dlcca.fitting.transform import named_arrays
    from dlcca.storage import run as run_store

    if alone and said:
        raise SettingsError("--alone does without the old rows, and --old says where they are; leave one of them out.")
    if alone:
        return None
    if not said:
        within = _views_within(model) if run_store.is_finished(model) else ""
        return _recorded(within) if within else None
    if len(said) == 1 and said[0].endswith(".toml"):
        return _rows_of_run(said[0])
    if len(said) == 1 and (within := _views_within(said[0])):
        return _recorded(within)
    return _arrays(named_arrays(said, fitted.model_.names))


def are_large(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    """Whether rows are worked through block by block, which needs the old ones."""
    from dlcca.errors import SettingsError
    from dlcca.fitting.lazy import is_lazy

    large = any(is_lazy(X) for views in (new, old or {}) for X in views.values())
    if large and old is None:
        raise SettingsError(
            "the new rows are too many for memory, and are refitted block by block together with the old ones: say "
            "with --old where these are, and leave out --alone."
        )
    return large


def _rows_of_run(file: str) -> Mapping[str, Any]:
    """The views that a run.toml names."""
    from dlcca.fitting.job import array_sources
    from dlcca.settings import runfile

    asked = runfile.read(file)
    if asked.recordings:
        return _recorded(asked.ingested)
    return _arrays(array_sources(asked.views, asked.missing_chunks))


def _views_within(store: str) -> str:
    """The store of views that a store is, or that a run or the coordinates of recordings hold; "" if there is none."""
    from dlcca.settings.runfile import recordings_of
    from dlcca.storage.views import is_views

    return next((place for place in (store, recordings_of(store)) if is_views(place)), "")


def _recorded(place: str) -> Mapping[str, Any]:
    from dlcca.recordings.recorded_views import open_views

    return open_views(place)


def _arrays(sources: Mapping[str, Any]) -> dict[str, Any]:
    """Zarr arrays: read into memory, or left on disk if they are large."""
    from dlcca.recordings import recorded_views

    opened = {name: source.open() for name, source in sources.items()}
    for source in sources.values():
        source.check_complete()
    if sum(X.nbytes for X in opened.values()) > recorded_views.IN_MEMORY_BYTES:
        import dask.array as da

        return {name: da.from_array(X, chunks=X.chunks) for name, X in opened.items()}
    return {name: source.read(slice(0, opened[name].shape[0])) for name, source in sources.items()}


def _refuse_other_recipes(file: str, recipes: Mapping[str, Any], made: Any) -> None:
    """An error if a run.toml would make its views in another way than those of the model were made."""
    from dlcca.errors import SettingsError, suggest

    if made is None:
        raise SettingsError(f"{file} names recordings, and the model was fitted to arrays; give arrays, as NAME=array.")
    for name, recipe in recipes.items():
        if name not in made.facts["views"]:
            raise SettingsError(f"{file}: the model has no view {name!r}; {suggest(name, made.facts['views'])}")
        known = {**made.facts["views"][name]["recipe"], **{key: made.facts[key] for key in ("window_s", "step_s")}}
        said = json.loads(json.dumps(recipe.to_dict()))  # as the model has it: lists, not tuples
        for key in SAID_OF_VIEWS:
            if said[key] is not None and said[key] != known[key]:
                raise SettingsError(
                    f"{file}: [views.{name}] {key} is {said[key]!r}, and the model was fitted with {known[key]!r}; new "
                    "rows are made as the old ones were, so say the same."
                )

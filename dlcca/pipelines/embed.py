"""Embedding of recordings: ingest, quality gate and transform, each resumed where it was stopped.

The preprocessing (channels, windows, features and scaling) is the same for all recordings and all models of a
generation. The first good recording determines it, and it has a store of its own, with what a model stores of its
recordings (`dlcca.model.Recordings`).
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlcca.errors import DataError, StaleStage, StorageError, StoreFileError
from dlcca.fitting import transform as transforming
from dlcca.model import Recordings
from dlcca.pipelines import recordings, sources
from dlcca.pipelines.catalog import Row
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.recordings import HeldBack
from dlcca.recordings import ingest as ingesting
from dlcca.recordings import new_recordings
from dlcca.storage import transformed
from dlcca.storage import views as store
from dlcca.storage.formats import Format, header_of, is_form, plain, read_all, seal, write_array
from dlcca.storage.places import replacing

FORM = Format("dlcca-treatment", 1, "preprocessing", StoreFileError, "run dlcca pipeline backfill --anew")


def embed(pipeline: Pipeline, pending: Iterable[Row]) -> None:
    """Embed recordings. Their errors are stored in the catalog, not raised."""
    for recording in pending:
        place = views_place(pipeline, recording)
        is_made = store.is_views(place)
        try:
            try:
                facts = transform(pipeline, recording, ingest(pipeline, recording))
            except (DataError, StoreFileError):
                if not is_made:
                    raise
                pipeline.remove(place)  # the views of an earlier run may be damaged: make them again
                facts = transform(pipeline, recording, ingest(pipeline, recording))
        except Exception as error:
            recordings.failed(pipeline, recording, error)
        else:
            recordings.done(pipeline, recording, facts)


def views_place(pipeline: Pipeline, recording: Row) -> Path:
    """The place of the views of a recording; the name depends on its content and the preprocessing."""
    made = f"g{pipeline.generation}-{pipeline.settings.fingerprint()[:8]}"
    return pipeline.state / "views" / f"{recording['id']:06d}-{recording['content'][:12]}-{made}.zarr"


def can_be_repeated(pipeline: Pipeline, recording: Row) -> bool:
    """Whether a recording can be embedded again: its file or its views exist."""
    known = pipeline.catalog.value("SELECT 1 FROM files WHERE content = ? AND state = 'known'", [recording["content"]])
    return bool(known) or store.is_views(views_place(pipeline, recording))


def ingest(pipeline: Pipeline, recording: Row, first: Path | None = None) -> dict[str, Any]:
    """Make the views of a recording, unless they exist; the header of their store, with its address as ``store``.

    A recording that determines the preprocessing has views at ``first``: by the settings alone, scaled by itself. One
    that does not meet the requirements of [gate] is a `HeldBack`.
    """
    place = first or views_place(pipeline, recording)

    def make() -> None:
        if first:
            recipes = {}
            for name, recipe in pipeline.settings.recipes.items():
                mine = recordings.files_for(recipe, files)
                if not mine:
                    has = f"has source = {list(recipe.source)}, which matches none of its files."
                    raise DataError(f"view {name!r} {has}")
                recipes[name] = replace(recipe, source=tuple(mine))
            job, line = ingesting.prepared(str(place), recipes)
        else:
            job, line = new_recordings.prepared(str(place), read_preprocessing(pipeline), files)
        ingesting.run(job, line, pipeline.workers.client(job.n_blocks))

    if not store.is_views(place):
        parts, n_read, stamp = recordings.files_of(pipeline, recording)
        with pipeline.scratch(f"files-{recording['id']}") as scratch:
            files = sources.local_files(parts, scratch)[:n_read]
            _resumed(pipeline, place, bool(ingesting.begun(str(place))), make)
        if not sources.has_stamp(parts, stamp):
            pipeline.remove(place)
            raise StorageError(f"{os.path.basename(recording['path'])} changed while it was read.")
    header = store.describe(place)
    _refuse_below_gate(pipeline, header)
    return {**header, "store": str(place)}


def _resumed(pipeline: Pipeline, place: Path, begun: bool, make: Callable[[], Any]) -> Any:
    """Make a store from what a killed run has left of it; from nothing if no stage was ``begun``, or it is stale."""
    # Files that Zarr was writing, or all.
    pipeline.remove(*place.rglob("*.partial") if begun else [place])
    try:
        return make()
    except StaleStage:  # begun with a file of another date, or with views that have been made again since
        pipeline.remove(place)
        return make()


def _refuse_below_gate(pipeline: Pipeline, header: Mapping[str, Any]) -> None:
    limits, rows, windows = pipeline.settings.gate, header["rows"], header["windows"]
    reasons = ", ".join(f"{count} {why}" for why, count in header["reasons"].items() if count and why != "valid")
    if rows < limits.least_rows or rows < limits.least_valid_share * windows:
        raise HeldBack(
            f"{rows} of its {windows} windows are valid ({reasons}); [gate] requires a share of "
            f"{limits.least_valid_share:g}, and at least {limits.least_rows}."
        )
    missing = [name for name in pipeline.settings.recipes if name not in header["views"]]
    if missing and limits.all_views:
        raise HeldBack(f"it has no channels of view {', '.join(map(repr, missing))}, and [gate] all_views is true.")


def transform(pipeline: Pipeline, recording: Row, header: Mapping[str, Any]) -> dict[str, Any]:
    """Coordinates of a recording by the model in use; columns for the catalog."""
    model = pipeline.current_model()
    assert model is not None, "there is no model yet"
    views = header["store"]
    name = f"{recording['id']:06d}-{recording['content'][:12]}-v{model['version']}.zarr"
    place = pipeline.state / "results" / name

    def make() -> dict[str, Any]:
        job = transforming.prepared(str(place), model["address"], transforming.views_of_store(views), views)
        return transforming.run(job, pipeline.workers.client(job.stage.n_blocks))

    begun = transformed.is_transformed(str(place)) or transforming.progress(str(place)) is not None
    made = _resumed(pipeline, place, begun, make)
    columns = {"rows": made["samples"], "valid": made["valid"], "outside": made["outside"], "model": model["version"]}
    return {**columns, "settings": pipeline.settings.fingerprint(), "views": views, "result": str(place)}


def preprocessing_place(pipeline: Pipeline) -> Path:
    """The place of the preprocessing of this generation."""
    return pipeline.settings.models / f"preprocessing-{pipeline.generation:03d}.zarr"


def has_preprocessing(pipeline: Pipeline) -> bool:
    """Whether the preprocessing of these settings is determined."""
    place = preprocessing_place(pipeline)
    return is_form(place, FORM) and header_of(place, FORM)["settings"] == pipeline.settings.fingerprint()


def read_preprocessing(pipeline: Pipeline) -> Recordings:
    """The preprocessing of this generation."""
    header, arrays = read_all(preprocessing_place(pipeline), FORM)
    return Recordings(header["facts"], arrays)


def write_preprocessing(pipeline: Pipeline, made: Recordings) -> None:
    """Store the preprocessing of a recording or of a model for all that follow."""
    with replacing(preprocessing_place(pipeline), FORM) as group:
        arrays = {name: write_array(group, name, X) for name, X in made.scaling.items()}
        content = {"facts": plain(made.facts), "manifest": arrays, "settings": pipeline.settings.fingerprint()}
        seal(group, FORM, content)

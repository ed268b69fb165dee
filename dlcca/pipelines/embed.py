"""One recording from its files to coordinates: ingest, quality gate, transform. Each goes on where it was stopped."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlcca.errors import DataError, StaleStage, StorageError, StoreFileError
from dlcca.pipelines import preprocessing, status
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.digest import here
from dlcca.pipelines.stats import stamp_of
from dlcca.pipelines.status import HeldBack


def embed(flow: Pipeline, number: int) -> str:
    """All of it; the status that the recording then has. What goes wrong with it is in the catalog, not raised."""
    from dlcca.storage import views as store

    recording = flow.recording(number)
    place = views_place(flow, recording)
    made_before = store.is_views(str(place))
    try:
        try:
            facts = _embedded(flow, number)
        except (DataError, StoreFileError):
            if not made_before:
                raise
            flow.remove(place)  # what an earlier run made of it may have been damaged since: its files decide
            facts = _embedded(flow, number)
    except Exception as error:
        return status.failed(flow, recording, error)
    status.done(flow, recording, facts)
    return "done"


def _embedded(flow: Pipeline, number: int) -> dict[str, Any]:
    views = ingest(flow, number)
    gate(flow, views)
    return transform(flow, number, views)


def views_place(flow: Pipeline, recording: Mapping[str, Any]) -> Path:
    """Where the views of a recording are made: the name tells its content, and how it is treated."""
    treated = f"g{flow.generation}-{flow.settings.fingerprint()[:8]}"
    return flow.state / "views" / f"{recording['id']:06d}-{recording['content'][:12]}-{treated}.zarr"


def can_be_repeated(flow: Pipeline, recording: Mapping[str, Any]) -> bool:
    """Whether a recording can be embedded once more: its file is there, or its views are."""
    from dlcca.storage import views as store

    known = flow.catalog.value("SELECT 1 FROM files WHERE content = ? AND state = 'known'", [recording["content"]])
    return bool(known) or store.is_views(str(views_place(flow, recording)))


def ingest(flow: Pipeline, number: int) -> dict[str, Any]:
    """The views of a recording, treated as all others; the header of their store, with its address as ``store``."""
    from dlcca.recordings import ingest as ingesting
    from dlcca.recordings import new_recordings
    from dlcca.storage import views as store

    recording = flow.recording(number)
    place = views_place(flow, recording)
    if not store.is_views(str(place)):
        made, scaling = preprocessing.read(flow), str(preprocessing.place_of(flow))

        def make(files: list[str]) -> None:
            job, line = new_recordings.prepared(str(place), scaling, made, files)
            ingesting.run(job, line, flow.workers.client(job.n_blocks))

        _from_files(flow, recording, place, make)
    return {**store.describe(str(place)), "store": str(place)}


def first_views(flow: Pipeline, number: int, place: Path) -> dict[str, Any]:
    """The views of a recording by the settings alone, scaled by itself: from it all others take their treatment."""
    from dlcca.recordings import ingest as ingesting
    from dlcca.storage import views as store

    def make(files: list[str]) -> None:
        job, line = ingesting.prepared(str(place), preprocessing.recipes_for(flow, files))
        ingesting.run(job, line, flow.workers.client(job.n_blocks))

    _from_files(flow, flow.recording(number), place, make)
    return {**store.describe(str(place)), "store": str(place)}


def _from_files(flow: Pipeline, recording: Mapping[str, Any], place: Path, make: Any) -> None:
    """Have views made of the files of a recording, which must not change meanwhile."""
    from dlcca.recordings import ingest_status

    parts, read, stamp = status.files_of(flow, dict(recording))
    status.clear(flow, place, bool(ingest_status.begun(str(place))))
    scratch = flow.state / "work" / f"files-{recording['id']}"
    try:
        files = here(parts, scratch)[: len(read)]
        try:
            make(files)
        except StaleStage:  # begun with a file of another date: the same content, but it cannot be told from here
            flow.remove(place)
            make(files)
    finally:
        flow.remove(scratch)
    if not any("://" in path for path in parts) and stamp_of(parts) != stamp:
        flow.remove(place)
        raise StorageError(f"{os.path.basename(recording['path'])} changed while it was read.")


def gate(flow: Pipeline, header: Mapping[str, Any]) -> None:
    """An error that says why a recording is held back, if it is."""
    asked, rows, windows = flow.settings.gate, header["rows"], header["windows"]
    told = ", ".join(f"{count} {why}" for why, count in header["reasons"].items() if count and why != "valid")
    if rows < asked.least_rows or rows < asked.least_valid_share * windows:
        raise HeldBack(
            f"{rows} of its {windows} windows are valid ({told}); [gate] asks for a share of "
            f"{asked.least_valid_share:g}, and for {asked.least_rows}."
        )
    missing = [name for name in flow.settings.recipes if name not in header["views"]]
    if missing and asked.all_views:
        raise HeldBack(f"it lacks the channels of view {', '.join(map(repr, missing))}, and [gate] all_views is set.")


def transform(flow: Pipeline, number: int, header: Mapping[str, Any]) -> dict[str, Any]:
    """Coordinates of a recording by the model in use; what the catalog is told of it."""
    from dlcca.fitting import transform as transforming
    from dlcca.storage import transformed

    recording, model = flow.recording(number), flow.current_model()
    assert model is not None, "there is no model yet"
    views = header["store"]
    name = f"{number:06d}-{recording['content'][:12]}-v{model['version']}.zarr"
    place = flow.state / "results" / name

    if not transformed.is_transformed(str(place)):
        status.clear(flow, place, transforming.progress(str(place)) is not None)

    def make() -> dict[str, Any]:
        job = transforming.prepared(str(place), model["address"], transforming.views_of_store(views), views)
        return transforming.run(job, flow.workers.client(job.stage.n_blocks))

    try:
        made = make()
    except StaleStage:  # left over from views that have been made again since
        flow.remove(place)
        made = make()
    return {
        "settings": flow.settings.fingerprint(),
        "model": model["version"],
        "views": views,
        "result": str(place),
        "rows": made["samples"],
        "valid": made["valid"],
        "outside": made["outside"],
    }

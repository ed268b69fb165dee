"""A whole run from its description: look at the views, do what is missing, seal the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlcca.engine.failures import watched
from dlcca.engine.progress import Progress, progress_of, stages_on_disk
from dlcca.engine.work import Tell
from dlcca.errors import DataError, SettingsError
from dlcca.fitting import pipeline, results
from dlcca.fitting.auto_window import chosen_job
from dlcca.fitting.job import Job, array_sources, settled
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.storage import event_log, lock
from dlcca.storage.blocks import Blocks
from dlcca.storage.files import files_at
from dlcca.storage.manifest import ZARR_JSON, new_attempt, put_group
from dlcca.storage.views import is_views
from dlcca.trust.quality import Quality

#: Takes a sentence for whoever watches the run.
Say = Callable[[str], None]


def silence(text: str) -> None:
    """Where nobody has asked to be told."""


def prepared(
    store: str,
    views: Mapping[str, str],
    settings: Settings,
    seed: int,
    clock: str = "",
    missing_chunks: Mapping[str, str] | None = None,
) -> tuple[Job, Choices]:
    """The job, every "auto" settled; reads the headers of the views and a few of their rows.

    ``clock`` is the store of views that they are, if they were made of recordings; ``missing_chunks`` what to do about
    chunks that a view lacks, by the name of the view: "refuse", which is usual, or "fill".
    """
    if clock and not is_views(clock):
        raise DataError(f"the views of {store} are to be made of recordings, and are not yet: dlcca ingest run.toml.")
    sources = tuple(array_sources(views, missing_chunks or {}).values())
    return chosen_job(store, sources, settled(settings, sources), seed, clock)


def run(job: Job, choices: Choices, client: Any = None, tell: Tell | None = None, say: Say = silence) -> Quality:
    """Do what is missing of every stage, and seal the run.

    Nobody else may write to the store meanwhile. ``say`` is told of whatever has to be begun again.
    """
    pipeline.refuse_place(job)
    with lock.held(job.address, "a run"), watched(client, event_log.current(), say):
        pipeline.run(job, client, tell)
        lock.confirm(job.address)
        return results.run(job, choices, costs(job.address))


def forget(store: str, first: str) -> None:
    """Remove a stage and all later ones, so that they are done again."""
    names = pipeline.on_disk()
    if first not in names:
        raise SettingsError(f"--from {first}: the stages are {', '.join(names)}.")
    files = files_at(store)
    if files.get(ZARR_JSON) is not None:
        put_group(store, {})  # first: what the header tells of is finished no more
    again = names[names.index(first) :]
    if any(files.get(f"stages/{name}/stage.json") is not None for name in again):
        new_attempt(store)  # a worker that still computes a block of these stages is to write beside the new ones
    for name in reversed(again):  # so that nothing ever builds on what is gone
        files.remove(f"stages/{name}")


def forget_recordings(store: str) -> str:
    """Remove the views that were made of recordings; the stage from which all is to be done again."""
    files_at(store).remove("recordings")
    return pipeline.on_disk()[0]


def progress(store: str) -> list[Progress]:
    """The stages that have been begun, each with its finished blocks."""
    return progress_of(begun(store))


def costs(store: str) -> dict[str, dict[str, Any]]:
    """What each stage took: seconds of its tasks, how many there were, and the largest memory of a worker."""
    return {stage.name: stage.cost() for stage in begun(store)}


def damages(store: str) -> list[str]:
    """What is wrong with the finished blocks of a run, a line each."""
    return [problem for stage in begun(store) for problem in stage.check()]


def begun(store: str) -> list[Blocks]:
    """The stages of a run that have been begun, as they are on disk."""
    return stages_on_disk(store, pipeline.on_disk())

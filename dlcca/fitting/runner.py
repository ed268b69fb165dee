"""A whole run from its description: check the views, compute what is missing, write the results and seal them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dlcca.engine.stage import Progress, fingerprint, progress_of, stages_on_disk
from dlcca.engine.work import OnProgress, digest_of_blocks, watched
from dlcca.errors import DataError, SettingsError
from dlcca.fitting import checks, embed, kernel, landmarks, metric, neighbors, pipeline, readout, sharing, spectrum
from dlcca.fitting.auto_window import chosen_job
from dlcca.fitting.job import Job, array_sources, settled
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.settings.runfile import RunFile
from dlcca.storage import event_log, lock
from dlcca.storage import model as model_store
from dlcca.storage import run as run_store
from dlcca.storage.blocks import Blocks, storing
from dlcca.storage.files import files_at, zarr_store
from dlcca.storage.formats import plain, seal, write_array
from dlcca.storage.manifest import ZARR_JSON, digest_of_facts, new_attempt, put_group
from dlcca.storage.views import is_views, recordings_of
from dlcca.trust.quality import Quality, assess
from dlcca.views import transposed

#: Receives messages for the user.
Say = Callable[[str], None]


def silence(text: str) -> None:
    """Print nothing."""


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


def prepared_run(requested: RunFile, settings: Settings | None = None) -> tuple[Job, Choices]:
    """The job of a run file whose views are there; with other ``settings``, if any are given."""
    clock = requested.ingested if requested.recordings else ""
    used = requested.settings if settings is None else settings
    return prepared(requested.store, requested.views, used, requested.seed, clock, requested.missing_chunks)


def run(
    job: Job, choices: Choices, client: Any = None, on_progress: OnProgress | None = None, say: Say = silence
) -> Quality:
    """Do what is missing of every stage, and seal the run.

    Nobody else may write to the store meanwhile. ``say`` is called with a sentence on each retry.
    """
    pipeline.refuse_place(job)
    with lock.held(job.address, "a run"), watched(client, event_log.current(), say):
        pipeline.run(job, client, on_progress)
        lock.confirm(job.address)
        return finish(job, choices, costs(job.address))


def quality_of(job: Job, choices: Choices | None = None) -> Quality:
    """How far the result can be trusted; the choices know whether the user or "auto" chose the metric."""
    quality = assess(
        metric.result(job),
        neighbors.width(job),
        spectrum.eigenvalues(job),
        neighbor_recall=neighbors.neighbor_recall(job),
        common=sharing.common(job),
        checks=checks.result(job),
        one_is_meant=choices is None or "metric" not in choices.reasons,
        hint=transposed(job.n, job.dims),
    )
    return replace(quality, strength=sharing.strength_of(job))


def finish(job: Job, choices: Choices, cost: Mapping[str, Any] | None = None) -> Quality:
    """Write what a finished run holds besides the embedding, and seal it; ``cost`` is what each stage took."""
    import zarr

    with storing(f"the results in {job.address}"):
        quality, choices = quality_of(job, choices), readout.with_chosen(job, choices)
        settings = job.settings.with_options(**readout.chosen(job)).to_dict()
        measures = plain({**quality.measures, "n_common": quality.n_common, "warnings": quality.reasons})
        clock, rows = job.moments, landmarks.rows(job)
        put_group(job.address, {})
        for name in RESULTS:
            files_at(job.address).remove(name)
        group = zarr.open_group(zarr_store(job.address), mode="a", zarr_format=3)
        group.create_group("quality", attributes=measures)
        known = {"eigenvalues": spectrum.eigenvalues(job)[1:], "landmarks": rows if clock is None else clock.rows[rows]}
        correlations = metric.result(job).correlations
        small = {
            "time": np.arange(job.n) if clock is None else clock.time,
            **known,
            "quality/correlations": correlations,
            **{f"quality/{name}": X for name, X in quality.local.items()},
            "reason": None if clock is None else clock.reason,
            "strength": quality.strength,
        }
        manifest = {name: write_array(group, name, X) for name, X in small.items() if X is not None}
        manifest["embedding"] = digest_of_blocks(embed.finish, job, embed.EMBEDDING.of(job), "/embedding")
        manifest["quality"] = digest_of_facts(measures)
        made = recordings_of(job.clock) if job.clock else None  # what the model needs for new recordings
        arrays = {**known, "correlations": correlations, "bandwidth": np.asarray(kernel.bandwidth_of_model(job))}
        arrays |= {} if made is None else made.scaling
        of_both = {"settings": settings, "choices": choices.lines(), "versions": run_store.versions()}
        of_model = {
            **of_both,
            "params": settings,
            "n_common": quality.n_common,
            "quality": quality.measures,
            "warnings": quality.reasons,
            "recordings": None if made is None else made.facts,
        }
        manifest["model"] = model_store.write(group.create_group("model"), embed.model_of(job), arrays, plain(of_model))
        facts = {
            **of_both,
            "views": {source.name: d for source, d in zip(job.sources, job.dims, strict=True)},
            "fingerprint": fingerprint(job.inputs, job.settings.to_dict(), job.seed),
            "time_unit": "sample" if clock is None else "s",
            "start": None if clock is None else clock.start,
            "created": run_store._now(),
            "cost": cost or {},
            "stages": list(cost or {}),
            "log": event_log.current() is not None,
        }
        seal(group, run_store.FORM, {**plain(facts), "manifest": manifest})
    return quality


#: What `finish` writes, and may be left of an earlier run; what is of each landmark goes with "quality".
RESULTS = ("time", "eigenvalues", "landmarks", "reason", "strength", "quality", "model")


def forget(store: str, first: str) -> None:
    """Remove a stage and all later ones, so that they are done again."""
    names = pipeline.on_disk()
    if first not in names:
        raise SettingsError(f"--from {first}: the stages are {', '.join(names)}.")
    files = files_at(store)
    if files.get(ZARR_JSON) is not None:
        put_group(store, {})  # first: the run is no longer finished
    again = [f"stages/{name}" for name in names[names.index(first) :]]
    if any(files.get(f"{folder}/stage.json") is not None for folder in again):
        new_attempt(store)  # a worker that still computes a block of these stages is to write beside the new ones
    for folder in reversed(again):  # so that nothing ever builds on what is gone
        files.remove(folder)


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


def begun(store: str) -> list[Blocks]:
    """The stages of a run that have been begun, as they are on disk."""
    return stages_on_disk(store, pipeline.on_disk())

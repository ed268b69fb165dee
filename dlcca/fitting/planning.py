"""The plan of a job: what its stages cost, handed to the arithmetic of `dlcca.engine.planning`.

Of views that are still to be made of recordings, the headers of the files give the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from dlcca.engine import given_rows
from dlcca.engine.planning import Plan, Rates, refuse_too_large, repeated
from dlcca.engine.row_blocks import rows_of_block
from dlcca.fitting import pipeline
from dlcca.fitting.job import Job, Source, refuse_early
from dlcca.recordings import ingest
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.timeline import Opener
from dlcca.settings.auto import Choices, choose
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.cost import format_bytes

__all__ = ["Plan", "Rates", "at_scale", "plan", "refuse_too_large"]


def plan(job: Job, workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a job; the headers of the views are read, and nothing is computed."""
    rates = rates or Rates()
    stages = [repeated(stage, rates.of(stage.name).repeats) for stage in pipeline.costs(job)]
    return Plan(job, stages, workers, rates)


def at_scale(job: Job, n: int, workers: int, rates: Rates | None = None, *, asked: Settings | None = None) -> Plan:
    """The plan of the same job with another number of samples.

    ``asked`` are the settings of the user; with them, what is "auto" is chosen anew for n samples,
    except the fusion and the window: these were chosen by the rows that are there.
    """
    if n == job.n:
        return plan(job, workers, rates)
    by_rows = {name: job.options[name] for name in ("fusion", "window")}
    settings = job.settings if asked is None else choose(asked.with_options(**by_rows), n, job.K, job.dims).settings
    rows = rows_of_block(n, job.dims, job.itemsize, job.chunk_rows)
    return plan(replace(job, n=n, rows=rows, settings=settings, clock=""), workers, rates)


@dataclass(frozen=True)
class PlannedSource(Source):
    """A view that is not there yet."""

    shape: tuple[int, int] = (0, 0)
    chunks: tuple[int, int] = (0, 0)

    def open(self) -> Any:
        """What is known of the array."""
        return SimpleNamespace(shape=self.shape, chunks=self.chunks, ndim=2, dtype=np.dtype("float32"))


@dataclass(frozen=True)
class IngestPlan:
    """What ingestion will take."""

    windows: int
    tasks: int
    reads: float  # bytes of samples, in single precision
    writes: float  # bytes
    memory: float  # bytes of a task

    def sentence(self) -> str:
        read, written, held = map(format_bytes, (self.reads, self.writes, self.memory))
        return (
            f"First the recordings are ingested: {self.windows} windows, {self.tasks} tasks, {read} of samples read, "
            f"{written} written, {held} in each worker at work."
        )


def job_to_ingest(
    store: str,
    place: str,
    recipes: Mapping[str, ViewRecipe],
    settings: Settings,
    seed: int,
    opener: Opener | None = None,
) -> tuple[Job, Choices, IngestPlan]:
    """The job as it would be if every window were valid, and what comes before it; headers are read, and no more.

    ``store`` is that of the run, ``place`` that of its views.
    """
    made, _ = ingest.prepared(place, recipes, opener)
    dims = tuple(view.width for view in made.views)
    sources = tuple(
        PlannedSource(view.name, f"{place}/views/{view.name}", shape=(made.n, d), chunks=(made.rows, d))
        for view, d in zip(made.views, dims, strict=True)
    )
    choices = choose(settings, made.n, len(sources), dims)
    chosen = given_rows.as_arrays(choices.settings)
    refuse_early(chosen.options(), made.n)
    rows = rows_of_block(made.n, dims, 4, min(made.rows, made.n))
    job = Job(store, sources, chosen, seed, made.n, dims, "float32", rows, made.inputs)
    return job, choices, _ingest_plan(made, dims)


def _ingest_plan(job: IngestJob, dims: tuple[int, ...]) -> IngestPlan:
    samples = sum(piece.n * len(track.channels) for track in job.tracks for piece in track.pieces)
    windows = sum(track.samples * len(track.channels) for track in job.tracks)
    drafts = sum(view.features for view in job.scaled_later)  # written, and read again
    # Views that are not scaled when they are read, and their drafts, have 4 bytes for each feature.
    writes = float(job.n) * (sum(view.width * view.stored_as.itemsize for view in job.views) + 4 * drafts)
    block = 4.0 * job.rows * max(samples / job.n, float(sum(dims)), windows / 4)
    return IngestPlan(job.n, job.n_blocks * (2 if drafts else 1) + 1, 4.0 * samples, writes, 3 * block)

"""A job on views that are still to be made of recordings, for a plan: the headers of the files tell their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlcca.engine import given_rows
from dlcca.engine.row_blocks import rows_of_block
from dlcca.fitting.job import Job, Source, refuse_early
from dlcca.recordings import ingest
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.timeline import Opener
from dlcca.settings.auto import Choices, choose
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe


@dataclass(frozen=True)
class Sizes:
    """Shape, dtype and chunks of an array that is not there yet."""

    shape: tuple[int, int]
    chunks: tuple[int, int]
    ndim: int = 2

    @property
    def dtype(self) -> np.dtype:
        return np.dtype("float32")


@dataclass(frozen=True)
class PlannedSource(Source):
    """A view that is not there yet."""

    sizes: Sizes = Sizes((0, 0), (0, 0))

    def open(self) -> Any:
        return self.sizes


@dataclass(frozen=True)
class IngestPlan:
    """What ingestion will take."""

    windows: int
    tasks: int
    reads: float  # bytes of samples, in single precision
    writes: float  # bytes
    memory: float  # bytes of a task

    def sentence(self) -> str:
        return (
            f"First the recordings are ingested: {self.windows} windows, {self.tasks} tasks, {_size(self.reads)} of "
            f"samples read, {_size(self.writes)} written, {_size(self.memory)} in each worker at work."
        )


def prepared(
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
    dims = tuple(made.width(v) for v in range(len(made.views)))
    sources = tuple(
        PlannedSource(view.name, f"{place}/views/{view.name}", sizes=Sizes((made.n, d), (made.rows, d)))
        for view, d in zip(made.views, dims, strict=True)
    )
    choices = choose(settings, made.n, len(sources), dims)
    chosen = given_rows.as_arrays(choices.settings)
    refuse_early(chosen.options(), made.n)
    rows = rows_of_block(made.n, dims, 4, min(made.rows, made.n))
    job = Job(store, sources, chosen, seed, made.n, dims, "float32", rows, made.inputs)
    return job, choices, _plan(made, dims)


def _plan(job: IngestJob, dims: tuple[int, ...]) -> IngestPlan:
    samples = sum(piece.n * len(track.channels) for _, _, track in job.tracks for piece in track.pieces)
    windows = sum(job.samples(track) * len(track.channels) for _, _, track in job.tracks)
    drafts = sum(sum(job.dims[v]) for v in job.scaled_later)  # written, and read again
    itemsizes = [4 if v in job.scaled_later else job.stored_as(v).itemsize for v in range(len(dims))]
    writes = float(job.n) * (sum(d * size for d, size in zip(dims, itemsizes, strict=True)) + 4 * drafts)
    block = 4.0 * job.rows * max(samples / job.n, float(sum(dims)), windows / 4)
    return IngestPlan(job.n, job.n_blocks * (2 if drafts else 1) + 1, 4.0 * samples, writes, 3 * block)


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"

"""The plan of a job: its sizes, handed to the arithmetic of `dlcca.engine.planning`.

Of views that are still to be made of recordings, the headers of the files give the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from dlcca.engine import given_rows
from dlcca.engine import planning as arithmetic
from dlcca.engine.planning import Plan, Rates, Sizes, refuse_too_large
from dlcca.engine.row_blocks import rows_of_block
from dlcca.fitting import (
    distances,
    embed,
    gram,
    landmarks,
    links,
    metric,
    neighborhood_rows,
    neighbors,
    pipeline,
    readout,
)
from dlcca.fitting.job import Job, Source, refuse_early
from dlcca.numerics.landmarks import CANDIDATES
from dlcca.recordings import ingest
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.timeline import Opener
from dlcca.settings.auto import Choices, choose
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe

__all__ = ["Plan", "Rates", "Sizes", "at_scale", "plan", "plan_of", "refuse_too_large", "sizes_of"]


def plan(job: Job, workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a job; nothing is read or computed."""
    return plan_of(sizes_of(job), workers, rates)


def plan_of(sizes: Sizes, workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a run of these sizes."""
    return arithmetic.plan(sizes, pipeline.costs(sizes), workers, rates)


def at_scale(job: Job, n: int, workers: int, rates: Rates | None = None, *, asked: Settings | None = None) -> Plan:
    """The plan of the same job with another number of samples.

    ``asked`` are the settings of the user; with them, what is "auto" is chosen anew for n samples,
    except the fusion and the window: these were chosen by the rows that are there.
    """
    if n == job.n:
        return plan(job, workers, rates)
    by_rows = {name: job.options[name] for name in ("fusion", "window")}
    settings = job.settings if asked is None else choose(asked.with_options(**by_rows), n, job.K, job.dims).settings
    rows = rows_of_block(n, job.dims, np.dtype(job.dtype).itemsize, _chunk_rows(job))
    return plan(replace(job, n=n, rows=rows, settings=settings, clock=""), workers, rates)


def _chunk_rows(job: Job) -> int:
    return int(job.sources[0].open().chunks[0])


def sizes_of(job: Job) -> Sizes:
    """What the plan of a job follows from; the headers of the views are read."""
    n, m = job.n, landmarks.count(job)
    spread = job.options["landmark_rule"] in ("kmeans++", "farthest") and m < n
    return Sizes(
        n=n,
        rows=job.rows,
        chunk_rows=_chunk_rows(job),
        dims=job.dims,
        itemsize=np.dtype(job.dtype).itemsize,
        m=m,
        k=neighborhood_rows.width(job),
        r=metric.rank(job),
        q=int(job.options["n_components"]),
        candidates=min(n, max(CANDIDATES, 10 * m)) if spread else 0,
        sought=links.n_neighbors(job),
        subset=int(job.options["neighbor_rows"]) if neighbors.in_subset(job) else 0,
        sought_by=links.neighbors_by(job),
        links=links.n_links(job),
        links_by=links.links_by(job),
        landmark_groups=landmarks.n_groups(job),
        shard_tasks=neighbors.INDEX_QUERIES.n_blocks(job) if neighbors.is_queried(job) else 0,
        merged_tasks=neighbors.MERGED.n_blocks(job) if neighbors.is_merged(job) else 0,
        kept=(links.n_links(job) or min(int(job.options["n_links"]), m)) if job.is_sparse else 0,
        per_view=job.fusion.per_view,
        has_readout=bool(readout.shapes(job)),
        used_views=tuple(job.fusion.used_views(job.K)),
        metric_landmarks=neighborhood_rows.per_task(job),
        solver=job.options["solver"],
        gram_groups=len(gram.groups(job)),
        gram_pairs=len(gram.pairs(job)),
        bandwidth_passes=_bandwidth_passes(job),
        unit_passes=distances.passes(job, dense=True) if job.fusion.needs_units else 0,
        reach_rows=job.n_blocks * embed.rows_looked_at(job),
    )


def _bandwidth_passes(job: Job) -> int:
    said = job.options["bandwidth"]
    return distances.passes(job, dense=not job.is_sparse) + (said == "slope") if isinstance(said, str) else 0


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
        return (
            f"First the recordings are ingested: {self.windows} windows, {self.tasks} tasks, {_size(self.reads)} of "
            f"samples read, {_size(self.writes)} written, {_size(self.memory)} in each worker at work."
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


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"

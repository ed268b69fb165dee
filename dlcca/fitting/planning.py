"""The plan of a job: its sizes, handed to the arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
from dlcca.fitting.job import Job
from dlcca.numerics.landmarks import CANDIDATES
from dlcca.settings.auto import choose
from dlcca.settings.fit import Settings

__all__ = ["Plan", "Rates", "Sizes", "at_scale", "plan", "plan_of", "refuse_too_large", "sizes_of"]


def plan(job: Job, workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a job; nothing is read or computed."""
    return plan_of(sizes_of(job), workers, rates)


def plan_of(sizes: Sizes, workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a run of these sizes."""
    return arithmetic.plan(sizes, pipeline.costs(sizes), workers, rates)


def at_scale(job: Job, n: int, workers: int, rates: Rates | None = None, *, asked: Settings | None = None) -> Plan:
    """The plan of the same job with another number of samples.

    ``asked`` are the settings before anything was chosen; with them, what is "auto" is chosen anew for n samples,
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
    """What the plan of a job follows from; the headers of the views are looked at."""
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
        sought_by=links.neighbors_by(job),
        links=links.n_links(job),
        links_by=links.links_by(job),
        landmark_groups=landmarks.n_groups(job),
        shard_tasks=neighbors.INDEX_QUERIES.n_blocks(job) if neighbors.is_queried(job) else 0,
        merged_tasks=neighbors.MERGED.n_blocks(job) if links.n_neighbors(job) and neighbors.n_spans(job) > 1 else 0,
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

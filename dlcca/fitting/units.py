"""The unit of each view: its median distance, by which fusions that mix distances divide them first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Blocks, Stage
from dlcca.engine.work import Tell
from dlcca.fitting import draft_model, metric, quantiles
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics.kernels import choose_bandwidth


def view_distances(job: Job, block: int) -> Iterator[tuple[int, NDArray]]:
    """Dense distances of a block in each view."""
    views = job.block(block)
    for v in range(job.K):
        yield from ((v, D) for D in draft_model.tiles(draft_model.of_view(job, v), views))


def _find(job: Job, stage: Blocks, client: Any, tell: Tell | None) -> None:
    if stage.missing():
        found = _medians(job) if job.in_memory else _quantiles(job, client, tell)
        quantiles.refuse_flat(found, job)
        stage.write(0, {}, {"units": found})


def _quantiles(job: Job, client: Any, tell: Tell | None) -> list[float]:
    return quantiles.quantiles(job, view_distances, job.K, 0.5, client, tell, dense=True)


def _medians(job: Job) -> list[float]:
    """The same of arrays in memory."""
    drafts = [draft_model.of_view(job, v) for v in range(job.K)]
    return [choose_bandwidth(draft.distances(job.block(0)), "median") for draft in drafts]


def units(job: Job) -> list[float]:
    """What the distances in each view are divided by; 0 for a view that is not used."""
    if not job.fusion.needs_units:
        used = job.fusion.used_views(job.K)
        return [1.0 if v in used else 0.0 for v in range(job.K)]
    return list(UNITS.of(job).facts(0)["units"])


def model(job: Job) -> Model:
    """The landmarks and metrics as a model that lacks only its spectrum."""
    return draft_model.of_units(job, units(job))


def passes_cost(name: str, sizes: Sizes, passes: int) -> StagePlan:
    """Passes over all distances: kept ones are read, dense ones are made again."""
    entries = float(sizes.n) * (sizes.kept or sizes.m) * sizes.kernels
    dense = name == "units" or not sizes.kept
    return StagePlan(
        name,
        passes * sizes.n_blocks,
        products=passes * sizes.dense_products if dense else 0,
        selections=passes * (float(sizes.n) * sizes.m if dense else entries),
        reads=passes * (sizes.pass_bytes if dense else entries * sizes.itemsize),
        memory=sizes.reading_bytes + sizes.model_bytes + sizes.dense_tile
        if dense
        else min(sizes.rows, sizes.n) * sizes.kept * (2.0 * sizes.itemsize + 16),
    )


UNITS = Stage(
    "units",
    after=[metric.METRIC],
    options=["fusion"],
    is_needed=lambda job: job.fusion.needs_units,
    says=lambda job: "median distances",
    cost=lambda sizes: passes_cost("units", sizes, sizes.unit_passes),
    drive=_find,
    reads="a block of samples",
    leaves="the median distance of each view, for `average` fusion",
)

"""The bandwidth of each kernel: by a rule, from passes over all distances, or a number from the user."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.engine.work import OnProgress, collect
from dlcca.fitting import distances, kernel
from dlcca.fitting.job import Job
from dlcca.numerics.kernels import QUANTILES, choose_bandwidth, kth_smallest, log_sums, sigma_grid, steepest


def kernel_distances(job: Job, block: int) -> Iterator[tuple[int, NDArray]]:
    """Distances of a block in each kernel, some rows at a time."""
    for v in job.kernels:
        yield from ((v, D) for _links, D in kernel.tiles(job, block, v))


def neighbor_distances(job: Job, block: int) -> Iterator[tuple[int, NDArray]]:
    """Distances to the k-th nearest landmark."""
    yield from ((v, kth_smallest(D)) for v, D in kernel_distances(job, block))


def _find(job: Job, stage: Blocks, client: Any, on_progress: OnProgress | None) -> None:
    rule, sigma = job.options["bandwidth"], []
    if not isinstance(rule, str):
        sigma = [float(rule) for _ in job.kernels]
    elif job.in_memory:
        kept = kernel.KERNEL.of(job)
        sigma = [choose_bandwidth(kept.read_all(f"distances_{v}"), rule) for v in job.kernels]
    else:
        counted = neighbor_distances if rule == "neighbor" else kernel_distances
        share, many = QUANTILES["median" if rule == "slope" else rule], len(job.kernels)
        sigma = distances.quantiles(job, counted, many, share, client, on_progress, dense=not job.is_sparse)
        if rule == "slope":
            sigma = _steepest(job, sigma, client, on_progress)
    if isinstance(rule, str):
        distances.refuse_flat(sigma, job)
    stage.write(0, {}, {"sigma": sigma})


def _steepest(job: Job, medians: list[float], client: Any, on_progress: OnProgress | None) -> list[float]:
    """The slope rule, from the logarithm of the sum of every candidate's kernel."""
    if min(medians) <= 0:
        return medians
    grids = [sigma_grid(median) for median in medians]
    parts = collect(log_sums_of, job, job.n_blocks, client, on_progress, (grids,), name="bandwidth")
    totals = reduce(np.logaddexp, parts)
    return [steepest(grid, total) for grid, total in zip(grids, totals, strict=True)]


def log_sums_of(job: Job, block: int, grids: list[NDArray]) -> NDArray[np.float64]:
    """log Σ exp(-D/σ) of a block, (kernels, candidates)."""
    total = np.full((len(grids), len(grids[0])), -np.inf)
    for v, D in kernel_distances(job, block):
        total[v] = np.logaddexp(total[v], log_sums(D, grids[v]))
    return total


def _cost(job: Job) -> dict[str, float]:
    rule, kept = job.options["bandwidth"], kernel.n_kept(job)
    passes = distances.passes(job, dense=not job.is_sparse) + (rule == "slope") if isinstance(rule, str) else 0
    if not kept:
        return distances.passes_cost(job, passes)
    entries = float(job.n) * kept * len(job.kernels)
    return {
        "tasks": passes * job.n_blocks,
        "selections": passes * entries,
        "reads": passes * entries * job.itemsize,
        "memory": min(job.rows, job.n) * kept * (2.0 * job.itemsize + 16),
    }


def sigmas(job: Job) -> list[float]:
    """σ of each kernel."""
    return BANDWIDTH.of(job).facts(0)["sigma"]


def of_model(job: Job) -> float | NDArray[np.float64]:
    """σ, or an array of one for each kernel."""
    sigma = sigmas(job)
    return sigma[0] if len(sigma) == 1 else np.array(sigma)


BANDWIDTH = Stage(
    "bandwidth",
    after=[kernel.KERNEL, distances.UNITS],
    options=["bandwidth"],
    cost=_cost,
    drive=_find,
    reads="a block of distances",
    leaves="counts of their leading digits, from which quantiles follow exactly",
)

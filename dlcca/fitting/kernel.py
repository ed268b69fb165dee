"""The kernel exp(-D/σ): distances under the local metrics, block by block, and the bandwidth.

A sparse row is small and its links were costly to find, so links and distances are kept. A dense row is as wide as
there are landmarks: reading it back from a disk would take longer than the products that make it, so that it is
computed anew where it is needed. In memory it is kept.

The bandwidth of each kernel is found by a rule, from passes over all distances, or is a number from the user.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.engine.work import OnProgress, collect
from dlcca.fitting import distances, landmarks, metric
from dlcca.fitting import links as link_stage
from dlcca.fitting.job import Job
from dlcca.numerics.distances import FEW_LINKS, linked_distances
from dlcca.numerics.kernels import QUANTILES, choose_bandwidth, kth_smallest, log_sums, sigma_grid, steepest
from dlcca.numerics.topk import closest_links


def compute(job: Job, stage: Blocks, block: int) -> None:
    first, views, draft = job.bounds(block)[0], job.block(block), distances.model(job)
    parts: dict[str, tuple[int, NDArray]] = {}
    if job.fusion.per_view:
        few = FEW_LINKS if job.in_memory else 0  # small fits do not use numba
        for v, X in enumerate(views):
            links = link_stage.LINKS.of(job).read(f"links_{v}", block)
            D = linked_distances(X, draft.points[v], draft.factors[v], links, few_links=few)
            parts[f"distances_{v}"] = (first, D)
    elif not job.is_sparse:
        parts["distances_0"] = (first, draft.distances(views))
    else:
        found = [closest_links(D, int(job.options["n_links"])) for D in distances.tiles(draft, views)]
        parts["links_0"] = (first, np.concatenate([links for links, _ in found]).astype(np.int32))
        parts["distances_0"] = (first, np.concatenate([D for _, D in found]))
    stage.write(block, parts, {})


def rows(job: Job, kernel: int, block: int) -> tuple[NDArray[np.int32], NDArray]:
    """Links and distances (b, s) of a block of a sparse kernel."""
    links = link_stage.LINKS if job.fusion.per_view else KERNEL
    return links.of(job).read(f"links_{kernel}", block), KERNEL.of(job).read(f"distances_{kernel}", block)


def tiles(job: Job, block: int, kernel: int = 0) -> Iterator[tuple[NDArray[np.int32] | None, NDArray]]:
    """Links and distances of a block: all rows of a sparse kernel; some at a time, without links, of a dense one."""
    if job.is_sparse:
        yield rows(job, kernel, block)
    elif job.in_memory:
        D = KERNEL.of(job).read("distances_0", block)
        size = distances.tile_rows(D.shape[1])
        yield from ((None, D[first : first + size]) for first in range(0, len(D), size))
    else:
        yield from ((None, D) for D in distances.tiles(distances.model(job), job.block(block)))


def _arrays(job: Job) -> Arrays:
    if not job.is_sparse:
        return {"distances_0": ((job.n, landmarks.count(job)), job.dtype, job.rows)}
    shape = (job.n, n_kept(job))
    kept = {f"distances_{v}": (shape, job.dtype, job.rows) for v in job.kernels}
    return kept if job.fusion.per_view else {"links_0": (shape, "int32", job.rows), **kept}


def n_kept(job: Job) -> int:
    """Entries of a row of the kernel that are kept; 0 if rows are dense, and made again where they are needed."""
    if not job.is_sparse:
        return 0
    return link_stage.n_links(job) or min(int(job.options["n_links"]), landmarks.count(job))


def reading_cost(job: Job, entry_bytes: float, tiles: int = 3) -> dict[str, float]:
    """Reading all rows once: kept ones, of which a task holds so many bytes per entry, or dense ones, made in tiles."""
    s = float(n_kept(job))
    if s:
        reads = job.n * s * (4 + job.itemsize) * len(job.kernels)
        return {"products": 0.0, "reads": reads, "memory": min(job.rows, job.n) * s * entry_bytes}
    held = job.reading_bytes + distances.model_bytes(job) + tiles * distances.dense_tile(job)
    return {"products": distances.dense_products(job), "reads": job.pass_bytes, "memory": held}


def _cost(job: Job) -> dict[str, float]:
    n, s, kernels, links_given = job.n, n_kept(job), len(job.kernels), job.fusion.per_view
    link_bytes = n * s * 4.0 * kernels
    of_given = 4.0 * n * s * metric.rank(job) * job.width  # gathered rows halve the rate
    held = job.reading_bytes + min(job.rows, n) * s * (12.0 + 2.0 * job.itemsize * kernels) + distances.model_bytes(job)
    return {
        "products": of_given if links_given else distances.dense_products(job),
        "selections": 0.0 if links_given else 10.0 * n * landmarks.count(job),
        "reads": job.pass_bytes + (link_bytes if links_given else 0),
        "memory": held + (0 if links_given else distances.dense_tile(job)),
    }


KERNEL = Stage(
    "kernel",
    compute,
    after=[distances.UNITS, link_stage.LINKS],
    options=["fusion", "kernel", "n_links"],
    n_blocks=lambda job: job.n_blocks,
    arrays=_arrays,
    is_needed=lambda job: job.in_memory or job.is_sparse,
    cost=_cost,
    reads="a block of samples",
    leaves="distances to the linked landmarks under their metrics, for sparse kernels",
)


def kernel_distances(job: Job, block: int) -> Iterator[tuple[int, NDArray]]:
    """Distances of a block in each kernel, some rows at a time."""
    for v in job.kernels:
        yield from ((v, D) for _links, D in tiles(job, block, v))


def neighbor_distances(job: Job, block: int) -> Iterator[tuple[int, NDArray]]:
    """Distances to the k-th nearest landmark."""
    yield from ((v, kth_smallest(D)) for v, D in kernel_distances(job, block))


def _find_sigma(job: Job, stage: Blocks, client: Any, on_progress: OnProgress | None) -> None:
    rule, sigma = job.options["bandwidth"], []
    if not isinstance(rule, str):
        sigma = [float(rule) for _ in job.kernels]
    elif job.in_memory:
        kept = KERNEL.of(job)
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


def _bandwidth_cost(job: Job) -> dict[str, float]:
    rule, kept = job.options["bandwidth"], n_kept(job)
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


def bandwidth_of_model(job: Job) -> float | NDArray[np.float64]:
    """σ, or an array of one for each kernel."""
    sigma = sigmas(job)
    return sigma[0] if len(sigma) == 1 else np.array(sigma)


BANDWIDTH = Stage(
    "bandwidth",
    after=[KERNEL, distances.UNITS],
    options=["bandwidth"],
    cost=_bandwidth_cost,
    drive=_find_sigma,
    reads="a block of distances",
    leaves="counts of their leading digits, from which quantiles follow exactly",
)

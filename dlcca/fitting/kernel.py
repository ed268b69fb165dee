"""Distances under the local metrics, block by block: kept where rows are sparse, computed anew where they are dense.

A sparse row is small and its links were costly to find, so both are kept. A dense row is as wide as there are
landmarks: reading it back from a disk would take longer than the products that make it. In memory it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.fitting import distances, landmarks, metric
from dlcca.fitting import links as link_stage
from dlcca.fitting.job import Job
from dlcca.numerics.distances import linked_distances
from dlcca.numerics.topk import closest_links


def compute(job: Job, stage: Blocks, block: int) -> None:
    first, views, draft = job.bounds(block)[0], job.block(block), distances.model(job)
    parts: dict[str, tuple[int, NDArray]] = {}
    if job.fusion.per_view:
        for v, X in enumerate(views):
            links = link_stage.LINKS.of(job).read(f"links_{v}", block)
            parts[f"distances_{v}"] = (first, linked_distances(X, draft.points[v], draft.factors[v], links))
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

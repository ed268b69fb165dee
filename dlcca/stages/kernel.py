"""Distances under the local metrics, block by block: kept where rows are sparse, made again where they are dense.

A sparse row is small and its links were costly to find, so both are kept. A dense row is as wide as there are
landmarks: reading it back would take longer than the products that make it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.model import Model
from dlcca.numerics.affinity import closest_links
from dlcca.numerics.bandwidth import beyond_rounding
from dlcca.numerics.linked import linked_distances
from dlcca.numerics.quantiles import Counts, added, count_digits, levels, quantile
from dlcca.stages import landmarks, metric, near
from dlcca.stages.job import Job
from dlcca.stages.work import Tell, collect, do_missing
from dlcca.stores.blocks import Stage

#: Rows whose dense distances are made at a time.
TILE_ENTRIES = 1 << 22
#: Dense distances up to this many get an exact quantile; of more, the last passes are left out (error below 2^-8).
EXACT_ENTRIES = 1 << 28


def is_sparse(job: Job) -> bool:
    return job.options["fusion"] == "alternating" or job.options["kernel"] == "sparse"


def used_views(job: Job) -> list[int]:
    """The views whose distances count."""
    return [0] if job.options["fusion"] == "view" else list(range(job.K))


def kernels(job: Job) -> list[int]:
    """Numbers of the kernels: one for each view, or one in all."""
    return list(range(job.K)) if job.options["fusion"] == "alternating" else [0]


def depends(job: Job) -> list[Any]:
    return [*metric.depends(job), *(job.options[name] for name in ("fusion", "kernel", "n_links"))]


def stage_of(job: Job) -> Stage:
    return job.stage("kernel", depends(job), job.n_blocks)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Keep the sparse distances of every block that has none yet."""
    if not is_sparse(job):
        return
    s = min(int(job.options["n_links"]), landmarks.count(job)) or 1
    if job.options["fusion"] == "alternating":
        arrays: dict[str, Any] = {
            f"distances_{v}": ((job.n, near.n_links(job)), job.dtype, job.rows) for v in range(job.K)
        }
    else:
        arrays = {"links_0": ((job.n, s), "int32", job.rows), "distances_0": ((job.n, s), job.dtype, job.rows)}
    says = f"{job.options['fusion']} fusion, {job.options['n_links']} links"
    do_missing(compute, job, stage_of(job).prepare(arrays, says=says), client, tell)


def compute(job: Job, stage: Stage, block: int) -> None:
    first, _last = job.bounds(block)
    views = job.block(block)
    draft = model(job)
    parts: dict[str, tuple[int, NDArray]] = {}
    if job.options["fusion"] == "alternating":
        for v, X in enumerate(views):
            links = near.stage_of(job).read(f"links_{v}", block).astype(np.int64)
            parts[f"distances_{v}"] = (first, linked_distances(X, draft.points[v], draft.factors[v], links))
    else:
        found = [closest_links(D, int(job.options["n_links"])) for D in tiles(draft, views)]
        parts["links_0"] = (first, np.concatenate([links for links, _ in found]).astype(np.int32))
        parts["distances_0"] = (first, np.concatenate([D for _, D in found]))
    stage.write(block, parts, {})


def tiles(draft: Model, views: list[NDArray]) -> Any:
    """Dense fused distances of a block, some rows at a time."""
    rows = max(1, TILE_ENTRIES // draft.n_landmarks)
    for first in range(0, len(views[0]), rows):
        yield draft.distances([X[first : first + rows] for X in views])


def rows(job: Job, kernel: int, block: int) -> tuple[NDArray[np.int64], NDArray]:
    """Links and distances (b, s) of a block of a sparse kernel."""
    stage = stage_of(job)
    links = near.stage_of(job) if job.options["fusion"] == "alternating" else stage
    return links.read(f"links_{kernel}", block).astype(np.int64), stage.read(f"distances_{kernel}", block)


def model(job: Job) -> Model:
    """The landmarks and metrics as a model that lacks only its spectrum; kept by each worker."""
    return _model(job, _view_units(job))


#: Of the last job that this worker saw; a job is many tasks, and the metrics may be large.
_KEPT: dict[tuple[Any, ...], Model] = {}


def _model(job: Job, units: list[float]) -> Model:
    key = (job.address, stage_of(job).fingerprint, *units)
    found = _KEPT.get(key)
    if found is None:  # perhaps read twice: several threads may be here, and each keeps what it has found
        found = _read_model(job, units)
        _KEPT.clear()
        _KEPT[key] = found
    return found


def _read_model(job: Job, units: list[float]) -> Model:
    sparse = is_sparse(job)
    return Model(
        names=tuple(source.name for source in job.sources),
        fusion=job.options["fusion"],
        n_links=min(int(job.options["n_links"]), landmarks.count(job)) if sparse else None,
        points=landmarks.points(job),
        factors=metric.factors(job),
        units=np.array(units),
        weights=[],
        values=[],
        scale=np.ones(int(job.options["n_components"])),
    )


def _view_units(job: Job) -> list[float]:
    """What the views' distances are divided by before they are averaged: their medians, found in a stage of its own."""
    used = used_views(job)
    if job.options["fusion"] != "average":
        return [1.0 if v in used else 0.0 for v in range(job.K)]
    return list(units_stage(job).facts(0)["units"])


def units_stage(job: Job) -> Stage:
    return job.stage("units", [*metric.depends(job), job.options["fusion"]], 1)


def run_units(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """The median distance of each view, for "average" fusion."""
    if job.options["fusion"] != "average":
        return
    stage = units_stage(job).prepare({}, says="median distances")
    if stage.missing():
        units = [_dense_quantile(job, v, 0.5, client, tell) for v in range(job.K)]
        stage.write(0, {}, {"units": units})


def bandwidth_quantile(job: Job, kernel: int, share: float, client: Any, tell: Tell | None) -> float:
    """The quantile of the positive distances that the kernel sees."""
    if not is_sparse(job):
        return _dense_quantile(job, -1, share, client, tell)
    return _quantile(job, count_sparse, kernel, share, levels(np.dtype(job.dtype)), client, tell)


def _dense_quantile(job: Job, view: int, share: float, client: Any, tell: Tell | None) -> float:
    passes = levels(np.dtype(job.dtype))
    if job.n * landmarks.count(job) > EXACT_ENTRIES:
        passes = 1 if passes == 2 else 2
    return _quantile(job, count_dense, view, share, passes, client, tell)


def _quantile(
    job: Job, count: Callable[..., Counts], which: int, share: float, passes: int, client: Any, tell: Tell | None
) -> float:
    def all_counts(level: int, prefixes: list[int]) -> Counts:
        parts = collect(count, job, job.n_blocks, client, tell, (which, level, prefixes), name="bandwidth")
        total: Counts | None = None
        for part in parts:  # as they come: counts of many blocks are never held together
            total = part if total is None else added([total, part])
        assert total is not None
        return total

    return quantile(share, np.dtype(job.dtype), all_counts, passes)


def count_sparse(job: Job, block: int, kernel: int, level: int, prefixes: list[int]) -> Counts:
    return count_digits(beyond_rounding(stage_of(job).read(f"distances_{kernel}", block)), level, prefixes)


def count_dense(job: Job, block: int, view: int, level: int, prefixes: list[int]) -> Counts:
    """Of one view's distances, or (view -1) of the fused ones."""
    used = [1.0 if v == view else 0.0 for v in range(job.K)] if view >= 0 else _view_units(job)
    draft = _model(job, used)
    return added([count_digits(beyond_rounding(D), level, prefixes) for D in tiles(draft, job.block(block))])

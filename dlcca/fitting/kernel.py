"""Distances under the local metrics, block by block: kept where rows are sparse, made again where they are dense.

A sparse row is small and its links were costly to find, so both are kept. A dense row is as wide as there are
landmarks: reading it back would take longer than the products that make it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import axes, landmarks, metric
from dlcca.fitting import links as near
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics.affinity import closest_links
from dlcca.numerics.sparse_distances import linked_distances
from dlcca.storage.blocks import Stage

#: Rows whose dense distances are made at a time.
TILE_ENTRIES = 1 << 22


def is_sparse(job: Job) -> bool:
    return job.options["fusion"] == "alternating" or job.options["kernel"] == "sparse"


def used_views(job: Job) -> list[int]:
    """The views whose distances count."""
    return [0] if job.options["fusion"] == "view" else list(range(job.K))


def kernels(job: Job) -> list[int]:
    """Numbers of the kernels: one for each view, or one in all."""
    return list(range(job.K)) if job.options["fusion"] == "alternating" else [0]


def depends(job: Job) -> list[Any]:
    return [*metric.depends(job), *(job.options[name] for name in ("fusion", "kernel", "n_links")), *axes.depends(job)]


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
            links = near.stage_of(job).read(f"links_{v}", block)
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


def rows(job: Job, kernel: int, block: int) -> tuple[NDArray[np.int32], NDArray]:
    """Links and distances (b, s) of a block of a sparse kernel."""
    stage = stage_of(job)
    links = near.stage_of(job) if job.options["fusion"] == "alternating" else stage
    return links.read(f"links_{kernel}", block), stage.read(f"distances_{kernel}", block)


def model(job: Job) -> Model:
    """The landmarks and metrics as a model that lacks only its spectrum; kept by each worker."""
    return _model(job, _view_units(job))


#: Of the last job that this worker saw; a job is many tasks, and the metrics may be large.
_KEPT: dict[tuple[Any, ...], Model] = {}


def forget() -> None:
    """Have the model be read anew."""
    _KEPT.clear()


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
        axes=axes.of(job) if axes.is_needed(job) else (),
    )


def _view_units(job: Job) -> list[float]:
    """What the views' distances are divided by before they are averaged: their medians, found in a stage of its own."""
    used = used_views(job)
    if job.options["fusion"] != "average":
        return [1.0 if v in used else 0.0 for v in range(job.K)]
    return list(units_stage(job).facts(0)["units"])


def units_stage(job: Job) -> Stage:
    """The stage that has found the units of the views (see `scales`)."""
    return job.stage("units", [*metric.depends(job), job.options["fusion"]], 1)


def view_model(job: Job, view: int) -> Model:
    """The model whose distances are those of one view."""
    return _model(job, [1.0 if v == view else 0.0 for v in range(job.K)])

"""Views whose features cannot be finished while they are read: covariances, and principal components of features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, collect, do_missing
from dlcca.errors import DataError
from dlcca.numerics.principal import Scatter, principal
from dlcca.recordings import unscaled_features, validity
from dlcca.recordings.ingest_job import IngestJob
from dlcca.storage.blocks import Stage
from dlcca.storage.views import array_of_view, read_arrays

#: Drafts that are finished together.
BATCH_BYTES = 1 << 20
#: A covariance of more features than this does not fit a small worker.
MOST_FEATURES = 4096


def stage_of(job: IngestJob) -> Stage:
    return job.stage("views", job.n_blocks)


def made_here(job: IngestJob) -> list[int]:
    """The views that this stage makes."""
    return [v for v in range(len(job.views)) if not job.is_finished_when_read(v)]


def run(job: IngestJob, client: Any = None, tell: Tell | None = None) -> None:
    """Write every block of windows that is not written yet."""
    if not made_here(job):
        return
    _run_pca(job, client, tell)
    arrays: dict[str, Any] = {
        f"/views/{job.views[v].name}": (
            (job.n, width(job, v)),
            "float32",
            job.rows,
            array_of_view(job.inputs, np.dtype(np.float32), finished=True),
        )
        for v in made_here(job)
    }
    do_missing(compute, job, stage_of(job).prepare(arrays, says=f"{job.n} windows"), client, tell)


def width(job: IngestJob, v: int) -> int:
    """Numbers in a row of a view."""
    return job.views[v].recipe.pca_components or sum(job.dims[v])


def compute(job: IngestJob, stage: Stage, block: int) -> None:
    """One block of windows of every view that is made here; NaN where they are not valid."""
    first, last = job.bounds(block)
    valid = _valid(job, block)
    parts: dict[str, tuple[int, NDArray]] = {}
    for v in made_here(job) if len(valid) else []:
        F = features(job, v, block)
        if job.views[v].recipe.pca_components:
            pca = _pca_stage(job)
            F = (F - pca.read(_pca_place(job, v, "mean"), 0)) @ pca.read(_pca_place(job, v, "components"), 0)
        whole = np.full((last - first, F.shape[1]), np.nan, np.float32)
        whole[valid] = F
        parts[f"/views/{job.views[v].name}"] = (first, whole)
    stage.write(block, parts, {})


def _valid(job: IngestJob, block: int) -> NDArray[np.int64]:
    """The valid windows of a block, counted from its first."""
    first, last = job.bounds(block)
    rows = validity.stage_of(job).read("/rows", 0)
    return rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)] - first


def features(job: IngestJob, v: int, block: int) -> NDArray:
    """The finished features (rows, d) of the valid windows of a block."""
    valid = _valid(job, block)
    F = np.empty((len(valid), sum(job.dims[v])), np.float32)
    if not len(valid):
        return F
    drafted = unscaled_features.stage_of(job).read(unscaled_features.place_of(job, v), block)
    place = validity.place_of(job.views[v].name)
    center, scale = (validity.stage_of(job).read(f"{place}/{part}", 0) for part in ("center", "scale"))
    batch = max(1, BATCH_BYTES // (4 * F.shape[1]))
    for i in range(0, len(valid), batch):
        _finish(job, v, drafted[valid[i : i + batch]], center, scale, F[i : i + batch])
    return F


def _finish(job: IngestJob, v: int, draft: NDArray, center: NDArray, scale: NDArray, out: NDArray) -> None:
    """Features from drafts, track by track."""
    at, channel = 0, 0
    for track, feature, d in zip(job.views[v].tracks, job.features[v], job.dims[v], strict=True):
        c = slice(channel, channel + len(track.channels))
        out[:, at : at + d] = feature.finished(draft[:, at : at + d], center[c], scale[c])
        at, channel = at + d, c.stop


def _pca_stage(job: IngestJob) -> Stage:
    return job.stage("pca", 1)


def _pca_place(job: IngestJob, v: int, part: str) -> str:
    return f"{validity.place_of(job.views[v].name)}/{part}"


def _run_pca(job: IngestJob, client: Any, tell: Tell | None) -> None:
    """Principal components of the views that ask for them: their covariance is added up block by block."""
    asked = [v for v, view in enumerate(job.views) if view.recipe.pca_components]
    stage = _pca_stage(job)
    if not asked or not stage.missing():
        return
    arrays: dict[str, Any] = {}
    for v in asked:
        d, q = sum(job.dims[v]), job.views[v].recipe.pca_components
        if d > MOST_FEATURES:
            raise DataError(
                f"view {job.views[v].name!r} has {d} features; a PCA is for at most {MOST_FEATURES}. Choose "
                "a shorter window, fewer channels or other features."
            )
        arrays |= {
            _pca_place(job, v, "mean"): ((d,), "float64", d),
            _pca_place(job, v, "components"): ((d, q), "float64", d),
        }
        arrays[_pca_place(job, v, "variances")] = ((q,), "float64", q)
    stage = stage.prepare(arrays, says="principal components")
    parts: dict[str, tuple[int, NDArray]] = {}
    for v in asked:
        found = _given_pca(job, v) if job.scaling_from else _found_pca(job, v, client, tell)
        parts |= {
            _pca_place(job, v, name): (0, X) for name, X in zip(("mean", "components", "variances"), found, strict=True)
        }
    stage.write(0, parts, {})


def _found_pca(job: IngestJob, v: int, client: Any, tell: Tell | None) -> tuple[NDArray, ...]:
    blocks = collect(_scatter, job, job.n_blocks, client, tell, (v,), name="pca")
    return principal(blocks, job.views[v].recipe.pca_components)


def _scatter(job: IngestJob, block: int, v: int) -> Scatter:
    return Scatter.of(features(job, v, block))


def _given_pca(job: IngestJob, v: int) -> tuple[NDArray, ...]:
    names = [_pca_place(job, v, name)[1:] for name in ("mean", "components", "variances")]
    return tuple(read_arrays(job.scaling_from, names))

"""How channels are scaled: summaries of the samples of each block, the scaling of all of them, and scaled features.

Most views are stored unscaled and scaled whenever they are read (`dlcca.recordings.view_array`). Covariances, and
principal components of features, are computed here instead, in the stages `pca` and `views`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import OnProgress, collect, do_missing
from dlcca.errors import DataError
from dlcca.numerics.streaming import (
    RANKS,
    Moments,
    Scatter,
    Sketches,
    combined,
    principal,
    robust_scaling,
    summary,
)
from dlcca.recordings.features import Columns, side_by_side
from dlcca.recordings.formats.recording import Digital, values_of
from dlcca.recordings.ingest_job import IngestJob, packed, unpacked
from dlcca.storage.blocks import Blocks
from dlcca.storage.views import array_of_view, read_arrays

#: Samples whose moments, or features, are computed together.
BATCH_BYTES = 1 << 20
#: A covariance of more features than this does not fit a small worker.
MOST_FEATURES = 4096

#: Values at ranks (RANKS, c), and of how many samples (c,).
Ranks = tuple[NDArray, NDArray]


@dataclass(frozen=True)
class GoodSamples:
    """Samples of a piece in a block that count for the scaling: those annotated as BAD are left out, flat ones NaN."""

    X: NDArray  # (n, c), values or integers
    digital: Digital | None
    ranks: Callable[[], Ranks]  # of X

    @property
    def values(self) -> NDArray[np.float32]:
        return values_of(self.X, self.digital)


def ranks_of(X: NDArray, digital: Digital | None, blocks: int) -> Ranks:
    """Values of each channel of X (n, c) at evenly spaced ranks; ``blocks`` is how many of this size there are."""
    return summary(X, blocks, partial(values_of, digital=digital))


def summary_of_block(good: Sequence[GoodSamples], scaling: str, channels: int, blocks: int) -> dict[str, Any]:
    """Facts of a block of a track for its scaling: values at ranks, or means and squares."""
    if scaling == "none" or not sum(len(some.X) for some in good):
        return {}
    if scaling == "robust":
        values, counts = (
            good[0].ranks() if len(good) == 1 else summary(np.concatenate([some.values for some in good]), blocks)
        )
        return {"values": packed(values.reshape(RANKS, channels)), "counts": packed(counts)}
    moments = _moments(good)
    if moments is None:
        return {}
    return {"rows": moments.count, "moments": packed(np.stack([moments.mean, moments.squares]))}


def _moments(good: Sequence[GoodSamples]) -> Moments | None:
    """Of all samples; None if none of them is finite in all channels."""
    parts = []
    for some in good:
        batch = max(1, BATCH_BYTES // max(1, 4 * some.X.shape[1]))
        for i in range(0, len(some.X), batch):
            values = values_of(some.X[i : i + batch], some.digital)
            finite = values[np.isfinite(values).all(axis=1)]
            if len(finite):
                parts.append(Moments.of(finite))
    return combined(parts) if parts else None


@dataclass
class Summaries:
    """The summaries of all blocks of a track."""

    sketches: Sketches = field(default_factory=Sketches)
    moments: list[Moments] = field(default_factory=list)

    def add(self, facts: dict[str, Any]) -> None:
        """Those of the next block, from what `summary_of_block` returned."""
        if "values" in facts:
            self.sketches.add(unpacked(facts["values"]), unpacked(facts["counts"]))
        if "moments" in facts:
            self.moments.append(Moments(facts["rows"], *unpacked(facts["moments"])))

    def center_and_scale(self, how: str, channels: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if how == "robust" and self.sketches.summaries:
            return robust_scaling(self.sketches.summaries)
        if how == "standard" and self.moments:
            total = combined(self.moments)
            scale = np.sqrt(total.squares / total.count)
            return total.mean, np.where(scale > 0, scale, 1.0)
        return np.zeros(channels), np.ones(channels)


def scaling_arrays(job: IngestJob, summaries: dict[tuple[int, int], Summaries]) -> Iterator[tuple[str, NDArray]]:
    """The arrays of the stage `clock` that say how each view is scaled; ``summaries`` by view and track."""
    for v, view in enumerate(job.views):
        if job.scaling_from:
            center, scale = _given_scaling(job, v)
        else:
            each = [
                summaries[v, k].center_and_scale(view.recipe.scaling, len(track.channels))
                for k, track in enumerate(view.tracks)
            ]
            center, scale = (np.concatenate(parts) for parts in zip(*each, strict=True))
        yield job.place_of_scaling(v, "center"), center
        yield job.place_of_scaling(v, "scale"), scale
        if job.is_scaled_when_read(v):
            yield f"/columns/{view.name}", _columns(job, v, center, scale).as_array()


def _given_scaling(job: IngestJob, v: int) -> list[NDArray]:
    """Center and scale from another store, so that new recordings are scaled as the old ones."""
    center, scale = read_arrays(job.scaling_from, [job.place_of_scaling(v, part)[1:] for part in ("center", "scale")])
    c = sum(len(track.channels) for track in job.views[v].tracks)
    if len(center) != c:
        raise DataError(
            f"view {job.views[v].name!r} has {c} channels, but {len(center)} in {job.scaling_from}, whose scaling is "
            "used; select the same channels."
        )
    return [center, scale]


def _columns(job: IngestJob, v: int, center: NDArray, scale: NDArray) -> Columns:
    """The scaling of the columns of a view, those of all its tracks side by side."""
    parts, at = [], 0
    is_stored_as_values = job.stored_as(v).kind == "f"
    for track, feature, digital in zip(job.views[v].tracks, job.features[v], job.digital[v], strict=True):
        channels = slice(at, at + len(track.channels))
        columns = feature.columns(center[channels], scale[channels])
        assert columns is not None
        if digital is not None and not is_stored_as_values:
            columns = columns.of_integers(digital.gain, digital.bias)
        parts.append(columns)
        at = channels.stop
    return side_by_side(parts)


def run(job: IngestJob, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Stages `pca` and `views`: write the blocks of the views that are not scaled whenever they are read."""
    if not job.scaled_later:
        return
    _run_pca(job, client, on_progress)
    more = array_of_view(job.inputs, np.dtype(np.float32), finished=True)
    arrays: dict[str, Any] = {
        f"/views/{job.views[v].name}": ((job.n, job.width(v)), "float32", job.rows, more) for v in job.scaled_later
    }
    do_missing(compute, job, job.stage("views").prepare(arrays, says=f"{job.n} windows"), client, on_progress)


def compute(job: IngestJob, stage: Blocks, block: int) -> None:
    """One block of windows of every view that is scaled here; NaN where they are not valid."""
    first, last = job.bounds(block)
    valid = _valid(job, block)
    parts: dict[str, tuple[int, NDArray]] = {}
    for v in job.scaled_later if len(valid) else []:
        F = features(job, v, block)
        if job.views[v].recipe.pca_components:
            mean, components = (
                job.stage("pca").read(job.place_of_scaling(v, name), 0) for name in ("mean", "components")
            )
            F = (F - mean) @ components
        whole = np.full((last - first, F.shape[1]), np.nan, np.float32)
        whole[valid] = F
        parts[f"/views/{job.views[v].name}"] = (first, whole)
    stage.write(block, parts, {})


def _valid(job: IngestJob, block: int) -> NDArray[np.int64]:
    """The valid windows of a block, counted from its first."""
    first, last = job.bounds(block)
    rows = job.stage("clock").read("/rows", 0)
    return rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)] - first


def features(job: IngestJob, v: int, block: int) -> NDArray:
    """The scaled features (rows, d) of the valid windows of a block."""
    valid = _valid(job, block)
    F = np.empty((len(valid), sum(job.dims[v])), np.float32)
    if not len(valid):
        return F
    unscaled = job.stage("drafts").read(job.place_of_drafts(v), block)
    center, scale = (job.stage("clock").read(job.place_of_scaling(v, part), 0) for part in ("center", "scale"))
    batch = max(1, BATCH_BYTES // (4 * F.shape[1]))
    for some in (slice(i, i + batch) for i in range(0, len(valid), batch)):
        at, channel = 0, 0
        for track, feature, d in zip(job.views[v].tracks, job.features[v], job.dims[v], strict=True):
            c = slice(channel, channel + len(track.channels))
            F[some, at : at + d] = feature.scaled(unscaled[valid[some], at : at + d], center[c], scale[c])
            at, channel = at + d, c.stop
    return F


def _run_pca(job: IngestJob, client: Any, on_progress: OnProgress | None) -> None:
    """Principal components of the views whose recipe has them: their covariance is summed block by block."""
    views = [v for v, view in enumerate(job.views) if view.recipe.pca_components]
    stage = job.stage("pca")
    if not views or not stage.missing():
        return
    arrays: dict[str, Any] = {}
    for v in views:
        d, q = sum(job.dims[v]), job.views[v].recipe.pca_components
        if d > MOST_FEATURES:
            raise DataError(
                f"view {job.views[v].name!r} has {d} features; a PCA is for at most {MOST_FEATURES}. Choose "
                "a shorter window, fewer channels or other features."
            )
        for name, shape in (("mean", (d,)), ("components", (d, q)), ("variances", (q,))):
            arrays[job.place_of_scaling(v, name)] = (shape, "float64", shape[0])
    stage = stage.prepare(arrays, says="principal components")
    parts: dict[str, tuple[int, NDArray]] = {}
    for v in views:
        places = [job.place_of_scaling(v, name) for name in ("mean", "components", "variances")]
        found: Sequence[NDArray]
        if job.scaling_from:
            found = read_arrays(job.scaling_from, [place[1:] for place in places])
        else:
            blocks = collect(_scatter, job, job.n_blocks, client, on_progress, (v,), name="pca")
            found = principal(blocks, job.views[v].recipe.pca_components)
        parts |= {place: (0, X) for place, X in zip(places, found, strict=True)}
    stage.write(0, parts, {})


def _scatter(job: IngestJob, block: int, v: int) -> Scatter:
    return Scatter.of(features(job, v, block))

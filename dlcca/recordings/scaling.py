"""How channels are scaled: summaries of the samples of each block, the scaling of all of them, and scaled features.

Most views are stored unscaled and scaled whenever they are read (`dlcca.recordings.view_array`). Covariances, and
principal components of features, are computed here instead, in the stages `pca` and `views`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import OnProgress, collect, do_missing
from dlcca.numerics.streaming import Moments, Sketches, combined, principal, robust_scaling, summary
from dlcca.recordings.features import of_integers
from dlcca.recordings.formats.recording import Digital, values_of
from dlcca.recordings.ingest_job import IngestJob, WindowedTrack, WindowedView, packed, unpacked
from dlcca.storage.blocks import Blocks
from dlcca.storage.views import array_of_view

#: Samples whose moments, or features, are computed together.
BATCH_BYTES = 1 << 20

#: Values at ranks (RANKS, c), and of how many samples (c,).
Ranks = tuple[NDArray, NDArray]


def ranks_of(X: NDArray, digital: Digital | None, blocks: int) -> Ranks:
    """Values of each channel of X (n, c) at evenly spaced ranks; ``blocks`` is how many of this size there are."""
    return summary(X, blocks, partial(values_of, digital=digital))


def summary_of_block(track: WindowedTrack, good: Sequence[NDArray], blocks: int, ranks: Ranks | None) -> dict[str, Any]:
    """Facts of a block of a track for its scaling: values at ranks, or means and squares.

    ``good`` are its samples, (n, c) of each piece, values or integers: those annotated as BAD are left out, flat ones
    are NaN. ``ranks`` are those of the only piece, where they were computed with those of other tracks.
    """
    if track.recipe.scaling == "none" or not sum(map(len, good)):
        return {}
    if track.recipe.scaling == "robust":
        if len(good) > 1:
            values, counts = summary(np.concatenate([values_of(X, track.digital) for X in good]), blocks)
        else:
            values, counts = ranks or ranks_of(good[0], track.digital, blocks)
        return {"values": packed(values), "counts": packed(counts)}
    batch = max(1, BATCH_BYTES // (4 * len(track.channels)))
    batches = (values_of(X[i : i + batch], track.digital) for X in good for i in range(0, len(X), batch))
    moments = combined([Moments.of(some[np.isfinite(some).all(axis=1)]) for some in batches])
    if not moments.count:
        return {}
    return {"rows": moments.count, "moments": packed(np.stack([moments.mean, moments.squares]))}


class Summaries:
    """The summaries of all blocks of a track."""

    def __init__(self) -> None:
        self.sketches = Sketches()
        self.moments: list[Moments] = []

    def add(self, facts: dict[str, Any]) -> None:
        """Those of the next block, from what `summary_of_block` returned."""
        if "values" in facts:
            self.sketches.add(unpacked(facts["values"]), unpacked(facts["counts"]))
        if "moments" in facts:
            self.moments.append(Moments(facts["rows"], *unpacked(facts["moments"])))

    def center_and_scale(self, track: WindowedTrack) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(c,) each, by the scaling in the recipe: the facts are those of the recipe's scaling."""
        if self.sketches.summaries:
            return robust_scaling(self.sketches.summaries)
        if self.moments:
            total = combined(self.moments)
            scale = np.sqrt(total.squares / total.count)
            return total.mean, np.where(scale > 0, scale, 1.0)
        return np.zeros(len(track.channels)), np.ones(len(track.channels))


def scaling_arrays(job: IngestJob, summaries: Mapping[str, Summaries]) -> dict[str, NDArray]:
    """The arrays of the stage `clock` that say how each view is scaled; ``summaries`` by the keys of tracks."""
    arrays: dict[str, NDArray] = {}
    for view in job.views:
        if job.scaling:  # so that new recordings are scaled as those of a model
            center, scale = (job.scaling[view.scaling(part)[1:]] for part in ("center", "scale"))
        else:
            each = [summaries[track.key].center_and_scale(track) for track in view.tracks]
            center, scale = (np.concatenate(parts) for parts in zip(*each, strict=True))
        arrays |= {view.scaling("center"): center, view.scaling("scale"): scale}
        if view.is_scaled_when_read:
            every = []
            for track in view.tracks:
                columns, digital = track.feature.columns(center[track.at], scale[track.at]), track.digital
                assert columns is not None
                if digital is not None and view.stored_as.kind != "f":
                    columns = of_integers(columns, digital.gain, digital.bias)
                every.append(columns)
            arrays[f"/columns/{view.name}"] = np.concatenate(every, axis=1)
    return arrays


def run(job: IngestJob, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Stages `pca` and `views`: write the blocks of the views that are not scaled whenever they are read."""
    if not job.scaled_later:
        return
    _run_pca(job, client, on_progress)
    more = array_of_view(job.inputs, np.dtype(np.float32), finished=True)
    arrays: dict[str, Any] = {
        f"/views/{view.name}": ((job.n, view.width), "float32", job.rows, more) for view in job.scaled_later
    }
    do_missing(compute, job, job.stage("views").prepare(arrays, says=f"{job.n} windows"), client, on_progress)


def compute(job: IngestJob, stage: Blocks, block: int) -> None:
    """One block of windows of every view that is scaled here; NaN where they are not valid."""
    first, last = job.bounds(block)
    parts: dict[str, tuple[int, NDArray]] = {}
    for view in job.scaled_later:
        valid, F = features(job, view, block)
        if not len(valid):
            continue
        if view.recipe.pca_components:
            mean, components = (job.stage("pca").read(view.scaling(name), 0) for name in ("mean", "components"))
            F = (F - mean) @ components
        whole = np.full((last - first, F.shape[1]), np.nan, np.float32)
        whole[valid] = F
        parts[f"/views/{view.name}"] = (first, whole)
    stage.write(block, parts, {})


def features(job: IngestJob, view: WindowedView, block: int) -> tuple[NDArray[np.int64], NDArray]:
    """The valid windows of a block, counted from its first, and their scaled features (rows, d)."""
    first, last = job.bounds(block)
    clock = job.stage("clock")
    rows = clock.read("/rows", 0)
    valid = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)] - first
    F = np.empty((len(valid), view.features), np.float32)
    if not len(valid):
        return valid, F
    unscaled = job.stage("drafts").read(view.drafts, block)
    center, scale = (clock.read(view.scaling(part), 0) for part in ("center", "scale"))
    batch = max(1, BATCH_BYTES // (4 * view.features))
    for some in (slice(i, i + batch) for i in range(0, len(valid), batch)):
        for track in view.tracks:
            drafts = unscaled[valid[some], track.columns]
            F[some, track.columns] = track.feature.scaled(drafts, center[track.at], scale[track.at])
    return valid, F


def _run_pca(job: IngestJob, client: Any, on_progress: OnProgress | None) -> None:
    """Principal components of the views whose recipe has them: their covariance is summed block by block."""
    views = [view for view in job.views if view.recipe.pca_components]
    if not views or not job.stage("pca").missing():
        return
    arrays: dict[str, NDArray] = {}
    for view in views:
        places = [view.scaling(name) for name in ("mean", "components", "variances")]
        found: Sequence[NDArray] = [job.scaling[place[1:]] for place in places if job.scaling]
        if not found:
            blocks = collect(_scatter, job, job.n_blocks, client, on_progress, (view,), name="pca")
            found = principal(blocks, view.width)
        arrays |= dict(zip(places, found, strict=True))
    write_at_once(job.stage("pca"), arrays, "principal components", {})


def _scatter(job: IngestJob, block: int, view: WindowedView) -> Moments:
    return Moments.of(features(job, view, block)[1], products=True)


def write_at_once(stage: Blocks, arrays: Mapping[str, NDArray], says: str, facts: dict[str, Any]) -> None:
    """Make and write all arrays of a stage of one block."""
    stage = stage.prepare({name: (X.shape, X.dtype, len(X)) for name, X in arrays.items()}, says=says)
    stage.write(0, {name: (0, X) for name, X in arrays.items()}, facts)

"""The one pass over the recordings: windows become drafts of features, faults are noted, channels summed up.

A channel's scale is known only after the last block; so features are drafts here (see `dlcca.recordings.features`).
Drafts that are finished column by column are written where the view is to be, and finished when they are read; the
others are written for the stage `views`.

Samples that a file holds as small whole numbers are read as such, and raw ones kept as such: their values are computed
when the view is read. No sample is read twice but for windows that overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, do_missing
from dlcca.errors import StaleStage
from dlcca.recordings import extract_windows, input_integrity
from dlcca.recordings.block_reader import Reads
from dlcca.recordings.channel_stats import summed_up
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.json_arrays import packed
from dlcca.storage.blocks import Stage
from dlcca.storage.views import Reason, array_of_view, blank


def stage_of(job: IngestJob) -> Stage:
    return job.stage("drafts", job.n_blocks)


def place_of(job: IngestJob, v: int) -> str:
    """The array of the drafts of a view: the view itself, if they can be finished whenever they are read."""
    return f"/views/{job.views[v].name}" if job.is_finished_when_read(v) else f"draft_{v}"


def run(job: IngestJob, client: Any = None, tell: Tell | None = None) -> None:
    """Read every block that was not read yet."""
    arrays: dict[str, Any] = {}
    for v, dims in enumerate(job.dims):
        more = array_of_view(job.inputs, job.kept(v), finished=False) if job.is_finished_when_read(v) else {}
        arrays[place_of(job, v)] = ((job.n, sum(dims)), job.kept(v), job.rows, more)
    stage = stage_of(job).prepare(arrays, says=f"{job.n} windows of {len(job.views)} views")
    _refuse_other_form(job, stage)
    confirm(job, begin=True)
    do_missing(compute, job, stage, client, tell)
    confirm(job, begin=True)  # a file may have changed on the way


def confirm(job: IngestJob, *, begin: bool = False) -> None:
    """Refuse files that have changed since the first block was read."""
    files = dict.fromkeys(piece.file for _v, _k, track in job.tracks for piece in track.pieces)
    paths = [path for file in files for path in (file.path, *file.open(job.opener).sidecars)]
    input_integrity.confirm_files(stage_of(job), list(dict.fromkeys(paths)), begin=begin)


def _refuse_other_form(job: IngestJob, stage: Stage) -> None:
    """An error if another dlcca has begun this, with other blocks or other numbers in them."""
    for v in range(len(job.views)):
        array = stage.array(place_of(job, v))
        if array.dtype != job.kept(v) or array.chunks[0] != min(job.rows, job.n):
            raise StaleStage(
                f"the views in {job.address} were begun by another version of dlcca, which divides or keeps them "
                "otherwise. Remove what is there and ingest again (dlcca run: --from ingest)."
            )


def compute(job: IngestJob, stage: Stage, block: int) -> None:
    """Drafts, reasons and summaries of one block of windows."""
    first, last = job.bounds(block)
    reads = Reads(job)
    for v, k, _track in job.tracks:
        for part in extract_windows.parts_of(job, v, k, first, last):
            reads.expect(part.piece, part.digital is not None, part.wish)
    facts: dict[str, Any] = {input_integrity.CHECKSUMS: []}  # none of files: they are compared by their sizes and times
    stage.write(block, _parts(job, reads, first, last, facts), facts)


def _parts(
    job: IngestJob, reads: Reads, first: int, last: int, facts: dict[str, Any]
) -> Iterator[tuple[str, tuple[int, NDArray]]]:
    """The drafts of one view after another; and the facts, which are complete when all views have been asked for."""
    reason, pieces = marked(job, first, last), []
    for v, view in enumerate(job.views):
        drafts = []
        for k, track in enumerate(view.tracks):
            found = extract_windows.found_in(job, reads, v, k, first, last)
            reason = worse(reason, found.reason)
            pieces.append(found.piece)
            facts[f"{v}_{k}"] = _facts(found, reads, view.recipe.scaling, len(track.channels), job.n_blocks)
            drafts.append(found.drafts)
        F = _side_by_side(drafts, job.dims[v], last - first, job.kept(v))
        if F is not None:
            yield place_of(job, v), (first, F)
    facts |= {"reason": packed(reason), "piece": packed(np.stack(pieces, axis=1))}


def _side_by_side(drafts: list[NDArray | None], dims: list[int], w: int, dtype: np.dtype) -> NDArray | None:
    """The drafts of all tracks of a view, (w, d); None if there are no samples in any."""
    if all(F is None for F in drafts):
        return None
    if len(drafts) == 1:
        return drafts[0]
    empty = (np.full((w, d), blank(dtype), dtype) if F is None else F for F, d in zip(drafts, dims, strict=True))
    return np.hstack(list(empty))


def worse(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The first reason that holds, of two."""
    return np.where((one == 0) | ((other != 0) & (other < one)), other, one)


def marked(job: IngestJob, first: int, last: int) -> NDArray[np.uint8]:
    """MARKED for the windows from ``first`` to ``last`` that touch a stretch marked BAD."""
    reason = np.zeros(last - first, np.uint8)
    for begin, end in job.bad:
        # Window t touches it if t * step < end and begin < t * step + window; an instant touches what holds it.
        low = int(np.floor((begin - job.window_s) / job.step_s + 1e-9)) + 1
        high = int(np.ceil(end / job.step_s - 1e-9)) - 1 if end > begin else int(np.floor(begin / job.step_s + 1e-9))
        reason[max(0, low - first) : max(0, high + 1 - first)] = Reason.MARKED
    return reason


def _facts(found: extract_windows.Found, reads: Reads, scaling: str, channels: int, blocks: int) -> dict[str, Any]:
    """What is kept of a block of a track besides its drafts."""
    largest, smallest = np.full((2, channels), np.nan, np.float32)
    for top, bottom in found.extremes:
        largest, smallest = np.fmax(largest, top), np.fmin(smallest, bottom)
    facts = {"suspects": found.suspects, "edges": found.edges, "extremes": packed(np.stack([largest, smallest]))}
    return facts | summed_up(found.good, reads, scaling, channels, blocks)

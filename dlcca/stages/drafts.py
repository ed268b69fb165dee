"""The one pass over the recordings: windows become drafts of features, faults are noted, channels summed up.

A channel's scale, and its largest value, are known only after the last block; so features are drafts here (see
`dlcca.numerics.features`), and runs at the largest value of a block are noted as suspects. Drafts that are finished
column by column are written where the view is to be, and finished when they are read; the others are written for the
stage `views`.

No sample is read twice but for windows that overlap. A run of equal values may go on in the next block: so each block
notes the runs at both of its ends, which `settling` joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics import clock, runs
from dlcca.numerics.moments import Moments, combined
from dlcca.numerics.sketch import RANKS, summary
from dlcca.recipes import ViewRecipe
from dlcca.stages.ingest_job import IngestJob
from dlcca.stages.packing import packed
from dlcca.stages.reads import Reads
from dlcca.stages.timeline import Piece, Track
from dlcca.stages.work import Tell, do_missing
from dlcca.stores.blocks import Stage
from dlcca.stores.views import Reason, array_of_view

#: A run of fewer samples than this is chance, whatever the rate.
LEAST_RUN = 8
#: Windows whose samples are not evenly spaced are copied, so many at a time.
BATCH_BYTES = 1 << 20
#: Types of channels that may well stay at one value: black and white are colours, and a trigger waits.
NOT_JUDGED = ("video", "stim")


def stage_of(job: IngestJob) -> Stage:
    return job.stage("drafts", job.n_blocks)


def place_of(job: IngestJob, v: int) -> str:
    """The array of the drafts of a view: the view itself, if they can be finished whenever they are read."""
    return f"/views/{job.views[v].name}" if job.is_finished_when_read(v) else f"draft_{v}"


def run(job: IngestJob, client: Any = None, tell: Tell | None = None) -> None:
    """Read every block that was not read yet."""
    arrays: dict[str, Any] = {}
    for v, dims in enumerate(job.dims):
        more = array_of_view(job.inputs, finished=False) if job.is_finished_when_read(v) else {}
        arrays[place_of(job, v)] = ((job.n, sum(dims)), "float32", job.rows, more)
    stage = stage_of(job).prepare(arrays, says=f"{job.n} windows of {len(job.views)} views")
    do_missing(compute, job, stage, client, tell)


@dataclass
class Found:
    """What a block of a track holds."""

    reason: NDArray[np.uint8]  # (w,)
    piece: NDArray[np.int32]  # (w,), -1 where there are no samples
    drafts: NDArray | None = None  # (w, d), NaN where there are no samples; None if there are none at all
    suspects: list[dict[str, Any]] = field(default_factory=list)  # runs of equal values
    edges: list[dict[str, Any]] = field(default_factory=list)  # runs at the ends of the block, for each piece
    extremes: list[NDArray] = field(default_factory=list)  # (2, c) for each piece: the largest and the smallest values
    samples: list[NDArray] = field(default_factory=list)  # that are good, each once, for the scale of the channels


def compute(job: IngestJob, stage: Stage, block: int) -> None:
    """Drafts, reasons and summaries of one block of windows."""
    first, last = job.bounds(block)
    reads = Reads(job)
    for _v, _k, track in job.tracks:
        for _number, piece in _touching(job, track, first, last):
            reads.expect(piece)
    facts: dict[str, Any] = {}
    stage.write(block, _parts(job, reads, first, last, facts), facts)


def _parts(
    job: IngestJob, reads: Reads, first: int, last: int, facts: dict[str, Any]
) -> Iterator[tuple[str, tuple[int, NDArray]]]:
    """The drafts of one view after another; and the facts, which are complete when all views have been asked for."""
    reason, pieces = marked(job, first, last), []
    for v, view in enumerate(job.views):
        drafts = []
        for k, track in enumerate(view.tracks):
            found = _track(job, reads, v, k, first, last)
            reason = worse(reason, found.reason)
            pieces.append(found.piece)
            facts[f"{v}_{k}"] = _facts(found, view.recipe.scaling, len(track.channels), job.n_blocks)
            drafts.append(found.drafts)
        F = _side_by_side(drafts, job.dims[v], last - first)
        if F is not None:
            yield place_of(job, v), (first, F)
    facts |= {"reason": packed(reason), "piece": packed(np.stack(pieces, axis=1))}


def _side_by_side(drafts: list[NDArray | None], dims: list[int], w: int) -> NDArray | None:
    """The drafts of all tracks of a view, (w, d); None if there are no samples in any."""
    if all(F is None for F in drafts):
        return None
    if len(drafts) == 1:
        return drafts[0]
    return np.hstack(
        [np.full((w, d), np.nan, np.float32) if F is None else F for F, d in zip(drafts, dims, strict=True)]
    )


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


def _track(job: IngestJob, reads: Reads, v: int, k: int, first: int, last: int) -> Found:
    w = last - first
    found = Found(reason=np.full(w, Reason.GAP, np.uint8), piece=np.full(w, -1, np.int32))
    for number, piece in _touching(job, job.views[v].tracks[k], first, last):
        _piece(Part(job, v, k, number, piece, first, last), reads, found)
    return found


def _touching(job: IngestJob, track: Track, first: int, last: int) -> Iterator[tuple[int, Piece]]:
    begin, end = first * job.step_s, max((last - 1) * job.step_s + job.window_s, last * job.step_s)
    for number, piece in enumerate(track.pieces):
        if piece.start_s < end + piece.period_s and piece.end_s > begin - piece.period_s:
            yield number, piece


@dataclass(frozen=True)
class Part:
    """One piece of a track, in one block of windows."""

    job: IngestJob
    v: int
    k: int
    number: int  # of the piece
    piece: Piece
    first: int  # window of the block
    last: int  # one after

    @property
    def track(self) -> Track:
        return self.job.views[self.v].tracks[self.k]

    @property
    def recipe(self) -> ViewRecipe:
        return self.job.views[self.v].recipe


def _piece(part: Part, reads: Reads, found: Found) -> None:
    """What one piece holds of a block of windows, put where it belongs in ``found``."""
    windows, spans = spans_of(part.job, part.track, part.piece, part.recipe, part.first, part.last)
    own = _own(part)
    low, high = (min(own[0], int(spans[0, 0])), max(own[1], int(spans[-1, 1]))) if len(windows) else own
    if high <= low:
        return
    X = reads.samples(part.piece, low, high)
    reason = np.zeros(len(windows), np.uint8)
    top, bottom = reads.extremes(part.piece, low, high)
    if not (np.isfinite(top).all() and np.isfinite(bottom).all()):  # what is no number shows in them
        finite = np.isfinite(X)
        X = np.where(finite, X, np.float32(np.nan))
        top, bottom = np.fmax.reduce(X, axis=0), np.fmin.reduce(X, axis=0)
        upto = np.concatenate([[0], np.cumsum(~finite.all(axis=1))])
        reason[upto[spans[:, 1] - low] > upto[spans[:, 0] - low]] = Reason.MISSING
    found.extremes.append(np.stack([top, bottom]))
    good = _suspect_runs(X, spans - low, part.recipe, part.track, windows, found)
    if len(windows):
        here = slice(int(windows[0]) - part.first, int(windows[-1]) + 1 - part.first)
        found.reason[here], found.piece[here] = reason, part.number
        _draft(part, X, low, windows, spans - low, found)
    if own[1] > own[0]:
        mine = slice(own[0] - low, own[1] - low)
        _note_edges(X[mine], own, part, found)
        found.samples.append(_unmarked(part.job, part.piece, good[mine], own[0]))


def spans_of(
    job: IngestJob, track: Track, piece: Piece, recipe: ViewRecipe, first: int, last: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Those of some windows that lie in a piece, which follow each other; and their samples, (w, 2): from, to."""
    between = recipe.resample == "linear"
    windows = np.arange(first, last)
    ends = clock.ends(windows, job.step_s, job.samples(track), track.rate, piece.start_s, piece.period_s)
    inside = clock.inside(ends, piece.n, between=between)
    return windows[inside], np.clip(_reach(ends[inside], between), 0, piece.n)


def _reach(ends: NDArray, between: bool) -> NDArray[np.int64]:
    """The samples that windows are made of, (w, 2): from, and up to but without."""
    if between:
        return np.stack([np.floor(ends[:, 0] + clock.SLACK), np.floor(ends[:, 1]) + 2], axis=1).astype(np.int64)
    return clock.nearest(ends) + np.array([0, 1])


def _own(part: Part) -> tuple[int, int]:
    """The samples of a piece that are a block's own: all from its first window to that of the next block."""
    job, piece, bounds = part.job, part.piece, np.array([part.first, part.last])
    at = clock.nearest(clock.ends(bounds, job.step_s, 1, part.track.rate, piece.start_s, piece.period_s)[:, 0])
    low = 0 if part.first == 0 else int(np.clip(at[0], 0, piece.n))
    return low, piece.n if part.last == job.n else int(np.clip(at[1], 0, piece.n))


def _draft(
    part: Part, X: NDArray, low: int, windows: NDArray[np.int64], spans: NDArray[np.int64], found: Found
) -> None:
    """Drafts of the windows in a piece, whose samples from ``low`` on are X; ``spans`` are their places in X."""
    job, piece, rate = part.job, part.piece, part.track.rate
    feature, s, w = job.features[part.v][part.k], job.samples(part.track), part.last - part.first
    between = part.recipe.resample == "linear"
    even = None if between else clock.strided(X, spans - np.array([0, 1]), s)
    if even is not None and len(windows) == w:
        found.drafts = feature.draft(even)
        return
    if found.drafts is None:
        found.drafts = np.full((w, job.dims[part.v][part.k]), np.nan, np.float32)
    out = found.drafts[windows[0] - part.first : windows[-1] + 1 - part.first]
    if even is not None:
        out[:] = feature.draft(even)
        return
    batch = max(1, BATCH_BYTES // (4 * s * len(part.track.channels)))
    for some in (slice(i, i + batch) for i in range(0, len(windows), batch)):
        places = clock.places(windows[some], job.step_s, s, rate, piece.start_s, piece.period_s) - low
        out[some] = feature.draft(clock.taken(X, places, between=between))


def least_runs(recipe: ViewRecipe, track: Track) -> tuple[int, int]:
    """Samples of a run that is flat, and of one that is saturated; 0 if it does not matter."""
    return tuple(max(LEAST_RUN, round(s * track.rate)) if s > 0 else 0 for s in (recipe.flat_s, recipe.saturated_s))  # type: ignore[return-value]


def judged(track: Track) -> NDArray[np.bool_]:
    """Which channels are judged by their values, (c,)."""
    return np.array([channel.kind not in NOT_JUDGED for channel in track.channels])


def _suspect_runs(
    X: NDArray, spans: NDArray, recipe: ViewRecipe, track: Track, windows: NDArray, found: Found
) -> NDArray:
    """Note flat runs and runs at the largest or smallest value of the block; X with NaN in flat runs."""
    flat, saturated = least_runs(recipe, track)
    least = min((samples for samples in (flat, saturated) if samples), default=0)
    if not least:
        return X
    good, looked_at = X, judged(track)
    for c in (c for c in runs.channels_with_runs(X, least).tolist() if looked_at[c]):
        x = X[:, c]
        top, bottom = np.fmax.reduce(x), np.fmin.reduce(x)
        kinds: dict[tuple[str, float], list[runs.Run]] = {}
        for run in runs.long_runs(x, least):
            value, length = float(x[run[0]]), run[1] - run[0]
            if flat and length >= flat:
                kinds.setdefault(("flat", value), []).append(run)
            if saturated and length >= saturated and value in (top, bottom):
                kinds.setdefault(("extreme", value), []).append(run)
        for (kind, value), held in kinds.items():
            if kind == "flat":
                good = good.copy() if good is X else good
                for begin, end in held:
                    good[begin:end, c] = np.nan
            touched = stretches_touched(held, spans, windows)
            if touched:
                found.suspects.append({"channel": c, "kind": kind, "value": value, "windows": touched})
    return good


def stretches_touched(held: list[runs.Run], spans: NDArray, windows: NDArray) -> list[list[int]]:
    """The windows that runs touch, as stretches (first, last) of their numbers."""
    hit = np.zeros(len(windows), bool)
    for begin, end in held:
        low = np.searchsorted(spans[:, 1], begin, side="right")  # the first window that ends after the run begins
        high = np.searchsorted(spans[:, 0], end, side="left")
        hit[low:high] = True
    at = windows[hit]
    if not len(at):
        return []
    cuts = np.flatnonzero(np.diff(at) > 1)
    return [[int(a), int(b)] for a, b in zip(at[np.r_[0, cuts + 1]], at[np.r_[cuts, len(at) - 1]], strict=True)]


def _note_edges(X: NDArray, own: tuple[int, int], part: Part, found: Found) -> None:
    """Note the runs at both ends of a block's own samples, as long as they may matter."""
    most = max(least_runs(part.recipe, part.track))
    if most:
        head, tail = runs.ends_of_runs(X, most)
        edges = {"values": packed(X[[0, -1]]), "lengths": packed(np.stack([head, tail]).astype(np.int32))}
        found.edges.append({"piece": part.number, "own": list(own), **edges})


def _unmarked(job: IngestJob, piece: Piece, X: NDArray, first: int) -> NDArray:
    """The samples that no BAD annotation covers; ``first`` is the number of the first."""
    kept = np.ones(len(X), bool)
    for begin, end in job.bad:
        low, high = ((t - piece.start_s) / piece.period_s - first for t in (begin, end))
        if high > 0 and low < len(X):
            kept[max(0, int(np.ceil(low))) : max(0, int(np.ceil(high)))] = False
    return X if kept.all() else X[kept]


def _facts(found: Found, scaling: str, channels: int, blocks: int) -> dict[str, Any]:
    """What is kept of a block of a track besides its drafts."""
    largest, smallest = np.full((2, channels), np.nan, np.float32)
    for top, bottom in found.extremes:
        largest, smallest = np.fmax(largest, top), np.fmin(smallest, bottom)
    facts = {"suspects": found.suspects, "edges": found.edges, "extremes": packed(np.stack([largest, smallest]))}
    return facts | _summed_up(found.samples, scaling, channels, blocks)


def _summed_up(samples: list[NDArray], scaling: str, channels: int, blocks: int) -> dict[str, Any]:
    """What the scale of the channels is made of: values at ranks, or means and squares."""
    X = samples[0] if len(samples) == 1 else np.concatenate([np.empty((0, channels), np.float32), *samples])
    if scaling == "robust" and len(X):
        values, counts = summary(X, blocks)
        return {"values": packed(values.reshape(RANKS, channels)), "counts": packed(counts)}
    if scaling == "standard" and len(X):
        batch = max(1, BATCH_BYTES // max(1, X[:1].nbytes))
        batches = (X[i : i + batch] for i in range(0, len(X), batch))
        finite = (some[np.isfinite(some).all(axis=1)] for some in batches)
        parts = [Moments.of(some) for some in finite if len(some)]
        if parts:
            moments = combined(parts)
            sums = np.stack([moments.mean, moments.squares])
            return {"rows": moments.count, "moments": packed(sums)}
    return {}

"""What one piece of a recording holds of a block of windows: drafts of features, faults, and samples that are good."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings import flat_and_clipped, window_clock
from dlcca.recordings.block_reader import Asked, Reads
from dlcca.recordings.channel_stats import Good, unmarked
from dlcca.recordings.features import Feature
from dlcca.recordings.formats.recording import Digital
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.timeline import Piece, Track
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.views import Reason, blank

#: Windows whose samples are not evenly spaced are copied, so many at a time.
BATCH_BYTES = 1 << 20


@dataclass
class Found:
    """What a block of a track holds."""

    reason: NDArray[np.uint8]  # (w,)
    piece: NDArray[np.int32]  # (w,), -1 where there are no samples
    drafts: NDArray | None = None  # (w, d), blank where there are no samples; None if there are none at all
    suspects: list[dict[str, Any]] = field(default_factory=list)  # runs of equal values
    edges: list[dict[str, Any]] = field(default_factory=list)  # runs at the ends of the block, for each piece
    extremes: list[NDArray] = field(default_factory=list)  # (2, c) for each piece: the largest and the smallest values
    good: list[Good] = field(default_factory=list)  # every sample once

    def put(self, part: Part, windows: NDArray[np.int64], reason: NDArray[np.uint8], drafts: NDArray) -> None:
        """What was found of some windows, which follow each other."""
        w, here = len(self.reason), slice(int(windows[0]) - part.first, int(windows[-1]) + 1 - part.first)
        self.reason[here], self.piece[here] = reason, part.number
        if len(windows) == w:
            self.drafts = drafts
            return
        if self.drafts is None:
            self.drafts = np.full((w, drafts.shape[1]), blank(drafts.dtype), drafts.dtype)
        self.drafts[here] = drafts


@dataclass(frozen=True)
class Held:
    """Samples that are held, and the windows that are made of them."""

    X: NDArray  # (n, c)
    low: int  # the number of the first
    windows: NDArray[np.int64]  # (w,)
    spans: NDArray[np.int64]  # (w, 2) from, to: places in X
    asked: Asked | None  # how they were read; None if they are not as they were read


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

    @property
    def digital(self) -> Digital | None:
        return self.job.digital[self.v][self.k]

    @property
    def gain(self) -> NDArray[np.float64] | None:
        return None if self.digital is None else self.digital.gain

    @property
    def feature(self) -> Feature:
        return self.job.features[self.v][self.k]

    @property
    def is_by_channel(self) -> bool:
        """Whether features are of one channel each: then those of several tracks can be found together."""
        return self.feature.width(2) == 2 * self.feature.width(1)

    @property
    def wish(self) -> Hashable:
        """What is found together with that of other tracks of the same wish."""
        return ("features", self.feature) if self.is_by_channel else (self.v, self.k)


def parts_of(job: IngestJob, v: int, k: int, first: int, last: int) -> Iterator[Part]:
    """The pieces of a track that have something of a block of windows."""
    begin, end = first * job.step_s, max((last - 1) * job.step_s + job.window_s, last * job.step_s)
    for number, piece in enumerate(job.views[v].tracks[k].pieces):
        if piece.start_s < end + piece.period_s and piece.end_s > begin - piece.period_s:
            yield Part(job, v, k, number, piece, first, last)


def found_in(job: IngestJob, reads: Reads, v: int, k: int, first: int, last: int) -> Found:
    """What a track holds of a block of windows."""
    w = last - first
    found = Found(reason=np.full(w, Reason.GAP, np.uint8), piece=np.full(w, -1, np.int32))
    for part in parts_of(job, v, k, first, last):
        _piece(part, reads, found)
    return found


def _piece(part: Part, reads: Reads, found: Found) -> None:
    """What one piece holds, put where it belongs in ``found``."""
    windows, spans = spans_of(part.job, part.track, part.piece, part.recipe, part.first, part.last)
    own = _own(part)
    low, high = (min(own[0], int(spans[0, 0])), max(own[1], int(spans[-1, 1]))) if len(windows) else own
    if high <= low:
        return
    asked = Asked(part.piece, low, high, part.digital is not None)
    held = Held(reads.samples(asked), low, windows, spans - low, asked)
    top, bottom = reads.together("extremes", flat_and_clipped.extremes, asked)
    reason = np.zeros(len(windows), np.uint8)
    if not (np.isfinite(top).all() and np.isfinite(bottom).all()):  # what is no number shows in them
        held, reason = _without_others(held)
        top, bottom = np.fmax.reduce(held.X, axis=0), np.fmin.reduce(held.X, axis=0)
    found.extremes.append(np.stack([top, bottom]))
    least = flat_and_clipped.least_run(part.recipe, part.track)
    (suspected,) = reads.together(("runs", least), partial(flat_and_clipped.may_have_runs, least=least), asked)
    suspects, good = flat_and_clipped.suspect_runs(
        held.X, suspected, part.digital, held.spans, windows, part.recipe, part.track
    )
    found.suspects += suspects
    if len(windows):
        found.put(part, windows, reason, _drafts(part, held, reads))
    if own[1] > own[0]:
        _note_own(part, held, good, own, found)


def _without_others(held: Held) -> tuple[Held, NDArray[np.uint8]]:
    """The samples with NaN for all that is not finite, and why windows that hold such are not valid."""
    finite = np.isfinite(held.X)
    upto = np.concatenate([[0], np.cumsum(~finite.all(axis=1))])
    touched = upto[held.spans[:, 1]] > upto[held.spans[:, 0]]
    X = np.where(finite, held.X, np.float32(np.nan))
    return replace(held, X=X, asked=None), np.where(touched, Reason.MISSING, Reason.VALID).astype(np.uint8)


def _note_own(part: Part, held: Held, good: NDArray, own: tuple[int, int], found: Found) -> None:
    """What is noted of a block's own samples: from, to; ``good`` are all of the block, without those that are flat."""
    mine = slice(own[0] - held.low, own[1] - held.low)
    edges = flat_and_clipped.edges(held.X[mine], part.digital, part.recipe, part.track)
    if edges is not None:
        found.edges.append({"piece": part.number, "own": list(own), **edges})
    kept = unmarked(part.job, part.piece, good[mine], own[0])
    as_read = held.asked is not None and good is held.X and len(kept) == own[1] - own[0]
    asked = Asked(part.piece, *own, part.digital is not None) if as_read else None
    found.good.append(Good(kept, part.digital, asked))


def _drafts(part: Part, held: Held, reads: Reads) -> NDArray:
    """Drafts (w, d) of the windows that lie in a piece."""
    s, between = part.job.samples(part.track), part.recipe.resample == "linear"
    ends = held.spans - np.array([0, 1])
    even = None if between else window_clock.strided(held.X, ends, s)
    if even is None:
        return _drafts_of_copies(part, held, s, between)
    if held.asked is None or not part.is_by_channel:
        return part.feature.draft(even, part.gain)
    finds = partial(_drafts_by_channel, feature=part.feature, ends=ends, s=s)
    (F,) = reads.together("drafts", finds, held.asked, part.wish)
    return F.reshape(len(F), -1)


def _drafts_by_channel(
    X: NDArray, digital: Digital | None, feature: Feature, ends: NDArray[np.int64], s: int
) -> tuple[NDArray]:
    """Drafts (w, d / c, c) of evenly spaced windows of samples X (n, c)."""
    even = window_clock.strided(X, ends, s)
    assert even is not None
    return (feature.draft(even, None if digital is None else digital.gain).reshape(len(ends), -1, X.shape[1]),)


def _drafts_of_copies(part: Part, held: Held, s: int, between: bool) -> NDArray:
    """Drafts (w, d) of windows whose samples are not evenly spaced, or lie between samples."""
    job, piece = part.job, part.piece
    F = np.empty((len(held.windows), job.dims[part.v][part.k]), job.kept(part.v))
    batch = max(1, BATCH_BYTES // (4 * s * held.X.shape[1]))
    for some in (slice(i, i + batch) for i in range(0, len(F), batch)):
        at = window_clock.places(held.windows[some], job.step_s, s, part.track.rate, piece.start_s, piece.period_s)
        F[some] = part.feature.draft(window_clock.taken(held.X, at - held.low, between=between), part.gain)
    return F


def spans_of(
    job: IngestJob, track: Track, piece: Piece, recipe: ViewRecipe, first: int, last: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Those of some windows that lie in a piece, which follow each other; and their samples, (w, 2): from, to."""
    between = recipe.resample == "linear"
    windows = np.arange(first, last)
    ends = window_clock.ends(windows, job.step_s, job.samples(track), track.rate, piece.start_s, piece.period_s)
    inside = window_clock.inside(ends, piece.n, between=between)
    return windows[inside], np.clip(_reach(ends[inside], between), 0, piece.n)


def _reach(ends: NDArray, between: bool) -> NDArray[np.int64]:
    """The samples that windows are made of, (w, 2): from, and up to but without."""
    if between:
        return np.stack([np.floor(ends[:, 0] + window_clock.SLACK), np.floor(ends[:, 1]) + 2], axis=1).astype(np.int64)
    return window_clock.nearest(ends) + np.array([0, 1])


def _own(part: Part) -> tuple[int, int]:
    """The samples of a piece that are a block's own: all from its first window to that of the next block."""
    job, piece, bounds = part.job, part.piece, np.array([part.first, part.last])
    at = window_clock.nearest(
        window_clock.ends(bounds, job.step_s, 1, part.track.rate, piece.start_s, piece.period_s)[:, 0]
    )
    low = 0 if part.first == 0 else int(np.clip(at[0], 0, piece.n))
    return low, piece.n if part.last == job.n else int(np.clip(at[1], 0, piece.n))

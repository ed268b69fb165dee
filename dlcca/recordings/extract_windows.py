"""Stage `drafts`, the one pass over the recordings: read the samples of a block, compute features and facts, write.

The scale of a channel is known only after the last block, so features are written unscaled (see
`dlcca.recordings.features`). No sample is read twice, except where windows of two blocks overlap. Samples that a file
stores as integers are read as integers, and raw ones are written as such.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import OnProgress, do_missing
from dlcca.errors import DataError, DlccaError, StaleStage
from dlcca.recordings import input_integrity, validity, windows
from dlcca.recordings.features import Feature
from dlcca.recordings.formats.recording import Digital, Signal
from dlcca.recordings.ingest_job import IngestJob, packed
from dlcca.recordings.scaling import GoodSamples, Ranks, ranks_of, summary_of_block
from dlcca.recordings.timeline import Piece, Track
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.blocks import Blocks
from dlcca.storage.views import Reason, array_of_view, blank

#: Windows whose samples are not evenly spaced are copied, so many bytes at a time.
BATCH_BYTES = 1 << 20


def run(job: IngestJob, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Compute every block that is not finished."""
    arrays: dict[str, Any] = {}
    for v, dims in enumerate(job.dims):
        more = array_of_view(job.inputs, job.stored_as(v), finished=False) if job.is_scaled_when_read(v) else {}
        arrays[job.place_of_drafts(v)] = ((job.n, sum(dims)), job.stored_as(v), job.rows, more)
    stage = job.stage("drafts").prepare(arrays, says=f"{job.n} windows of {len(job.views)} views")
    _refuse_other_form(job, stage)
    confirm(job, begin=True)
    do_missing(compute, job, stage, client, on_progress)
    confirm(job, begin=True)  # a file may have changed in the meantime


def confirm(job: IngestJob, *, begin: bool = False) -> None:
    """Refuse files that have changed since the first block was read."""
    files = dict.fromkeys(piece.file for _v, _k, track in job.tracks for piece in track.pieces)
    paths = [path for file in files for path in (file.path, *file.open(job.opener).sidecars)]
    input_integrity.confirm_files(job.stage("drafts"), list(dict.fromkeys(paths)), begin=begin)


def _refuse_other_form(job: IngestJob, stage: Blocks) -> None:
    """An error if another version of dlcca began this, with blocks of another size or dtype."""
    for v in range(len(job.views)):
        array = stage.array(job.place_of_drafts(v))
        if array.dtype != job.stored_as(v) or array.chunks[0] != min(job.rows, job.n):
            raise StaleStage(
                f"the views in {job.address} were begun by another version of dlcca, with blocks of another size or "
                "dtype. Remove them and ingest again (dlcca run: --from ingest)."
            )


def compute(job: IngestJob, stage: Blocks, block: int) -> None:
    """Read, compute and write one block of windows."""
    first, last = job.bounds(block)
    tracks: dict[tuple[int, int], list[Extracted]] = {(v, k): [] for v, k, _ in job.tracks}
    for samples in read(job, first, last):
        for part in samples.parts:
            tracks[part.v, part.k].append(extract(job, samples, part))
    reason = validity.marked(job, first, last)
    pieces = np.full((last - first, len(tracks)), -1, np.int32)  # the piece of each window; -1 without samples
    facts: dict[str, Any] = {input_integrity.CHECKSUMS: []}  # of arrays; files are compared by their sizes and times
    for at, ((v, k), extracted) in enumerate(tracks.items()):
        extracted.sort(key=lambda one: one.part.number)
        of_track = np.full(last - first, Reason.GAP, np.uint8)
        for one in extracted:
            of_track[one.part.rows], pieces[one.part.rows, at] = one.reason, one.part.number
        reason = validity.worse(reason, of_track)
        facts[f"{v}_{k}"] = _facts(job, v, k, extracted)
    parts: dict[str, tuple[int, NDArray]] = {}
    for v in range(len(job.views)):
        F = _side_by_side(job, v, last - first, [one for (u, _), some in tracks.items() if u == v for one in some])
        if F is not None:
            parts[job.place_of_drafts(v)] = (first, F)
    stage.write(block, parts, facts | {"reason": packed(reason), "piece": packed(pieces)})


def _side_by_side(job: IngestJob, v: int, w: int, extracted: Sequence[Extracted]) -> NDArray | None:
    """The features of all tracks of a view, (w, d), blank where there are no samples; None if there are none at all."""
    computed = [(one.part, one.features) for one in extracted if one.features is not None]
    shape, dtype = (w, sum(job.dims[v])), job.stored_as(v)
    if not computed or computed[0][1].shape == shape:
        return computed[0][1] if computed else None
    whole = np.full(shape, blank(dtype), dtype)
    edges = np.cumsum([0, *job.dims[v]])
    for part, F in computed:
        whole[part.rows, edges[part.k] : edges[part.k + 1]] = F
    return whole


def _facts(job: IngestJob, v: int, k: int, extracted: Sequence[Extracted]) -> dict[str, Any]:
    """What later stages need of a track besides the features."""
    channels = len(job.views[v].tracks[k].channels)
    largest, smallest = np.full((2, channels), np.nan, np.float32)
    for one in extracted:
        largest, smallest = np.fmax(largest, one.extremes[0]), np.fmin(smallest, one.extremes[1])
    good = [one.good for one in extracted if one.good is not None]
    return {
        "suspects": [suspect for one in extracted for suspect in one.suspects],
        "edges": [{"piece": one.part.number, "own": list(one.part.own), **one.edges} for one in extracted if one.edges],
        "extremes": packed(np.stack([largest, smallest])),
        **summary_of_block(good, job.views[v].recipe.scaling, channels, job.n_blocks),
    }


# Reading.


@dataclass(frozen=True, eq=False)
class Part:
    """One piece of a track in a block: its windows, and the samples that they are made of."""

    v: int
    k: int
    track: Track
    recipe: ViewRecipe
    feature: Feature
    digital: Digital | None  # None if values are read
    number: int  # of the piece
    piece: Piece
    windows: NDArray[np.int64]  # (w,), consecutive
    spans: NDArray[np.int64]  # (w, 2) samples of the piece: from, to
    own: tuple[int, int]  # samples that belong to this block and to no other: from, to
    first: int  # window of the block

    @property
    def rows(self) -> slice:
        """Where its windows are among those of the block."""
        begin = int(self.windows[0]) - self.first if len(self.windows) else 0
        return slice(begin, begin + len(self.windows))

    @property
    def low(self) -> int:
        return min(self.own[0], int(self.spans[0, 0])) if len(self.spans) else self.own[0]

    @property
    def high(self) -> int:
        return max(self.own[1], int(self.spans[-1, 1])) if len(self.spans) else self.own[1]

    @property
    def between(self) -> bool:
        """Whether values are interpolated between samples."""
        return self.recipe.resample == "linear"

    @property
    def is_by_channel(self) -> bool:
        """Whether each feature is of one channel: then those of several tracks can be computed together."""
        return self.feature.width(2) == 2 * self.feature.width(1)


def parts_of(job: IngestJob, first: int, last: int) -> Iterator[Part]:
    """The pieces of all tracks that have samples of the windows first to last (not included)."""
    begin, end = first * job.step_s, max((last - 1) * job.step_s + job.window_s, last * job.step_s)
    for v, k, track in job.tracks:
        recipe, feature, digital = job.views[v].recipe, job.features[v][k], job.digital[v][k]
        for number, piece in enumerate(track.pieces):
            if not (piece.start_s < end + piece.period_s and piece.end_s > begin - piece.period_s):
                continue
            here, spans = windows.spans_of(
                np.arange(first, last), job.step_s, job.window_s, track.rate, piece, between=recipe.resample == "linear"
            )
            own = _own(job, track, piece, first, last)
            part = Part(v, k, track, recipe, feature, digital, number, piece, here, spans, own, first)
            if part.high > part.low:
                yield part


def _own(job: IngestJob, track: Track, piece: Piece, first: int, last: int) -> tuple[int, int]:
    """The samples of a piece from the first window of a block to that of the next one."""
    at = windows.nearest(
        windows.ends(np.array([first, last]), job.step_s, 1, track.rate, piece.start_s, piece.period_s)[:, 0]
    )
    low = 0 if first == 0 else int(np.clip(at[0], 0, piece.n))
    return low, piece.n if last == job.n else int(np.clip(at[1], 0, piece.n))


def read(job: IngestJob, first: int, last: int) -> Iterator[Samples]:
    """The samples of a block, one signal of a file after another, each for all tracks that have channels of it."""
    signals: dict[Hashable, list[Part]] = {}
    for part in parts_of(job, first, last):
        signals.setdefault((part.piece.file, part.piece.signal, part.digital is not None), []).append(part)
    for parts in signals.values():
        yield Samples(job, parts)


class Samples:
    """Samples of one signal in a block, of the channels of all ``parts``.

    What is computed channel by channel is computed for all channels at once, which takes little longer than for few,
    and kept for the other parts.
    """

    def __init__(self, job: IngestJob, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.low, self.high = min(part.low for part in parts), max(part.high for part in parts)
        self.columns = list(dict.fromkeys(column for part in parts for column in part.piece.columns))
        file, as_integers = parts[0].piece.file, parts[0].digital is not None
        signal = file.open(job.opener).signals[parts[0].piece.signal]
        self.digital = signal.digital.of(self.columns) if as_integers and signal.digital is not None else None
        self.X = _read(file.path, signal, self.low, self.high, self.columns, as_integers=as_integers)
        self._computed: dict[Hashable, Any] = {}

    def of(self, part: Part, first: int, last: int) -> NDArray:
        """Samples first to last (not included) of the channels of a part."""
        return self.X[first - self.low : last - self.low, _places(part.piece.columns, self.columns)]

    def extremes(self, part: Part) -> tuple[NDArray, NDArray]:
        """The largest and the smallest value of each channel of a part, (c,) each."""
        top, bottom = self._once("extremes", lambda: validity.extremes(self.X, self.digital))
        here = _places(part.piece.columns, self.columns)
        return top[here], bottom[here]

    def may_have_runs(self, part: Part) -> NDArray[np.bool_]:
        """Which channels of a part may have a run of equal samples that matters, (c,)."""
        least = validity.least_run(part.recipe, part.track)
        if not least:
            return np.zeros(len(part.piece.columns), bool)
        found = self._once(("runs", least), lambda: validity.channels_with_runs(self.X, least))
        return np.isin(np.arange(len(self.columns)), found)[_places(part.piece.columns, self.columns)]

    def ranks(self, part: Part, blocks: int) -> Ranks:
        """`ranks_of` the own samples of a part."""
        own = slice(part.own[0] - self.low, part.own[1] - self.low)
        values, counts = self._once(("ranks", part.own), lambda: ranks_of(self.X[own], self.digital, blocks))
        here = _places(part.piece.columns, self.columns)
        return values[:, here], counts[here]

    def features(self, part: Part, ends: NDArray[np.int64], s: int) -> NDArray:
        """Unscaled features (w, d) of evenly spaced windows of s samples, each of one channel."""
        same = [other for other in self.parts if other.feature == part.feature and not other.between]
        columns = list(dict.fromkeys(column for other in same for column in other.piece.columns))
        F = self._once(("features", part.feature), lambda: self._features(part.feature, columns, ends, s))
        return F[..., _places(part.piece.columns, columns)].reshape(len(F), -1)

    def _features(self, feature: Feature, columns: list[int], ends: NDArray[np.int64], s: int) -> NDArray:
        """(w, d / c, c) of some columns."""
        here = _places(columns, self.columns)
        even = windows.strided(self.X[:, here], ends, s)
        assert even is not None
        gain = None if self.digital is None else self.digital.gain[here]
        return feature.unscaled(even, gain).reshape(len(ends), -1, len(columns))

    def _once(self, key: Hashable, computed: Callable[[], Any]) -> Any:
        if key not in self._computed:
            self._computed[key] = computed()
        return self._computed[key]


def _places(some: Sequence[int], columns: list[int]) -> slice | list[int]:
    """Where some columns are among others; a slice where possible, which copies nothing."""
    places = {column: place for place, column in enumerate(columns)}
    at = [places[column] for column in some]
    begin, end = at[0], at[-1] + 1
    return slice(begin, end) if at == list(range(begin, end)) else at


def _read(path: str, signal: Signal, low: int, high: int, columns: list[int], *, as_integers: bool) -> NDArray:
    """Samples (high - low, c): float32, or integers as they are in the file."""
    try:
        X = (signal.read_digital if as_integers else signal.read_single)(low, high, columns)
    except (DlccaError, OSError):
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read in samples {low} to {high - 1}: {error}") from error
    if X.shape != (high - low, len(columns)):
        raise DataError(
            f"{path} returned {X.shape} for samples {low} to {high - 1} of {len(columns)} channels; is it shorter than "
            "its header says?"
        )
    return X


# Computing.


@dataclass(frozen=True)
class Extracted:
    """What was computed of a part."""

    part: Part
    reason: NDArray[np.uint8]  # (w,)
    features: NDArray | None  # (w, d), unscaled; None if it has no windows
    extremes: NDArray  # (2, c): the largest and the smallest values
    suspects: list[dict[str, Any]]  # runs of equal values
    edges: dict[str, Any] | None  # runs at both ends of its own samples
    good: GoodSamples | None  # its own samples


def extract(job: IngestJob, samples: Samples, part: Part) -> Extracted:
    """Compute what one part of a block holds."""
    X = samples.of(part, part.low, part.high)
    spans, reason = part.spans - part.low, np.zeros(len(part.windows), np.uint8)
    top, bottom = samples.extremes(part)
    is_finite = bool(np.isfinite(top).all() and np.isfinite(bottom).all())
    if not is_finite:
        X, reason = _without_missing(X, spans)
        top, bottom = np.fmax.reduce(X, axis=0), np.fmin.reduce(X, axis=0)
    overlapping, their_spans = _overlapping(job, part)
    suspects, good = validity.suspect_runs(
        X, samples.may_have_runs(part), part.digital, their_spans - part.low, overlapping, part.recipe, part.track
    )
    features = _features(job, samples if is_finite else None, part, X) if len(part.windows) else None
    edges, kept = None, None
    if part.own[1] > part.own[0]:
        own = slice(part.own[0] - part.low, part.own[1] - part.low)
        edges = validity.edges(X[own], part.digital, part.recipe, part.track)
        unmarked = _unmarked(job, part, good[own])
        is_as_read = is_finite and good is X and len(unmarked) == part.own[1] - part.own[0]
        ranks = partial(samples.ranks, part) if is_as_read else partial(ranks_of, unmarked, part.digital)
        kept = GoodSamples(unmarked, part.digital, partial(ranks, blocks=job.n_blocks))
    return Extracted(part, reason, features, np.stack([top, bottom]), suspects, edges, kept)


def _overlapping(job: IngestJob, part: Part) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The windows that overlap a part and their samples: its own, and those of earlier blocks that reach into it.

    An earlier block may see too little of a run that begins in its last windows to find it.
    """
    before = np.arange(max(0, part.first - int(np.ceil(job.window_s / job.step_s)) - 1), part.first)
    earlier, spans = windows.spans_of(
        before, job.step_s, job.window_s, part.track.rate, part.piece, between=part.between
    )
    return np.concatenate([earlier, part.windows]), np.concatenate([spans, part.spans])


def _without_missing(X: NDArray, spans: NDArray[np.int64]) -> tuple[NDArray, NDArray[np.uint8]]:
    """The samples with NaN for all that is not finite, and MISSING for the windows that hold such."""
    finite = np.isfinite(X)
    upto = np.concatenate([[0], np.cumsum(~finite.all(axis=1))])
    touched = upto[spans[:, 1]] > upto[spans[:, 0]]
    return np.where(finite, X, np.float32(np.nan)), np.where(touched, Reason.MISSING, Reason.VALID).astype(np.uint8)


def _unmarked(job: IngestJob, part: Part, X: NDArray) -> NDArray:
    """Those of a part's own samples X that no BAD annotation covers."""
    kept = np.ones(len(X), bool)
    for begin, end in job.bad:
        low, high = ((t - part.piece.start_s) / part.piece.period_s - part.own[0] for t in (begin, end))
        if high > 0 and low < len(X):
            kept[max(0, int(np.ceil(low))) : max(0, int(np.ceil(high)))] = False
    return X if kept.all() else X[kept]


def _features(job: IngestJob, samples: Samples | None, part: Part, X: NDArray) -> NDArray:
    """Unscaled features (w, d) of the windows of a part, with samples X; ``samples`` are None if X is not as read."""
    s, gain = job.samples(part.track), None if part.digital is None else part.digital.gain
    ends = part.spans - np.array([0, 1])
    even = None if part.between else windows.strided(X, ends - part.low, s)
    if even is not None and samples is not None and part.is_by_channel:
        return samples.features(part, ends - samples.low, s)
    if even is not None:
        return part.feature.unscaled(even, gain)
    F = np.empty((len(part.windows), job.dims[part.v][part.k]), job.stored_as(part.v))
    batch = max(1, BATCH_BYTES // (4 * s * X.shape[1]))
    for some in (slice(i, i + batch) for i in range(0, len(F), batch)):
        at = windows.positions(
            part.windows[some], job.step_s, s, part.track.rate, part.piece.start_s, part.piece.period_s
        )
        F[some] = part.feature.unscaled(windows.taken(X, at - part.low, between=part.between), gain)
    return F

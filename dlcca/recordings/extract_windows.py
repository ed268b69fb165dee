"""Stage `drafts`, the one pass over the recordings: read the samples of a block, compute features and facts, write.

The scale of a channel is known only after the last block, so features are written unscaled (see
`dlcca.recordings.features`). No sample is read twice, except where windows of two blocks overlap. Samples that a file
stores as integers are read as integers, and raw ones are written as such.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import OnProgress, do_missing
from dlcca.errors import DataError, DlccaError, StaleStage
from dlcca.recordings import input_integrity, validity, windows
from dlcca.recordings.formats.metadata import grouped
from dlcca.recordings.formats.recording import Signal
from dlcca.recordings.ingest_job import IngestJob, WindowedTrack, packed
from dlcca.recordings.scaling import Ranks, ranks_of, summary_of_block
from dlcca.storage.blocks import Blocks
from dlcca.storage.views import Reason, array_of_view, blank

#: Windows whose samples are not evenly spaced are copied, so many bytes at a time.
BATCH_BYTES = 1 << 20

#: Places among the windows of a block and among the columns of a view, and the features there.
Features = tuple[tuple[slice, slice], NDArray]


def run(job: IngestJob, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Compute every block that is not finished."""
    arrays: dict[str, Any] = {}
    for view in job.views:
        more = array_of_view(job.inputs, view.stored_as, finished=False) if view.is_scaled_when_read else {}
        arrays[view.drafts] = ((job.n, view.features), view.stored_as, job.rows, more)
    stage = job.stage("drafts").prepare(arrays, says=f"{job.n} windows of {len(job.views)} views")
    for view in job.views:
        array = stage.array(view.drafts)
        if array.dtype != view.stored_as or array.chunks[0] != min(job.rows, job.n):
            raise StaleStage(
                f"the views in {job.address} were begun by another version of dlcca, with blocks of another size or "
                "dtype. Remove them and ingest again (dlcca run: --from ingest)."
            )
    confirm(job, begin=True)
    do_missing(compute, job, stage, client, on_progress)
    confirm(job, begin=True)  # a file may have changed in the meantime


def confirm(job: IngestJob, *, begin: bool = False) -> None:
    """Refuse files that have changed since the first block was read."""
    files = dict.fromkeys(piece.file for track in job.tracks for piece in track.pieces)
    paths = dict.fromkeys(path for file in files for path in (file.path, *file.recording.sidecars))
    input_integrity.confirm_files(job.stage("drafts"), list(paths), begin=begin)


def compute(job: IngestJob, stage: Blocks, block: int) -> None:
    """Read, compute and write one block of windows."""
    first, last = job.bounds(block)
    parts = {track.key: parts_of(job, track, first, last) for track in job.tracks}
    signals = grouped((part for of_track in parts.values() for part in of_track), lambda part: part.signal)
    samples = {of_signal[0].signal: Samples(job, of_signal) for of_signal in signals}
    reason, pieces = validity.marked(job, first, last), []
    facts: dict[str, Any] = {input_integrity.CHECKSUMS: []}  # of arrays; files are compared by their sizes and times
    arrays: dict[str, tuple[int, NDArray]] = {}
    for view in job.views:
        features: list[Features] = []
        for track in view.tracks:
            of_track, piece, computed, facts[track.key] = _extract(job, track, parts[track.key], samples, last - first)
            reason = validity.worse(reason, of_track)
            pieces.append(piece)
            features += computed
        if features:
            F, shape = features[0][1], (last - first, view.features)
            if F.shape != shape:  # several tracks or pieces, or windows without samples
                F = np.full(shape, blank(view.stored_as), view.stored_as)
                for place, some in features:
                    F[place] = some
            arrays[view.drafts] = (first, F)
    stage.write(block, arrays, facts | {"reason": packed(reason), "piece": packed(np.stack(pieces, axis=1))})


def _extract(
    job: IngestJob, track: WindowedTrack, parts: Sequence[Part], samples: Mapping[Hashable, Samples], n: int
) -> tuple[NDArray[np.uint8], NDArray[np.int32], list[Features], dict[str, Any]]:
    """Of a track in a block of n windows: why windows are not valid (n,), their pieces (n,), features, and facts."""
    reason = np.full(n, Reason.GAP, np.uint8)
    pieces = np.full(n, -1, np.int32)  # -1 without samples
    extremes = np.full((2, len(track.channels)), np.nan, np.float32)
    features: list[Features] = []
    facts: dict[str, Any] = {"suspects": [], "edges": []}
    good: list[NDArray] = []
    ranks: Ranks | None = None
    for part in parts:
        read, own = samples[part.signal], slice(part.own[0] - part.low, part.own[1] - part.low)
        at = _places(part.piece.columns, read.columns)
        X, top_bottom = read.X[part.low - read.low : part.high - read.low, at], read.extremes[:, at]
        reason[part.rows], pieces[part.rows] = Reason.VALID, part.number
        is_finite = bool(np.isfinite(top_bottom).all())
        if not is_finite:  # NaN for all such, and MISSING for the windows that hold one
            finite, spans = np.isfinite(X), part.spans - part.low
            upto = np.concatenate([[0], np.cumsum(~finite.all(axis=1))])
            reason[part.rows] = np.where(upto[spans[:, 1]] > upto[spans[:, 0]], Reason.MISSING, Reason.VALID)
            X = np.where(finite, X, np.float32(np.nan))
            top_bottom = np.stack([np.fmax.reduce(X, axis=0), np.fmin.reduce(X, axis=0)])
        extremes = np.stack([np.fmax(extremes[0], top_bottom[0]), np.fmin(extremes[1], top_bottom[1])])
        found, steady = validity.suspect_runs(X, read.may_have_runs(part), track, part.number, part.low)
        facts["suspects"] += found
        if len(part.windows):
            features.append(((part.rows, track.columns), _features(job, read if is_finite else None, part, X)))
        if part.own[1] > part.own[0]:
            if any(validity.least_runs(track)):
                facts["edges"].append({"piece": part.number, "own": list(part.own), **validity.edges(X[own], track)})
            unmarked = _unmarked(job, part, steady[own])
            is_as_read = is_finite and steady is X and len(unmarked) == part.own[1] - part.own[0]
            good.append(unmarked)
            if is_as_read and len(parts) == 1 and track.recipe.scaling == "robust":
                ranks = read.ranks(part, job.n_blocks)
    facts |= {"extremes": packed(extremes), **summary_of_block(track, good, job.n_blocks, ranks)}
    return reason, pieces, features, facts


def _unmarked(job: IngestJob, part: Part, X: NDArray) -> NDArray:
    """Those of a part's own samples X that no BAD annotation covers."""
    kept = np.ones(len(X), bool)
    for begin, end in job.bad:
        low, high = ((t - part.piece.start_s) / part.piece.period_s - part.own[0] for t in (begin, end))
        if high > 0 and low < len(X):
            kept[max(0, int(np.ceil(low))) : max(0, int(np.ceil(high)))] = False
    return X if kept.all() else X[kept]


def _features(job: IngestJob, read: Samples | None, part: Part, X: NDArray) -> NDArray:
    """Unscaled features (w, d) of the windows of a part, with samples X; ``read`` is None if X is not as read."""
    track, piece, s = part.track, part.piece, part.track.samples
    gain = None if track.digital is None else track.digital.gain
    ends = part.spans - np.array([0, 1])
    even = None if track.between else windows.strided(X, ends - part.low, s)
    if even is not None:
        is_by_channel = track.feature.width(2) == 2 * track.feature.width(1)
        return read.features(part, ends) if read is not None and is_by_channel else track.feature.unscaled(even, gain)
    batch, computed = max(1, BATCH_BYTES // (4 * s * X.shape[1])), []
    for i in range(0, len(ends), batch):
        some = part.windows[i : i + batch]
        at = windows.positions(some, job.step_s, np.arange(s), track.rate, piece.start_s, piece.period_s)
        computed.append(track.feature.unscaled(windows.taken(X, at - part.low, between=track.between), gain))
    return np.concatenate(computed)


# Reading.


class Part:
    """One piece of a track in a block (windows first to last): its windows, and the samples that they are made of."""

    def __init__(self, job: IngestJob, track: WindowedTrack, number: int, first: int, last: int) -> None:
        self.track, self.number, self.piece = track, number, track.pieces[number]
        piece = self.piece
        self.signal: Hashable = piece.file, piece.signal, track.digital is not None  # what is read together
        self.windows, self.spans = job.spans(track, number, first, last)  # (w,), and their samples (w, 2): from, to
        row = int(self.windows[0]) - first if len(self.windows) else 0
        self.rows = slice(row, row + len(self.windows))  # where its windows are among those of the block
        limits = np.array([first, last])
        at = windows.positions(limits, job.step_s, [0], track.rate, piece.start_s, piece.period_s)[:, 0]
        begins, after = windows.nearest(at).clip(0, piece.n).tolist()  # here, and in the next block
        # Samples that belong to this block and to no other, and those that are read: from, to.
        self.own = 0 if first == 0 else begins, piece.n if last == job.n else after
        self.low = min([self.own[0], *self.spans[:1, 0].tolist()])
        self.high = max([self.own[1], *self.spans[-1:, 1].tolist()])


def parts_of(job: IngestJob, track: WindowedTrack, first: int, last: int) -> list[Part]:
    """The pieces of a track that have samples of the windows first to last (not included)."""
    begin, end = first * job.step_s, max((last - 1) * job.step_s + job.window_s, last * job.step_s)
    here = [p.start_s < end + p.period_s and p.end_s > begin - p.period_s for p in track.pieces]
    parts = [Part(job, track, number, first, last) for number in np.flatnonzero(here).tolist()]
    return [part for part in parts if part.high > part.low]


class Samples:
    """Samples of one signal in a block, of the channels of all ``parts``.

    What is computed channel by channel is computed for all channels at once, which takes little longer than for few,
    and kept for the other parts.
    """

    def __init__(self, job: IngestJob, parts: Sequence[Part]) -> None:
        piece, as_integers = parts[0].piece, parts[0].track.digital is not None
        self.parts = parts
        self.low, high = min(part.low for part in parts), max(part.high for part in parts)
        self.columns = list(dict.fromkeys(column for part in parts for column in part.piece.columns))
        signal = piece.file.recording.signals[piece.signal]
        self.digital = signal.digital.of(self.columns) if as_integers and signal.digital is not None else None
        self.X = _read(piece.file.path, signal, self.low, high, self.columns, as_integers=as_integers)
        self.extremes = np.stack(validity.extremes(self.X, self.digital))  # the largest and the smallest values, (2, c)
        self._computed: dict[Hashable, Any] = {}

    def may_have_runs(self, part: Part) -> NDArray[np.bool_]:
        """Which channels of a part may have a run of equal samples that matters, (c,)."""
        least = validity.least_run(part.track)
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

    def features(self, part: Part, ends: NDArray[np.int64]) -> NDArray:
        """Unscaled features (w, d) of evenly spaced windows, each of one channel, and the samples at their ends."""
        feature, s = part.track.feature, part.track.samples
        same = [other for other in self.parts if other.track.feature == feature and not other.track.between]
        columns = list(dict.fromkeys(column for other in same for column in other.piece.columns))

        def computed() -> NDArray:
            here = _places(columns, self.columns)
            even = windows.strided(self.X[:, here], ends - self.low, s)
            assert even is not None
            gain = None if self.digital is None else self.digital.gain[here]
            return feature.unscaled(even, gain).reshape(len(ends), -1, len(columns))

        F = self._once(("features", feature), computed)
        return F[..., _places(part.piece.columns, columns)].reshape(len(F), -1)

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

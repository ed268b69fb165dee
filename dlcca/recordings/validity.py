"""Which windows are valid: gaps, missing values, BAD annotations, flat and saturated channels.

Each block notes runs of equal samples (`suspect_runs`, `edges`). The range of a channel is known only after the last
block, and a run may continue in the next one; so the stage `clock` decides, from the notes of all blocks.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import OnProgress
from dlcca.errors import DataError
from dlcca.recordings.formats.metadata import grouped
from dlcca.recordings.formats.recording import Digital, values_of
from dlcca.recordings.ingest_job import IngestJob, WindowedTrack, packed, unpacked
from dlcca.recordings.scaling import Summaries, scaling_arrays, write_at_once
from dlcca.storage.views import Reason

#: A run of fewer samples than this is chance, whatever the rate.
LEAST_RUN = 8
#: Types of channels that may stay at one value: pixels of a video, triggers.
NOT_JUDGED = ("video", "stim")
#: Values compared with as many others at a time; and bytes of samples that fit the cache of a core.
WIDE, CACHED_BYTES = 1152, 1 << 18

#: (first, one after the last) sample of a run of equal values; and the runs of one value, in their order: number of the
#: piece, channel, value, runs.
Run = tuple[int, int]
Suspect = tuple[int, int, float, list[Run]]


def worse(one: NDArray[np.uint8], other: NDArray[np.uint8] | Reason) -> NDArray[np.uint8]:
    """Of two reasons, the one that comes first in `Reason`."""
    return np.where((one == 0) | ((other != 0) & (other < one)), other, one)


def marked(job: IngestJob, first: int, last: int) -> NDArray[np.uint8]:
    """MARKED for the windows from ``first`` to ``last`` (not included) that overlap a BAD annotation."""
    reason = np.zeros(last - first, np.uint8)
    for begin, end in job.bad:
        # Window t overlaps if t * step < end and begin < t * step + window; an instant overlaps the window it is in.
        low = int(np.floor((begin - job.window_s) / job.step_s + 1e-9)) + 1
        high = int(np.ceil(end / job.step_s - 1e-9)) - 1 if end > begin else int(np.floor(begin / job.step_s + 1e-9))
        reason[max(0, low - first) : max(0, high + 1 - first)] = Reason.MARKED
    return reason


# Runs of equal samples in a block.


def least_runs(track: WindowedTrack) -> list[int]:
    """Samples of a flat run, and of a saturated one; 0 where these are not looked for."""
    lengths = track.recipe.flat_s, track.recipe.saturated_s
    return [max(LEAST_RUN, round(s * track.rate)) if s > 0 else 0 for s in lengths]


def least_run(track: WindowedTrack) -> int:
    """Samples of the shortest run that matters; 0 if none does."""
    return min((samples for samples in least_runs(track) if samples), default=0)


def judged(track: WindowedTrack) -> NDArray[np.bool_]:
    """Which channels are looked at for runs, (c,)."""
    return np.array([channel.kind not in NOT_JUDGED for channel in track.channels])


def long_runs(x: NDArray, least: int) -> list[Run]:
    """The runs of at least ``least`` equal samples in a channel (n,); least must be 2 or more."""
    if len(x) < least:
        return []
    changes = np.flatnonzero(x[1:] != x[:-1]) + 1  # NaN differs from all, itself included
    edges = np.concatenate([[0], changes, [len(x)]])
    long = np.flatnonzero(np.diff(edges) >= least)
    return [(int(edges[i]), int(edges[i + 1])) for i in long]


def channels_with_runs(X: NDArray, least: int) -> NDArray[np.int64]:
    """The channels of X (n, c) that may have a run of ``least`` equal samples.

    Such a run holds two consecutive ones of every ``least // 2``-th sample, and comparing those costs next to nothing.
    Integers are often equal by chance: where two are, some samples between them are compared too.
    """
    apart = max(1, least // 2)
    rows, channels = np.divmod(np.flatnonzero(X[apart::apart] == X[:-apart:apart]), X.shape[1])  # faster than nonzero
    first = X[rows * apart, channels]
    for part in {apart // 4, apart // 2, 3 * apart // 4} - {0}:
        same = X[rows * apart + part, channels] == first
        rows, channels, first = rows[same], channels[same], first[same]
    return np.unique(channels)


def extremes(X: NDArray, digital: Digital | None = None) -> tuple[NDArray, NDArray]:
    """The largest and the smallest value of each channel of X (n, c), n > 0; not finite if a sample is not."""
    n, c = X.shape  # many samples are put side by side first: short rows would take three times as long
    wide = max(1, WIDE // c)
    body = X[: n - n % wide].reshape(-1, wide * c) if X.flags.c_contiguous and n >= wide else X[:0]
    rest = X[n - n % wide :] if len(body) else X
    batch = max(1, CACHED_BYTES // (wide * c * X.itemsize))
    tops, bottoms = [rest], [rest]
    with np.errstate(invalid="ignore"):
        for some in (body[i : i + batch] for i in range(0, len(body), batch)):
            tops.append(np.maximum.reduce(some, axis=0).reshape(-1, c))
            bottoms.append(np.minimum.reduce(some, axis=0).reshape(-1, c))
        ends = np.maximum.reduce(np.concatenate(tops), axis=0), np.minimum.reduce(np.concatenate(bottoms), axis=0)
        values = values_of(np.stack(ends), digital)
        return np.maximum(*values), np.minimum(*values)  # a gain may be negative


def suspect_runs(
    X: NDArray, suspected: NDArray[np.bool_], track: WindowedTrack, piece: int, first: int
) -> tuple[list[Suspect], NDArray]:
    """Flat runs, and runs at the largest or smallest value of X (n, c); and X, as values with NaN in flat runs if any.

    ``suspected`` (c,) are the channels that may have a run; X begins with sample ``first`` of a piece of the track.
    """
    found, good, digital, flat = [], X, track.digital, least_runs(track)[0]
    for c in np.flatnonzero(suspected & judged(track)).tolist():
        x, runs = X[:, c], defaultdict[Any, list[Run]](list)
        ends = np.fmax.reduce(x), np.fmin.reduce(x)
        for begin, end in long_runs(x, least_run(track)):
            number, is_flat = x[begin].item(), 0 < flat <= end - begin
            if is_flat:
                good = (X.copy() if X.dtype.kind == "f" else values_of(X, digital)) if good is X else good
                good[begin:end, c] = np.nan
            if is_flat or number in ends:
                runs[number].append((first + begin, first + end))
        for number, some in runs.items():
            value = number if digital is None else digital.of([c]).values(np.array([number], digital.dtype))[0]
            found.append((piece, c, float(value), some))
    return found, good


def edges(X: NDArray, track: WindowedTrack) -> dict[str, Any]:
    """The runs at both ends of X (n, c), as long as they may matter."""
    lengths = np.stack(ends_of_runs(X, max(least_runs(track)))).astype(np.int32)
    return {"values": packed(values_of(X[[0, -1]], track.digital)), "lengths": packed(lengths)}


def ends_of_runs(X: NDArray, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many samples at the beginning and at the end of X (n, c), n > 0, are equal, up to ``most`` (0 for NaN)."""
    lengths = []
    for part in (X[:most], X[: -most - 1 : -1]):
        equal = part == part[0]
        lengths.append(np.where(equal.all(axis=0), len(part), equal.argmin(axis=0)))
    return lengths[0], lengths[1]


# What all blocks say together.


class JoinedRuns:
    """Runs of at least ``least`` samples across the borders of blocks, which are added in their order.

    Each block has the number of equal samples that it begins and ends with, up to ``most``: a run that is longer on one
    side is found there.
    """

    def __init__(self, least: int, most: int, judged: NDArray[np.bool_]) -> None:
        self.least, self.most, self.judged = least, most, judged
        self._piece, self._end = -1, -1  # where the block before ended
        self._value: NDArray = np.full(len(judged), np.nan)
        self._length: NDArray = np.zeros(len(judged), np.int64)

    def add(self, piece: int, own: list[int], values: NDArray, lengths: NDArray) -> list[Suspect]:
        """The runs across the border to the next block: one each for a channel.

        Of the block: its own samples of a piece (from, to), the first and last values (2, c), and the lengths of runs.
        """
        first, last = own
        goes_on = (values[0] == self._value) & (piece == self._piece and first == self._end)
        before = np.where(goes_on, self._length, 0)
        both = before + lengths[0]
        long = np.flatnonzero(goes_on & self.judged & (both >= self.least) & (self.least > 0)).tolist()
        found = [(piece, c, float(values[0, c]), [(first - int(before[c]), first + int(lengths[0, c]))]) for c in long]
        through = goes_on & (lengths[1] == last - first)  # all of the block is one run
        self._piece, self._end, self._value = piece, last, values[1]
        self._length = np.where(through, np.minimum(both, self.most), lengths[1])
        return found


class Fault(NamedTuple):
    """Windows in which a channel is saturated or flat."""

    channel: str
    why: Reason
    windows: list[list[int]]  # intervals: first, last


def touched_windows(runs: list[Run], spans: NDArray, windows: NDArray) -> list[list[int]]:
    """The windows that runs overlap, as intervals (first, last) of their numbers, which are consecutive."""
    hit = np.zeros(len(windows), bool)
    for begin, end in runs:
        low = np.searchsorted(spans[:, 1], begin, side="right")  # the first window that ends after the run begins
        high = np.searchsorted(spans[:, 0], end, side="left")
        hit[low:high] = True
    edges = np.flatnonzero(np.diff(hit, prepend=False, append=False)).reshape(-1, 2)
    return [[int(windows[first]), int(windows[end - 1])] for first, end in edges]


class TrackFacts:
    """What all blocks say of a track together."""

    def __init__(self, job: IngestJob, track: WindowedTrack) -> None:
        self.job, self.track = job, track
        self.least = dict(zip((Reason.FLAT, Reason.SATURATED), least_runs(track), strict=True))
        self.joined = JoinedRuns(least_run(track), max(least_runs(track)), judged(track))
        self.suspects: list[tuple[int, float, Reason, list[list[int]]]] = []  # channel, value, reason, windows
        self.top, self.bottom = np.full((2, len(track.channels)), np.nan, np.float32)
        self.summaries = Summaries()

    def add(self, facts: dict[str, Any]) -> None:
        """Those of the next block."""
        top, bottom = unpacked(facts["extremes"])
        self.top, self.bottom = np.fmax(self.top, top), np.fmin(self.bottom, bottom)
        found = list(facts["suspects"])
        for edge in facts["edges"]:
            found += self.joined.add(edge["piece"], edge["own"], unpacked(edge["values"]), unpacked(edge["lengths"]))
        for same_piece in grouped(found, itemgetter(0)):
            self._suspect(same_piece)
        self.summaries.add(facts)

    def _suspect(self, found: Sequence[Suspect]) -> None:
        """Note the windows that overlap long runs of a piece."""
        job, piece = self.job, self.track.pieces[found[0][0]]
        first, last = min(runs[0][0] for *_, runs in found), max(runs[-1][1] for *_, runs in found)
        begin, end = (piece.start_s + at * piece.period_s for at in (first, last))
        low = int(np.clip((begin - job.window_s) / job.step_s - 2, 0, job.n))
        high = int(np.clip(end / job.step_s + 3, 0, job.n))
        windows, spans = job.spans(self.track, found[0][0], low, high)
        for (_, channel, value, runs), (why, least) in product(found, self.least.items()):
            touched = touched_windows([run for run in runs if 0 < least <= run[1] - run[0]], spans, windows)
            self.suspects += [(channel, value, why, touched)] if touched else []

    def faults(self) -> list[Fault]:
        """Runs that are flat, or saturated: at the largest or smallest value that the channel ever has."""
        return [
            Fault(self.track.names[c], why, windows)
            for c, value, why, windows in self.suspects
            # A value that is the only one of its channel is no end of its range.
            if why == Reason.FLAT or (value in (self.top[c], self.bottom[c]) and self.top[c] > self.bottom[c])
        ]


# The stage.


def run(job: IngestJob, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Stage `clock`: write the valid windows and the scaling; short, in one block, computed here."""
    stage, drafts = job.stage("clock"), job.stage("drafts")
    if not stage.missing():
        return
    tracks = [TrackFacts(job, track) for track in job.tracks]
    reason, piece = np.empty(job.n, np.uint8), np.empty((job.n, len(tracks)), np.int32)
    for block in range(drafts.n_blocks):
        facts, here = drafts.facts(block), slice(*job.bounds(block))
        reason[here], piece[here] = unpacked(facts["reason"]), unpacked(facts["piece"])
        for of_track in tracks:
            of_track.add(facts[of_track.track.key])
    faults, overlooked = [], []
    for of_track, has_samples in zip(tracks, (piece >= 0).T, strict=True):
        found = of_track.faults()
        ignored = _always_faulty(found, has_samples) if job.lenient else []
        overlooked += ignored
        faults += [fault for fault in found if fault.channel not in ignored]
    for fault in faults:
        for first, last in fault.windows:
            reason[first : last + 1] = worse(reason[first : last + 1], fault.why)
    rows = np.flatnonzero(reason == Reason.VALID)
    if not len(rows):
        raise _none_valid(job, faults, reason)
    segment = np.full(job.n, -1, np.int64)
    broken = (np.diff(rows) > 1) | (np.diff(piece[rows], axis=0) != 0).any(axis=1)
    segment[rows] = np.concatenate([[0], np.cumsum(broken)])
    arrays = {
        "/time": np.arange(job.n) * job.step_s,
        "/reason": reason,
        "/segment": segment,
        "/rows": rows,
        **scaling_arrays(job, {of_track.track.key: of_track.summaries for of_track in tracks}),
    }
    write_at_once(stage, arrays, f"{job.n} windows, {len(rows)} of them valid", {"overlooked": overlooked})
    if on_progress is not None:
        on_progress(stage.name, 1, 1)


def _always_faulty(faults: list[Fault], has_samples: NDArray[np.bool_]) -> list[str]:
    """Channels of a track that are flat or saturated in every window that has samples, (n,)."""
    hits: dict[str, NDArray[np.bool_]] = {}
    for channel, _why, windows in faults:
        for first, last in windows:
            hits.setdefault(channel, np.zeros(len(has_samples), bool))[first : last + 1] = True
    return [channel for channel, hit in hits.items() if hit[has_samples].all()]


def _none_valid(job: IngestJob, faults: list[Fault], reason: NDArray[np.uint8]) -> DataError:
    """The error for recordings without a valid window, with the channels that have most faults."""
    counts = ", ".join(f"{count} {Reason(why).name.lower()}" for why, count in sorted(Counter(reason.tolist()).items()))
    faulty: Counter[str] = Counter()
    for channel, why, windows in faults:
        faulty[f"{channel!r} ({why.name.lower()})"] += sum(last - first + 1 for first, last in windows)
    worst = ", ".join(channel for channel, _ in faulty.most_common(5))
    channels = f" Most often flat or saturated: {worst}; leave such channels out, or" if worst else " Perhaps"
    return DataError(
        f"none of the {job.n} windows of {job.window_s:g} s is valid ({counts}).{channels} set flat_s or saturated_s "
        "to 0, or choose a shorter window_s."
    )

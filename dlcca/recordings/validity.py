"""After the pass over the recordings: which windows are valid, which belong together, and how channels are scaled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell
from dlcca.errors import DataError
from dlcca.numerics.moments import Moments, combined
from dlcca.numerics.quantile_sketch import Sketches, robust_scaling
from dlcca.recordings import flat_and_clipped as faults
from dlcca.recordings import unscaled_features
from dlcca.recordings.extract_windows import spans_of
from dlcca.recordings.features.columns import Columns, side_by_side
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.joined_runs import JoinedRuns, LongRun
from dlcca.recordings.json_arrays import unpacked
from dlcca.storage.blocks import Stage
from dlcca.storage.views import Reason, read_arrays


@dataclass
class TrackFacts:
    """What all blocks say of a track together."""

    joined: JoinedRuns
    suspects: list[dict[str, Any]] = field(default_factory=list)
    top: NDArray | None = None  # (c,)
    bottom: NDArray | None = None
    sketches: Sketches = field(default_factory=Sketches)
    moments: list[Moments] = field(default_factory=list)

    def add(self, facts: dict[str, Any]) -> None:
        """Those of the next block."""
        top, bottom = unpacked(facts["extremes"])
        self.top = top if self.top is None else np.fmax(self.top, top)
        self.bottom = bottom if self.bottom is None else np.fmin(self.bottom, bottom)
        self.suspects += facts["suspects"]
        for edge in facts["edges"]:
            self.joined.add(edge["piece"], edge["own"], unpacked(edge["values"]), unpacked(edge["lengths"]))
        if "values" in facts:
            self.sketches.add(unpacked(facts["values"]), unpacked(facts["counts"]))
        if "moments" in facts:
            self.moments.append(Moments(facts["rows"], *unpacked(facts["moments"])))


@dataclass(frozen=True)
class Fault:
    """Windows in which a channel is saturated or flat."""

    windows: list[list[int]]  # stretches: first, last
    why: Reason
    channel: int


@dataclass(frozen=True)
class Facts:
    """What all blocks say together: read once, for they are many."""

    reason: NDArray[np.uint8]  # (n,) without what is saturated or flat
    piece: NDArray[np.int32]  # (n, tracks)
    tracks: dict[tuple[int, int], TrackFacts]

    def faults(self, job: IngestJob, v: int, k: int) -> list[Fault]:
        """Runs that are saturated or flat.

        A run at the largest or smallest value that the channel ever has is saturated, unless it never has another.
        """
        track = self.tracks[v, k]
        assert track.top is not None
        assert track.bottom is not None
        top, bottom = track.top, track.bottom
        found = []
        for suspect in track.suspects:
            c, value = suspect["channel"], suspect["value"]
            if suspect["kind"] == "flat":
                found.append(Fault(suspect["windows"], Reason.FLAT, c))
            elif value in (top[c], bottom[c]) and top[c] > bottom[c]:
                found.append(Fault(suspect["windows"], Reason.SATURATED, c))
        flat, saturated = faults.least_runs(job.views[v].recipe, job.views[v].tracks[k])
        for run in track.joined.found:
            c, length = run.channel, run.last - run.first
            windows = _touched(job, v, k, run)
            if flat and length >= flat and windows:
                found.append(Fault(windows, Reason.FLAT, c))
            if (
                saturated
                and length >= saturated
                and run.value in (top[c], bottom[c])
                and top[c] > bottom[c]
                and windows
            ):
                found.append(Fault(windows, Reason.SATURATED, c))
        return found

    def always_faulty(self, job: IngestJob, v: int, k: int) -> list[int]:
        """Channels that are flat or saturated in every window that has samples."""
        number = list(self.tracks).index((v, k))
        held = self.piece[:, number] >= 0
        count: dict[int, NDArray[np.bool_]] = {}
        for fault in self.faults(job, v, k):
            for first, last in fault.windows:
                count.setdefault(fault.channel, np.zeros(job.n, bool))[first : last + 1] = True
        return [channel for channel, hit in count.items() if hit[held].all()]


def _touched(job: IngestJob, v: int, k: int, run: LongRun) -> list[list[int]]:
    """The windows that a run of samples of a piece touches."""
    track, recipe = job.views[v].tracks[k], job.views[v].recipe
    piece = track.pieces[run.piece]
    begin, end = (piece.start_s + at * piece.period_s for at in (run.first, run.last))
    low = int(np.clip((begin - job.window_s) / job.step_s - 2, 0, job.n))
    high = int(np.clip(end / job.step_s + 3, 0, job.n))
    windows, spans = spans_of(job, track, piece, recipe, low, high)
    return faults.stretches_touched([(run.first, run.last)], spans, windows)


def gathered(job: IngestJob) -> Facts:
    """The facts of all blocks, in their order."""
    stage = unscaled_features.stage_of(job)
    tracks = {(v, k): TrackFacts(_joined(job, v, k)) for v, k, _ in job.tracks}
    reason = np.empty(job.n, np.uint8)
    piece = np.empty((job.n, len(tracks)), np.int32)
    for block in range(stage.n_blocks):
        facts, here = stage.facts(block), slice(*job.bounds(block))
        reason[here], piece[here] = unpacked(facts["reason"]), unpacked(facts["piece"])
        for (v, k), track in tracks.items():
            track.add(facts[f"{v}_{k}"])
    return Facts(reason, piece, tracks)


def _joined(job: IngestJob, v: int, k: int) -> JoinedRuns:
    track = job.views[v].tracks[k]
    lengths = faults.least_runs(job.views[v].recipe, track)
    return JoinedRuns(min((n for n in lengths if n), default=0), max(lengths), faults.judged(track))


@dataclass(frozen=True)
class Settled:
    """What is known when all blocks have been read."""

    reason: NDArray[np.uint8]  # (n,)
    segment: NDArray[np.int64]  # (n,), -1 where invalid
    rows: NDArray[np.int64]  # (r,)
    overlooked: list[str]  # channels whose faults were overlooked


def stage_of(job: IngestJob) -> Stage:
    return job.stage("clock", 1)


def run(job: IngestJob, client: Any = None, tell: Tell | None = None) -> None:
    """Write the clock and the scaling; a short stage, in one block, that is done here."""
    stage = stage_of(job)
    if not stage.missing():
        return
    facts = gathered(job)
    settled = settle(job, facts)
    _refuse_none(job, facts, settled)
    parts: dict[str, NDArray] = {
        "/time": np.arange(job.n) * job.step_s,
        "/reason": settled.reason,
        "/segment": settled.segment,
        "/rows": settled.rows,
        **dict(_scaling_parts(job, facts)),
    }
    arrays = {name: (X.shape, X.dtype, len(X)) for name, X in parts.items()}
    stage = stage.prepare(arrays, says=f"{job.n} windows, {len(settled.rows)} of them valid")
    stage.write(0, {name: (0, X) for name, X in parts.items()}, {"overlooked": settled.overlooked})
    if tell is not None:
        tell(stage.name, 1, 1)


def _scaling_parts(job: IngestJob, facts: Facts) -> Iterator[tuple[str, NDArray]]:
    for v, view in enumerate(job.views):
        center, scale = scaling(job, facts, v)
        yield f"{place_of(view.name)}/center", center
        yield f"{place_of(view.name)}/scale", scale
        if job.is_finished_when_read(v):
            yield f"/columns/{view.name}", columns_of(job, v, center, scale).as_array()


def place_of(view: str) -> str:
    """Where the scaling of a view is kept."""
    return f"/scaling/{view}"


def columns_of(job: IngestJob, v: int, center: NDArray, scale: NDArray) -> Columns:
    """How the drafts of a view are finished, those of all its tracks side by side."""
    parts, at = [], 0
    kept = [digital if job.kept(v).kind != "f" else None for digital in job.digital[v]]
    for track, feature, digital in zip(job.views[v].tracks, job.features[v], kept, strict=True):
        channels = slice(at, at + len(track.channels))
        columns = feature.columns(center[channels], scale[channels])
        assert columns is not None
        parts.append(columns.of_numbers(digital.gain, digital.bias) if digital is not None else columns)
        at = channels.stop
    return side_by_side(parts)


def settle(job: IngestJob, facts: Facts) -> Settled:
    """Reasons of all windows, those of runs at the ends of a channel's range included, and the unbroken stretches."""
    reason, names = facts.reason.copy(), []
    for v, k, track in job.tracks:
        overlooked = facts.always_faulty(job, v, k) if job.lenient else []
        names += [track.names[c] for c in overlooked]
        for fault in facts.faults(job, v, k):
            if fault.channel in overlooked:
                continue
            for first, last in fault.windows:
                part = reason[first : last + 1]
                reason[first : last + 1] = unscaled_features.worse(part, np.full(len(part), fault.why, np.uint8))
    rows = np.flatnonzero(reason == Reason.VALID)
    segment = np.full(job.n, -1, np.int64)
    if len(rows):
        piece = facts.piece[rows]
        broken = (np.diff(rows) > 1) | (np.diff(piece, axis=0) != 0).any(axis=1)
        segment[rows] = np.concatenate([[0], np.cumsum(broken)])
    return Settled(reason, segment, rows, names)


def overlooked(job: IngestJob) -> list[str]:
    """The names of the channels whose faults were overlooked."""
    return list(stage_of(job).facts(0)["overlooked"])


def scaling(job: IngestJob, facts: Facts, v: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Center and scale of every channel of a view, (c,) each."""
    if job.scaling_from:
        return given_scaling(job, v)
    how, tracks = job.views[v].recipe.scaling, job.views[v].tracks
    each = [_scaling(facts.tracks[v, k], how, len(track.channels)) for k, track in enumerate(tracks)]
    return np.concatenate([center for center, _ in each]), np.concatenate([scale for _, scale in each])


def given_scaling(job: IngestJob, v: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """That of a store made before, so that new recordings mean the same as the old ones."""
    name = job.views[v].name
    center, scale = read_arrays(job.scaling_from, [f"{place_of(name)[1:]}/{part}" for part in ("center", "scale")])
    c = sum(len(track.channels) for track in job.views[v].tracks)
    if len(center) != c:
        raise DataError(
            f"view {name!r} has {c} channels, but {len(center)} in {job.scaling_from}, whose scaling it is "
            "to have; choose the same channels."
        )
    return center, scale


def _scaling(facts: TrackFacts, how: str, c: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if how == "robust" and facts.sketches.summaries:
        return robust_scaling(facts.sketches.summaries)
    if how == "standard" and facts.moments:
        total = combined(facts.moments)
        scale = np.sqrt(total.squares / total.count)
        return total.mean, np.where(scale > 0, scale, 1.0)
    return np.zeros(c), np.ones(c)


def _refuse_none(job: IngestJob, facts: Facts, settled: Settled) -> None:
    """An error if no window is valid, which says why."""
    if len(settled.rows):
        return
    found = Counter(settled.reason.tolist())
    told = ", ".join(f"{count} {Reason(why).name.lower()}" for why, count in sorted(found.items()))
    worst = blamed(job, facts)
    channels = f" Most often flat or saturated: {', '.join(worst)}; leave such channels out," if worst else ""
    raise DataError(
        f"none of the {job.n} windows of {job.window_s:g} s is valid ({told}).{channels}"
        f"{' or' if worst else ' Perhaps'} set flat_s or saturated_s to 0, or choose a shorter window_s."
    )


def blamed(job: IngestJob, facts: Facts, most: int = 5) -> list[str]:
    """The channels with most flat or saturated windows, for people."""
    count: Counter[str] = Counter()
    for v, k, track in job.tracks:
        for fault in facts.faults(job, v, k):
            windows = sum(last - first + 1 for first, last in fault.windows)
            count[f"{track.names[fault.channel]!r} ({fault.why.name.lower()})"] += windows
    return [channel for channel, _ in count.most_common(most)]

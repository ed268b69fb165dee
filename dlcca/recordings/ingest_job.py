"""What is to be ingested, in a form small enough to send to every worker: views on one clock, cut into blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.fingerprint import fingerprint
from dlcca.errors import DataError, SettingsError
from dlcca.recordings import window_clock
from dlcca.recordings.features import Feature
from dlcca.recordings.features_of import feature_of
from dlcca.recordings.formats.recording import Digital
from dlcca.recordings.timeline import File, Opener, Timeline, Track, View, lay_out
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.blocks import Stage

#: Samples held for a block, and features written of it: enough that a task is worth starting, and little enough that
#: memory is used again (the C library gives parts above 32 MiB back to the system each time, and fills new ones).
BLOCK_BYTES = 16 << 20
MOST_WINDOWS = 65_536
#: A clock of more windows than this was not meant: two files of different years.
MOST_ON_CLOCK = 2_000_000_000
#: A window of which nothing was said lasts about a second, and at most this.
USUAL_S, LONGEST_USUAL_S = 1.0, 10.0


@dataclass(frozen=True)
class IngestJob:
    """Views of n windows on one clock, to be written to a store."""

    address: str
    views: tuple[View, ...]
    window_s: float
    step_s: float
    n: int  # windows on the clock
    rows: int  # windows of a block
    bad: tuple[tuple[float, float], ...]  # stretches marked BAD, in seconds
    inputs: str  # identity of files and recipes
    opener: Opener
    lenient: bool = False  # channels that are flat or saturated in all windows are noted, and the windows used
    scaling_from: str = ""  # a store whose scaling is used, instead of that of these recordings

    @property
    def n_blocks(self) -> int:
        return -(-self.n // self.rows)

    def bounds(self, block: int) -> tuple[int, int]:
        """First window of a block, and the one after its last."""
        return block * self.rows, min(self.n, (block + 1) * self.rows)

    def stage(self, name: str, n_blocks: int) -> Stage:
        return Stage(self.address, name, self.inputs, n_blocks)

    @property
    def tracks(self) -> list[tuple[int, int, Track]]:
        """All tracks, each with the numbers of its view and of itself within it."""
        return [(v, k, track) for v, view in enumerate(self.views) for k, track in enumerate(view.tracks)]

    def samples(self, track: Track) -> int:
        """Samples of a window."""
        return samples_of(self.window_s, track.rate)

    @cached_property
    def features(self) -> list[list[Feature]]:
        """For each view, the features of its tracks."""
        return [_features(view, self.window_s) for view in self.views]

    @cached_property
    def dims(self) -> list[list[int]]:
        """For each view, how many features its tracks have."""
        return [
            [feature.width(len(track.channels)) for feature, track in zip(features, view.tracks, strict=True)]
            for view, features in zip(self.views, self.features, strict=True)
        ]

    def is_finished_when_read(self, v: int) -> bool:
        """Whether the features of a view are kept as drafts, which are scaled when they are read."""
        if self.views[v].recipe.pca_components:
            return False
        ones = [np.ones(len(track.channels)) for track in self.views[v].tracks]
        return all(feature.columns(one, one) is not None for feature, one in zip(self.features[v], ones, strict=True))

    @cached_property
    def digital(self) -> list[list[Digital | None]]:
        """For each view, the whole numbers that the samples of its tracks are read as; None where values are read."""
        every = [[_digital(track, view.recipe, self.opener) for track in view.tracks] for view in self.views]
        return [[None] * len(held) if self._needs_values(v, held) else held for v, held in enumerate(every)]

    def _needs_values(self, v: int, held: list[Digital | None]) -> bool:
        """Whether raw samples have to be written as values: only whole numbers of one kind can be written as such."""
        is_raw = self.views[v].recipe.features.kind in ("raw", "delay")
        kinds = {None if digital is None else digital.dtype for digital in held}
        return is_raw and (None in kinds or len(kinds) > 1 or not self.is_finished_when_read(v))

    def kept(self, v: int) -> np.dtype:
        """The dtype in which the drafts of a view are kept."""
        is_raw = self.views[v].recipe.features.kind in ("raw", "delay")
        digital = self.digital[v][0]
        return digital.dtype if is_raw and digital is not None else np.dtype(np.float32)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made when it is asked for."""
        return {key: value for key, value in self.__dict__.items() if key not in ("features", "dims", "digital")}


def samples_of(window_s: float, rate: float) -> int:
    """Samples of a window: those whose whole time lies in it."""
    return max(1, int(window_s * rate * (1 + 1e-9) + 1e-6))


def make_job(
    address: str, recipes: Mapping[str, ViewRecipe], opener: Opener, scaling_from: str = ""
) -> tuple[IngestJob, Timeline]:
    """The job, after the headers of all files have been looked at."""
    line = lay_out(recipes, opener)
    window_s, step_s = _window_and_step(line.views)
    end, fastest = max(view.span[1] for view in line.views), max(_rates(line.views))
    n = int((end - window_s + 0.5 / fastest) / step_s) + 1 if end - window_s + 0.5 / fastest >= 0 else 0
    if n < 1:
        raise DataError(
            f"the recording lasts {end:g} s, less than one window of window_s = {window_s:g}; choose a shorter window."
        )
    if n > MOST_ON_CLOCK:
        raise DataError(
            f"the files span {end / 86400:.0f} days, which is {n} windows of {step_s:g} s; do their start times agree?"
        )
    features = [_features(view, window_s) for view in line.views]
    for view, made in zip(line.views, features, strict=True):
        d = sum(f.width(len(track.channels)) for f, track in zip(made, view.tracks, strict=True))
        if view.recipe.pca_components > d:
            raise SettingsError(
                f"view {view.name!r}: pca_components = {view.recipe.pca_components}, but it has {d} features; ask for "
                f"at most {d}."
            )
    bad = tuple((first, last) for first, last, text in line.marks if text.strip().lower().startswith("bad"))
    job = IngestJob(
        address=address,
        views=line.views,
        window_s=window_s,
        step_s=step_s,
        n=n,
        rows=n,
        bad=bad,
        inputs=_identity(line, recipes, window_s, step_s, opener, scaling_from),
        opener=opener,
        scaling_from=scaling_from,
    )
    return replace(job, rows=_windows_of_block(job)), line


def _rates(views: Sequence[View]) -> list[float]:
    return [track.rate for view in views for track in view.tracks]


def _features(view: View, window_s: float) -> list[Feature]:
    where = f"view {view.name!r}"
    if view.recipe.features.kind == "covariance" and len(view.tracks) > 1:
        told = "; ".join(f"{', '.join(track.names[:3])} at {track.rate:g} Hz" for track in view.tracks)
        raise SettingsError(
            f"{where}: features = 'covariance' needs channels that were sampled together, these were not: {told}. "
            "Choose the channels of one rate."
        )
    return [
        feature_of(view.recipe.features, samples_of(window_s, track.rate), track.rate, where) for track in view.tracks
    ]


def _window_and_step(views: Sequence[View]) -> tuple[float, float]:
    """Window and step of all views: as said, or the usual ones; an error if a rate does not fit them."""
    window_s, step_s = _agreed(views, "window_s"), _agreed(views, "step_s")
    exact = [(view.name, track.rate) for view in views for track in view.tracks if view.recipe.resample == "exact"]
    rates = [rate for _, rate in exact]
    if window_s is None:
        window_s = _usual_window(views, rates) if step_s is None else step_s
    step_s = window_s if step_s is None else step_s
    for option, seconds in (("window_s", window_s), ("step_s", step_s)):
        for name, rate in exact:
            if not window_clock.fits(seconds, rate):
                _refuse_rate(option, seconds, name, rate, rates)
    return float(window_s), float(step_s)


def _agreed(views: Sequence[View], option: str) -> float | None:
    said = {view.name: getattr(view.recipe, option) for view in views if getattr(view.recipe, option) is not None}
    if len(set(said.values())) > 1:
        told = ", ".join(f"{seconds:g} in {name!r}" for name, seconds in said.items())
        raise SettingsError(f"{option} differs between the views ({told}); row by row they must be of the same time.")
    return next(iter(said.values()), None)


def _usual_window(views: Sequence[View], rates: list[float]) -> float:
    """About a second, or an eighth of a short recording, in whole samples of all rates."""
    target = min(USUAL_S, min(view.span[1] - view.span[0] for view in views) / 8)
    period = window_clock.common_period(rates or _rates(views))
    seconds = float(max(1, int(target / period + 1e-6)) * period)
    if seconds > max(LONGEST_USUAL_S, 1 / min(_rates(views))):
        if not rates:
            return max(target, 1 / min(_rates(views)))
        raise SettingsError(
            f"no short window is a whole number of samples at {_told(rates)}; say window_s and step_s, and "
            "resample = 'nearest' or 'linear' in the views that do not fit them."
        )
    return seconds


def _refuse_rate(option: str, seconds: float, name: str, rate: float, rates: list[float]) -> None:
    here = " or ".join(f"{fit:.9g}" for fit in window_clock.fitting(seconds, [rate]))
    every = [fit for fit in window_clock.fitting(seconds, rates) if fit <= LONGEST_USUAL_S * max(1.0, seconds)]
    both = f" ({' or '.join(f'{fit:.9g}' for fit in every)} would fit all of {_told(rates)})" if every else ""
    raise SettingsError(
        f"view {name!r}: {option} = {seconds:g} is {seconds * rate:.6g} samples at {rate:g} Hz; a whole number is "
        f"needed. {option} = {here} would fit{both if len(set(rates)) > 1 else ''}; or set resample = 'nearest' or "
        "'linear' in this view."
    )


def _told(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in sorted(set(rates))) + " Hz"


def _windows_of_block(job: IngestJob) -> int:
    """Windows of a block: 16 MiB of samples or of features, and much longer than what two blocks both read."""
    held = written = copied = 0.0  # bytes for each window
    for v, k, track in job.tracks:
        c, digital = len(track.channels), job.digital[v][k]
        held += track.rate * job.step_s * c * (4 if digital is None else digital.dtype.itemsize)
        copied += job.samples(track) * c
        written += job.dims[v][k] * job.kept(v).itemsize
    rows = min(int(BLOCK_BYTES // max(held, copied, written, 1.0)), MOST_WINDOWS)
    rows = min(job.n, max(1, rows, min(64, int(2 * job.window_s / job.step_s))))
    return -(-job.n // -(-job.n // rows))  # as many blocks, and the last one about as large as the others


def _digital(track: Track, recipe: ViewRecipe, opener: Opener) -> Digital | None:
    """The whole numbers that a track is in all of its files; None if it is not, or if values between are asked for."""
    if recipe.resample == "linear":
        return None
    every = [piece.file.open(opener).signals[piece.signal].digital for piece in track.pieces]
    first, *others = (
        None if digital is None else digital.of(piece.columns)
        for digital, piece in zip(every, track.pieces, strict=True)
    )
    usable = first is not None and first.is_exact and all(first.is_like(other) for other in others)
    return first if usable else None


def _identity(
    line: Timeline,
    recipes: Mapping[str, ViewRecipe],
    window_s: float,
    step_s: float,
    opener: Opener,
    scaling_from: str,
) -> str:
    """What tells these views from others: recipes, files with their sizes and dates, and some of their samples."""
    tracks = [(view, track) for view in line.views for track in view.tracks]
    wanted: dict[tuple[File, int], set[int]] = {}
    for _, track in tracks:
        for piece in track.pieces:
            wanted.setdefault((piece.file, piece.signal), set()).update(piece.columns)
    samples = {place: _sampled(*place, sorted(columns), opener) for place, columns in wanted.items()}
    pieces = [
        [view.name, piece.file.path, piece.file.stamp, piece.signal, piece.columns, piece.start_s, piece.period_s,
         piece.n, _digest(samples[piece.file, piece.signal], piece.columns)]
        for view, track in tracks for piece in track.pieces
    ]  # fmt: skip
    told = {name: recipe.to_dict() | {"source": None} for name, recipe in recipes.items()}
    return fingerprint(told, window_s, step_s, pieces, line.marks, scaling_from)


def _sampled(file: File, number: int, columns: list[int], opener: Opener) -> dict[int, list[NDArray]]:
    """A few samples of each of some channels: at the beginning, in the middle and at the end."""
    signal = file.open(opener).signals[number]
    firsts = sorted({0, signal.n // 2, max(0, signal.n - 4)})
    parts = [signal.read(first, min(signal.n, first + 4), columns) for first in firsts]
    return {column: [np.asarray(X[:, at], dtype=np.float64) for X in parts] for at, column in enumerate(columns)}


def _digest(samples: Mapping[int, list[NDArray]], columns: Sequence[int]) -> str:
    made = hashlib.sha256()
    for parts in zip(*(samples[column] for column in columns), strict=True):
        made.update(np.stack(parts, axis=1).tobytes())
    return made.hexdigest()

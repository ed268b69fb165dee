"""What is to be ingested, in a form small enough to send to every worker: views on one clock, cut into blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError
from dlcca.numerics import clock
from dlcca.numerics.features import Feature
from dlcca.recipes import ViewRecipe
from dlcca.stages.featuring import feature_of
from dlcca.stages.job import fingerprint
from dlcca.stages.timeline import Opener, Piece, Timeline, Track, View, lay_out
from dlcca.stores.blocks import Stage

#: Samples read for a block, and features written of it: enough that a task is worth starting, and little enough that
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
            [len(feature.names(track.names)) for feature, track in zip(features, view.tracks, strict=True)]
            for view, features in zip(self.views, self.features, strict=True)
        ]

    def is_finished_when_read(self, v: int) -> bool:
        """Whether the features of a view are kept as drafts, which are scaled when they are read."""
        if self.views[v].recipe.pca_components:
            return False
        ones = [np.ones(len(track.channels)) for track in self.views[v].tracks]
        return all(feature.columns(one, one) is not None for feature, one in zip(self.features[v], ones, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made when it is asked for."""
        return {key: value for key, value in self.__dict__.items() if key not in ("features", "dims")}


def samples_of(window_s: float, rate: float) -> int:
    """Samples of a window: those whose whole time lies in it."""
    return max(1, int(window_s * rate * (1 + 1e-9) + 1e-6))


def make_job(
    address: str, recipes: Mapping[str, ViewRecipe], opener: Opener, scaling_from: str = ""
) -> tuple[IngestJob, Timeline]:
    """The job, after the headers of all files have been looked at."""
    line = lay_out(recipes, opener)
    window_s, step_s = _window_and_step(line.views)
    features = [_features(view, window_s) for view in line.views]
    for view, made in zip(line.views, features, strict=True):
        d = sum(len(f.names(track.names)) for f, track in zip(made, view.tracks, strict=True))
        if view.recipe.pca_components > d:
            raise SettingsError(
                f"view {view.name!r}: pca_components = {view.recipe.pca_components}, but it has {d} features; ask for "
                f"at most {d}."
            )
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
    bad = tuple((first, last) for first, last, text in line.marks if text.strip().lower().startswith("bad"))
    job = IngestJob(
        address=address,
        views=line.views,
        window_s=window_s,
        step_s=step_s,
        n=n,
        rows=_windows_of_block(line.views, features, n, window_s, step_s),
        bad=bad,
        inputs=_identity(line, recipes, window_s, step_s, opener, scaling_from),
        opener=opener,
        scaling_from=scaling_from,
    )
    return job, line


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
            if not clock.fits(seconds, rate):
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
    period = clock.common_period(rates or _rates(views))
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
    here = " or ".join(f"{fit:.9g}" for fit in clock.fitting(seconds, [rate]))
    every = [fit for fit in clock.fitting(seconds, rates) if fit <= LONGEST_USUAL_S * max(1.0, seconds)]
    both = f" ({' or '.join(f'{fit:.9g}' for fit in every)} would fit all of {_told(rates)})" if every else ""
    raise SettingsError(
        f"view {name!r}: {option} = {seconds:g} is {seconds * rate:.6g} samples at {rate:g} Hz; a whole number is "
        f"needed. {option} = {here} would fit{both if len(set(rates)) > 1 else ''}; or set resample = 'nearest' or "
        "'linear' in this view."
    )


def _told(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in sorted(set(rates))) + " Hz"


def _windows_of_block(
    views: Sequence[View], features: Sequence[Sequence[Feature]], n: int, window_s: float, step_s: float
) -> int:
    """Windows of a block: 16 MiB of samples or of features, and much longer than what two blocks both read."""
    samples = sum(track.rate * step_s * len(track.channels) for view in views for track in view.tracks)
    windows = sum(samples_of(window_s, track.rate) * len(track.channels) for view in views for track in view.tracks)
    wide = sum(len(f.names(t.names)) for made, view in zip(features, views, strict=True)
               for f, t in zip(made, view.tracks, strict=True))  # fmt: skip
    rows = int(BLOCK_BYTES // (4 * max(samples, windows / 4, wide, 1)))
    return min(n, max(1, min(rows, MOST_WINDOWS), min(64, int(2 * window_s / step_s))))


def _identity(
    line: Timeline,
    recipes: Mapping[str, ViewRecipe],
    window_s: float,
    step_s: float,
    opener: Opener,
    scaling_from: str,
) -> str:
    """What tells these views from others: recipes, files with their sizes and dates, and some of their samples."""
    pieces = []
    seen: dict[tuple[Any, ...], str] = {}
    for view in line.views:
        for track in view.tracks:
            for piece in track.pieces:
                key = (piece.file, piece.signal, piece.columns)
                if key not in seen:
                    seen[key] = _sampled(piece, opener)
                pieces.append(
                    [view.name, piece.file.path, piece.file.stamp, piece.signal, piece.columns, piece.start_s,
                     piece.period_s, piece.n, seen[key]]
                )  # fmt: skip
    told = {name: recipe.to_dict() | {"source": None} for name, recipe in recipes.items()}
    return fingerprint(told, window_s, step_s, pieces, line.marks, scaling_from)


def _sampled(piece: Piece, opener: Opener) -> str:
    """A digest of a few samples at the beginning, in the middle and at the end."""
    signal, made = piece.file.open(opener).signals[piece.signal], hashlib.sha256()
    for first in sorted({0, piece.n // 2, max(0, piece.n - 4)}):
        X = signal.read(first, min(piece.n, first + 4), piece.columns)
        made.update(np.ascontiguousarray(X, dtype=np.float64).tobytes())
    return made.hexdigest()

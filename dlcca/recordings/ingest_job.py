"""What is to be ingested, small enough to send to every worker: views on one clock, their blocks and their stages.

The stages, in their order: `drafts` (`extract_windows`) reads the samples and writes unscaled features, `clock`
(`validity`) writes which windows are valid and how channels are scaled, `pca` and `views` (`scaling`) write the
features that cannot be scaled whenever they are read.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import fingerprint
from dlcca.errors import DataError, SettingsError
from dlcca.recordings.features import Feature, feature_of
from dlcca.recordings.formats.recording import Digital
from dlcca.recordings.timeline import File, Opener, Timeline, Track, View, lay_out
from dlcca.recordings.windows import rates_of, samples_of, window_and_step
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.blocks import Blocks

#: Samples, and features, of a block: enough that a task is worth its overhead, and few enough that memory is reused
#: (the C library returns allocations above 32 MiB to the system each time).
BLOCK_BYTES = 16 << 20
MOST_WINDOWS = 65_536
#: More windows than this are a mistake: two files of different years.
MOST_ON_CLOCK = 2_000_000_000


@dataclass(frozen=True)
class IngestJob:
    """Views of n windows on one clock, to be written to a store."""

    address: str
    views: tuple[View, ...]
    window_s: float
    step_s: float
    n: int  # windows on the clock
    rows: int  # windows of a block
    bad: tuple[tuple[float, float], ...]  # intervals annotated as BAD, in seconds
    inputs: str  # identity of files and recipes
    opener: Opener
    lenient: bool = False  # channels that are flat or saturated in all windows do not make these invalid
    scaling_from: str = ""  # a store whose scaling is used, instead of that of these recordings

    @property
    def n_blocks(self) -> int:
        return -(-self.n // self.rows)

    def bounds(self, block: int) -> tuple[int, int]:
        """First window of a block, and the one after its last."""
        return block * self.rows, min(self.n, (block + 1) * self.rows)

    def stage(self, name: str) -> Blocks:
        """The blocks of "drafts", "clock", "pca" or "views"."""
        return Blocks(self.address, name, self.inputs, 1 if name in ("clock", "pca") else self.n_blocks)

    def place_of_drafts(self, v: int) -> str:
        """The array of the unscaled features of a view: the view itself, if they are scaled when it is read."""
        return f"/views/{self.views[v].name}" if self.is_scaled_when_read(v) else f"draft_{v}"

    def place_of_scaling(self, v: int, array: str) -> str:
        """An array of the scaling of a view."""
        return f"/scaling/{self.views[v].name}/{array}"

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

    def width(self, v: int) -> int:
        """Features in a row of a view."""
        return self.views[v].recipe.pca_components or sum(self.dims[v])

    @property
    def scaled_later(self) -> list[int]:
        """The views that the stages after `clock` write."""
        return [v for v in range(len(self.views)) if not self.is_scaled_when_read(v)]

    def is_scaled_when_read(self, v: int) -> bool:
        """Whether a view is stored unscaled, and scaled whenever rows of it are read."""
        if self.views[v].recipe.pca_components:
            return False
        ones = [np.ones(len(track.channels)) for track in self.views[v].tracks]
        return all(feature.columns(one, one) is not None for feature, one in zip(self.features[v], ones, strict=True))

    @cached_property
    def digital(self) -> list[list[Digital | None]]:
        """For each view, the integers that the samples of its tracks are read as; None where values are read."""
        every = [[_digital(track, view.recipe, self.opener) for track in view.tracks] for view in self.views]
        return [[None] * len(held) if self._needs_values(v, held) else held for v, held in enumerate(every)]

    def _needs_values(self, v: int, held: list[Digital | None]) -> bool:
        """Whether raw samples have to be written as values: only integers of one dtype can be written as such."""
        is_raw = self.views[v].recipe.features.kind in ("raw", "delay")
        kinds = {None if digital is None else digital.dtype for digital in held}
        return is_raw and (None in kinds or len(kinds) > 1 or not self.is_scaled_when_read(v))

    def stored_as(self, v: int) -> np.dtype:
        """The dtype in which the unscaled features of a view are stored."""
        is_raw = self.views[v].recipe.features.kind in ("raw", "delay")
        digital = self.digital[v][0]
        return digital.dtype if is_raw and digital is not None else np.dtype(np.float32)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is derived from the rest."""
        return {key: value for key, value in self.__dict__.items() if key not in ("features", "dims", "digital")}


def make_job(
    address: str, recipes: Mapping[str, ViewRecipe], opener: Opener, scaling_from: str = ""
) -> tuple[IngestJob, Timeline]:
    """The job, from the headers of all files and a few samples."""
    line = lay_out(recipes, opener)
    window_s, step_s = window_and_step(line.views)
    end, fastest = max(view.span[1] for view in line.views), max(rates_of(line.views))
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
        rows=n,
        bad=bad,
        inputs=_identity(line, recipes, window_s, step_s, opener, scaling_from),
        opener=opener,
        scaling_from=scaling_from,
    )
    for view, dims in zip(job.views, job.dims, strict=True):
        if view.recipe.pca_components > sum(dims):
            raise SettingsError(
                f"view {view.name!r}: pca_components = {view.recipe.pca_components}, but it has {sum(dims)} features; "
                f"at most {sum(dims)} are possible."
            )
    return replace(job, rows=_windows_of_block(job)), line


def _features(view: View, window_s: float) -> list[Feature]:
    where = f"view {view.name!r}"
    if view.recipe.features.kind == "covariance" and len(view.tracks) > 1:
        rates = "; ".join(f"{', '.join(track.names[:3])} at {track.rate:g} Hz" for track in view.tracks)
        raise SettingsError(
            f"{where}: features = 'covariance' needs channels that were sampled together, these were not: {rates}. "
            "Choose the channels of one rate."
        )
    return [
        feature_of(view.recipe.features, samples_of(window_s, track.rate), track.rate, where) for track in view.tracks
    ]


def _windows_of_block(job: IngestJob) -> int:
    """Windows of a block: 16 MiB of samples or of features, and much longer than the overlap of two blocks."""
    held = written = copied = 0.0  # bytes for each window
    for v, k, track in job.tracks:
        c, digital = len(track.channels), job.digital[v][k]
        held += track.rate * job.step_s * c * (4 if digital is None else digital.dtype.itemsize)
        copied += job.samples(track) * c
        written += job.dims[v][k] * job.stored_as(v).itemsize
    rows = min(int(BLOCK_BYTES // max(held, copied, written, 1.0)), MOST_WINDOWS)
    rows = min(job.n, max(1, rows, min(64, int(2 * job.window_s / job.step_s))))
    return -(-job.n // -(-job.n // rows))  # blocks of about the same size, the last one too


def _digital(track: Track, recipe: ViewRecipe, opener: Opener) -> Digital | None:
    """The integers that a track is in all of its files; None if it is not, or if values are interpolated."""
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
    """The identity of the views: recipes, files with their sizes and dates, and some of their samples."""
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
    without_files = {name: recipe.to_dict() | {"source": None} for name, recipe in recipes.items()}
    return fingerprint(without_files, window_s, step_s, pieces, line.marks, scaling_from)


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


def packed(X: NDArray) -> dict[str, Any]:
    """A small array as JSON, to the bit, for the facts of a block: a Zarr array would take longer than its content."""
    X = np.ascontiguousarray(X)
    content = base64.b64encode(zlib.compress(X.tobytes(), 1) if X.dtype.kind in "iu" else X.tobytes()).decode()
    return {"dtype": X.dtype.str, "shape": list(X.shape), "content": content}


def unpacked(facts: dict[str, Any]) -> NDArray:
    """The array that `packed` was called with."""
    dtype, content = np.dtype(facts["dtype"]), base64.b64decode(facts["content"])
    return np.frombuffer(zlib.decompress(content) if dtype.kind in "iu" else content, dtype).reshape(facts["shape"])

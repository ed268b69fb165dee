"""What is to be ingested, small enough to send to every worker: views on one clock, their blocks and their stages.

The stages, in their order: `drafts` (`extract_windows`) reads the samples and writes unscaled features, `clock`
(`validity`) writes which windows are valid and how channels are scaled, `pca` and `views` (`scaling`) write the
features that cannot be scaled whenever they are read.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import fingerprint
from dlcca.errors import DataError, SettingsError
from dlcca.recordings.features import FEATURES, Feature
from dlcca.recordings.formats.recording import Digital
from dlcca.recordings.timeline import Opener, Piece, Timeline, Track, View
from dlcca.recordings.windows import positions, rates_of, samples_of, spans_of, window_and_step
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.blocks import Blocks

#: Samples, and features, of a block: enough that a task is worth its overhead, and few enough that memory is reused
#: (the C library returns allocations above 32 MiB to the system each time).
BLOCK_BYTES = 16 << 20
MOST_WINDOWS = 65_536
#: A covariance of more features than this, for a PCA, does not fit a small worker.
MOST_FEATURES = 4096
#: More windows than this are a mistake: two files of different years.
MOST_ON_CLOCK = 2_000_000_000


@dataclass(frozen=True, eq=False)
class WindowedTrack(Track):
    """A track of a view, and how features of its windows are computed."""

    key: str  # of its facts: the numbers of its view, and of itself within it
    recipe: ViewRecipe  # of its view
    samples: int  # of a window
    feature: Feature
    digital: Digital | None  # the integers that its samples are read as; None if values are read
    at: slice  # its channels among those of the view
    columns: slice  # its features among those of the view

    @property
    def between(self) -> bool:
        """Whether values are interpolated between samples."""
        return self.recipe.resample == "linear"


@dataclass(frozen=True, eq=False)
class WindowedView(View):
    """A view, and how its features are stored."""

    tracks: tuple[WindowedTrack, ...]
    features: int  # in a row, before the PCA
    stored_as: np.dtype  # of the unscaled features
    is_scaled_when_read: bool  # whether it is stored unscaled, and scaled whenever rows of it are read
    drafts: str  # the array of the unscaled features: the view itself, if they are scaled when it is read

    @property
    def width(self) -> int:
        """Features in a row."""
        return self.recipe.pca_components or self.features

    @property
    def of_channels(self) -> dict[str, list[Any]]:
        """Names, units, kinds and rates of its channels."""
        every = [(c.name, c.unit, c.kind, track.rate) for track in self.tracks for c in track.channels]
        return dict(zip(("channels", "units", "kinds", "rates"), map(list, zip(*every, strict=True)), strict=True))

    def scaling(self, array: str) -> str:
        """The place of an array of its scaling."""
        return f"/scaling/{self.name}/{array}"


@dataclass(frozen=True, eq=False)
class IngestJob:
    """Views of n windows on one clock, to be written to a store."""

    address: str
    views: tuple[WindowedView, ...]
    window_s: float
    step_s: float
    n: int  # windows on the clock
    rows: int  # windows of a block
    bad: tuple[tuple[float, float], ...]  # intervals annotated as BAD, in seconds
    inputs: str  # identity of files and recipes
    lenient: bool  # channels that are flat or saturated in all windows do not make these invalid
    scaling: Mapping[str, NDArray]  # that of a model, used instead of that of these recordings; empty for none

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"scaling": {}}  # which only the process that runs the stages needs

    @property
    def n_blocks(self) -> int:
        return -(-self.n // self.rows)

    def bounds(self, block: int) -> tuple[int, int]:
        """First window of a block, and the one after its last."""
        return block * self.rows, min(self.n, (block + 1) * self.rows)

    def stage(self, name: str) -> Blocks:
        """The blocks of "drafts", "clock", "pca" or "views"."""
        return Blocks(self.address, name, self.inputs, 1 if name in ("clock", "pca") else self.n_blocks)

    @property
    def tracks(self) -> list[WindowedTrack]:
        """The tracks of all views."""
        return [track for view in self.views for track in view.tracks]

    @property
    def scaled_later(self) -> list[WindowedView]:
        """The views that the stages after `clock` write."""
        return [view for view in self.views if not view.is_scaled_when_read]

    def spans(self, track: WindowedTrack, piece: int, first: int, last: int) -> tuple[NDArray, NDArray]:
        """Those of the windows first to last (not included) that lie in a piece, and their samples (w, 2): from, to."""
        windows, of = np.arange(first, last), track.pieces[piece]
        ends = positions(windows, self.step_s, (0, track.samples - 1), track.rate, of.start_s, of.period_s)
        here, spans = spans_of(ends, of.n, between=track.between)
        return windows[here], spans


def prepared(
    address: str,
    recipes: Mapping[str, ViewRecipe],
    opener: Opener | None = None,
    *,
    lenient: bool = False,
    scaling: Mapping[str, NDArray] | None = None,
) -> tuple[IngestJob, Timeline]:
    """The job and the files on their clock; reads headers and a few samples.

    ``lenient`` ignores channels that are flat or saturated throughout; ``scaling`` has the arrays ("scaling/NAME/...")
    of a model, used instead of the scaling of these recordings.
    """
    line = Timeline(recipes, opener)
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
    views = tuple(_windowed(v, view, window_s) for v, view in enumerate(line.views))
    bad = tuple((first, last) for first, last, text in line.marks if text.strip().lower().startswith("bad"))
    contents = [_identity(view, piece) for view in line.views for track in view.tracks for piece in track.pieces]
    without_files = {name: recipe.to_dict() | {"source": None} for name, recipe in recipes.items()}
    inputs = fingerprint(without_files, window_s, step_s, contents, line.marks, scaling or "")
    inputs = fingerprint(inputs, "lenient") if lenient else inputs
    rows = _windows_of_block(views, n, window_s, step_s)
    return IngestJob(address, views, window_s, step_s, n, rows, bad, inputs, lenient, scaling or {}), line


def _windowed(v: int, view: View, window_s: float) -> WindowedView:
    """A view with the features of its windows; an error if they cannot be computed."""
    recipe, where = view.recipe, f"view {view.name!r}"
    if recipe.features.kind == "covariance" and len(view.tracks) > 1:
        rates = "; ".join(f"{', '.join(track.names[:3])} at {track.rate:g} Hz" for track in view.tracks)
        raise SettingsError(
            f"{where}: features = 'covariance' needs channels that were sampled together, these were not: {rates}. "
            "Choose the channels of one rate."
        )
    kind, samples = recipe.features.kind, [samples_of(window_s, track.rate) for track in view.tracks]
    try:
        features = [FEATURES[kind](recipe.features, s, t.rate) for s, t in zip(samples, view.tracks, strict=True)]
    except ValueError as error:
        raise SettingsError(f"{where}: features = {kind!r}: {error}.") from error
    one = np.ones(1)
    is_scaled_when_read = not recipe.pca_components and all(f.columns(one, one) is not None for f in features)
    digital = [_digital(track, recipe) for track in view.tracks]
    stored_as = np.dtype(np.float32)
    if kind in ("raw", "delay"):  # raw samples are stored as integers if all are of one dtype
        kinds = {numbers.dtype for numbers in digital if numbers is not None}
        if is_scaled_when_read and len(kinds) == 1 and None not in digital:
            (stored_as,) = kinds
        else:
            digital = [None] * len(digital)
    tracks: list[WindowedTrack] = []
    c = d = 0
    for k, track in enumerate(view.tracks):
        at = slice(c, c + len(track.channels))
        columns = slice(d, d + features[k].width(len(track.channels)))
        more = f"{v}_{k}", recipe, samples[k], features[k], digital[k], at, columns
        tracks.append(WindowedTrack(track.channels, track.rate, track.pieces, *more))
        c, d = at.stop, columns.stop
    if recipe.pca_components > d:
        raise SettingsError(
            f"{where}: pca_components = {recipe.pca_components}, but it has {d} features; at most {d} are possible."
        )
    if recipe.pca_components and d > MOST_FEATURES:
        raise DataError(
            f"{where} has {d} features; a PCA is for at most {MOST_FEATURES}. Choose a shorter window, fewer channels "
            "or other features."
        )
    drafts = f"/views/{view.name}" if is_scaled_when_read else f"draft_{v}"
    return WindowedView(view.name, recipe, tuple(tracks), d, stored_as, is_scaled_when_read, drafts)


def _windows_of_block(views: Sequence[WindowedView], n: int, window_s: float, step_s: float) -> int:
    """Windows of a block: 16 MiB of samples or of features, and much longer than the overlap of two blocks."""
    held = written = copied = 0.0  # bytes for each window
    for view in views:
        written += view.features * view.stored_as.itemsize
        for track in view.tracks:
            held += track.rate * step_s * len(track.channels) * (track.digital.dtype.itemsize if track.digital else 4)
            copied += track.samples * len(track.channels)
    rows = min(int(BLOCK_BYTES // max(held, copied, written, 1.0)), MOST_WINDOWS)
    rows = min(n, max(1, rows, min(64, int(2 * window_s / step_s))))
    return -(-n // -(-n // rows))  # blocks of about the same size, the last one too


def _digital(track: Track, recipe: ViewRecipe) -> Digital | None:
    """The integers that a track is in all of its files; None if it is not, or if values are interpolated."""
    every = [piece.file.recording.signals[piece.signal].digital for piece in track.pieces]
    if recipe.resample == "linear" or None in every:
        return None
    first, *others = (numbers.of(piece.columns) for numbers, piece in zip(every, track.pieces, strict=True) if numbers)
    return first if first.is_exact and all(first.is_like(other) for other in others) else None


def _identity(view: View, piece: Piece) -> list[Any]:
    """What identifies a piece: its file with size and date, and some samples of its beginning, middle and end."""
    signal = piece.file.recording.signals[piece.signal]
    firsts = sorted({0, signal.n // 2, max(0, signal.n - 4)})
    parts = [signal.read(first, min(signal.n, first + 4), piece.columns) for first in firsts]
    digest = hashlib.sha256(b"".join(np.asarray(X, np.float64).tobytes() for X in parts)).hexdigest()
    place = piece.signal, piece.columns, piece.start_s, piece.period_s, piece.n
    return [view.name, piece.file.path, piece.file.stamp, *place, digest]


def packed(X: NDArray) -> dict[str, Any]:
    """A small array as JSON, to the bit, for the facts of a block: a Zarr array would take longer than its content."""
    X = np.ascontiguousarray(X)
    content = base64.b64encode(zlib.compress(X.tobytes(), 1) if X.dtype.kind in "iu" else X.tobytes()).decode()
    return {"dtype": X.dtype.str, "shape": list(X.shape), "content": content}


def unpacked(facts: dict[str, Any]) -> NDArray:
    """The array that `packed` was called with."""
    dtype, content = np.dtype(facts["dtype"]), base64.b64decode(facts["content"])
    return np.frombuffer(zlib.decompress(content) if dtype.kind in "iu" else content, dtype).reshape(facts["shape"])

"""Checks of the fitted model on some rows: two tasks, when all coordinates are there.

Among them are fits to halves: with half of the landmarks, and to half of the rows.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.engine.work import OnProgress, collect
from dlcca.errors import DataError, SettingsError
from dlcca.fitting import embed, landmarks, metric, readout, spectrum
from dlcca.fitting.embed import fitted, model_of, rows_apart
from dlcca.fitting.job import HALVED_ENTRIES, Job, halved_rows, memory_job
from dlcca.model import Model
from dlcca.numerics.landmarks import evenly
from dlcca.settings.auto import matched_rows
from dlcca.settings.fit import Settings
from dlcca.trust.quality import Checks, Half, checks_of, linear_cca_r2
from dlcca.trust.scores import Reproduced, linear_r2, reproduced, split_rows
from dlcca.views import Views

#: Rows whose coordinates are checked, at most, from all blocks.
MANY_ROWS = 1 << 16
#: Entries of `Checks` that are arrays.
ARRAYS = ("half_r2", "half_r2_more", "carriers", "again", "linear")
#: Splits of some rows into halves, to see what is reproduced, and landmarks of a half: a tenth of a small run.
SPLITS, LANDMARKS_OF_HALF = 1, 200

#: Landmarks of which half are tried alone: of fewer there is no half, and more are many enough.
FEWEST_HALVED, MOST_HALVED = 16, 4096
#: Blocks of rows that are dealt out to the halves, each at least so many windows long; and the fewest rows of a half.
BLOCKS, WINDOWS_OF_BLOCK, FEWEST_ROWS = 20, 4, 32
#: Additional coordinates of a half: the second of all rows may be its third.
MORE = 2
#: Of a long recording, at most so many rows in stretches, so many here and there (storage unpacks a chunk for each),
#: and so many numbers in all views together.
MOST_ROWS, MOST_ENTRIES = 4000, HALVED_ENTRIES


def _check(job: Job, stage: Blocks, client: Any, on_progress: OnProgress | None) -> None:
    """Fits to halves of the rows are a task of their own. In memory they would take too long: see `dlcca.stability`."""
    found = collect(part, job, 1 if job.in_memory else 2, client, on_progress, (), name=stage.name)
    stage.write(0, {}, reduce(or_, found))


def part(job: Job, number: int) -> dict[str, Any]:
    """The facts that one of the tasks finds."""
    if number == 0:
        return _of_model(job)
    again = _again(job)
    return {} if again is None else {"again": again.tolist()}


def _of_model(job: Job) -> dict[str, Any]:
    model, some = model_of(job), job.checked_rows
    arrays = [job.read(v, some) for v in range(job.K)]
    E = model.coordinates(arrays)
    settings = job.settings.with_options(**readout.chosen(job))  # fits to halves have the same coordinates
    solved = spectrum.SPECTRUM.of(job).facts(0)
    found = checks_of(model, arrays, _many(job), half_fit(model, arrays, E, settings), int(solved["pieces"]))
    name = "outliers" if readout.kind(job).are_eigenfunctions else "stray"
    known = {name: solved[name]}
    found = replace(found, linear=linear_cca_r2(arrays, E), **known)
    return asdict(found) | {name: x.tolist() for name in ARRAYS if (x := getattr(found, name)) is not None}


def _again(job: Job) -> NDArray[np.float64] | None:
    """How well each coordinate is reproduced by fits to halves of some rows; None where it cannot be measured."""
    if not isinstance(job.options["neighborhoods"], str):
        return None
    if (found := rows_for_halves(job.n, job.dims, job.settings, job.segments)) is None:
        return None
    rows, segments = found
    model = model_of(job)
    views = Views(tuple(job.read(v, rows) for v in range(job.K)), model.names)
    settings = job.settings.with_options(**readout.chosen(job))
    settings = settings.with_options(neighbor_index="exact")  # an index of few rows is not worth its compilation
    m, rng = min(model.n_landmarks, LANDMARKS_OF_HALF), np.random.default_rng(0)
    E = model.coordinates(views.arrays)
    try:
        return from_halves(E, views, settings, m, rng, segments=segments, n_splits=SPLITS).reproducibility
    except (DataError, SettingsError):  # these rows are too few or too much alike for a fit; all of them were not
        return None


def _many(job: Job) -> NDArray[np.float64]:
    """Coordinates of rows from every block, evenly; all of them if they are not too many."""
    done, step = embed.EMBEDDING.of(job), -(-job.n_moments // MANY_ROWS)
    parts = [done.read("/embedding", b)[-(b * job.rows) % step :: step] for b in range(done.n_blocks)]
    E = np.concatenate(parts).astype(np.float64)
    return E[np.isfinite(E).all(axis=1)]


def from_halves(
    E: NDArray,
    views: Views,
    settings: Settings,
    m: int,
    rng: np.random.Generator,
    *,
    segments: NDArray[np.int64] | None = None,
    n_splits: int = 4,
) -> Reproduced:
    """How well coordinates E (n, q) of these rows are reproduced by fits to halves of them, with m landmarks each.

    The settings are those of the model that E is of, without any "auto", ``segments`` (n,) numbers of unbroken
    stretches, which windows of time do not cross. The rows are halved ``n_splits`` times.
    """
    refuse(settings, views.n)
    own = _of_half(settings, views.n, m)
    more = own.with_options(n_components=max(int(own.spectrum.n_components), min(E.shape[1] + MORE, m - 2)))
    blocks = int(np.clip(views.n // (WINDOWS_OF_BLOCK * rows_apart(settings)) // 2 * 2, 2, BLOCKS))
    made = []
    for _ in range(n_splits):
        *halves, block = split_rows(views.n, blocks, rng)
        cut = _cut(block, segments)
        one, two = (_fitted(views[half], more, own, rng, cut[half]) for half in halves)
        made.append((one.coordinates(views.present), two.coordinates(views.present)))
    return reproduced(E, made)


def refuse(settings: Settings, n: int) -> None:
    """An error if rows with these neighborhoods cannot be halved."""
    if not isinstance(settings.neighborhoods.kind, str):
        raise SettingsError(
            "neighborhoods were given as row numbers, and those of half the rows are not known; stability is of models "
            "with neighborhoods='time' or 'knn'."
        )
    if n < 2 * FEWEST_ROWS:
        raise DataError(f"{n} samples cannot be halved; stability needs at least {2 * FEWEST_ROWS}.")
    width = rows_apart(settings)
    if n < 4 * width:
        raise DataError(
            f"{n} samples cannot be halved where window={width}; stability needs at least {4 * width}, so that a half "
            "holds two windows. Give a longer recording, or choose a shorter window."
        )


def rows_for_halves(
    n: int, dims: Sequence[int], settings: Settings, segments: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None] | None:
    """Rows of a long recording that represent its halves, and the unbroken stretch of each; None if they are too few.

    Windows of time need rows that follow each other: an even number of equally long stretches, evenly over all. Without
    windows any rows will do.
    """
    width = rows_apart(settings)
    most = min(n, MOST_ROWS, MOST_ENTRIES // sum(dims)) if width > 1 else halved_rows(n, sum(dims))
    if width == 1:
        return (evenly(n, most), None) if most >= 2 * FEWEST_ROWS else None
    if n > most:
        length = max(most // BLOCKS, WINDOWS_OF_BLOCK * width)
        count = most // length // 2 * 2
        if count < 2:
            return None
        first = np.arange(count) * (n - length) // (count - 1)
        rows = (first[:, None] + np.arange(length)).ravel()
        return rows, _cut(np.repeat(np.arange(count), length), None if segments is None else segments[rows])
    return (np.arange(n), segments) if n >= max(2 * FEWEST_ROWS, 4 * width) else None


def _of_half(settings: Settings, n: int, m: int) -> Settings:
    """The same for half the rows: not more landmarks or neighbors than there are."""
    least = int(np.floor(0.4 * n))  # blocks are not all of one length
    m, k = min(m, least), min(int(settings.neighborhoods.n_neighbors), least)
    rule, subset = settings.landmarks.rule, settings.neighborhoods.neighbor_rows
    subset = subset if isinstance(subset, str) else matched_rows(k, m, int(settings.kernel.n_links))
    rule = "even" if rule == "auto" else rule
    return settings.with_options(landmarks=m, landmark_rule=rule, n_neighbors=k, neighbor_rows=subset)


def _cut(block: NDArray[np.int64], segments: NDArray | None) -> NDArray[np.int64]:
    """Stretches that a window may not leave: those of the recording, cut at the edges of the blocks."""
    if segments is None:
        return block
    new = np.flatnonzero((np.diff(block) != 0) | (np.diff(segments) != 0))
    return np.searchsorted(new, np.arange(len(block)), side="left")


def _fitted(views: Views, more: Settings, own: Settings, rng: np.random.Generator, segments: NDArray) -> Model:
    """The model alone, without its quality; with ``more`` coordinates if the kernel has enough rank for them."""
    job = memory_job(views.present, views.names, more, int(rng.integers(1 << 63)), segments)
    try:
        return fitted(job)
    except SettingsError:
        return fitted(replace(job, settings=own))


def half_fit(whole: Model, arrays: list[NDArray], embedding: NDArray, settings: Settings) -> Half | None:
    """R² of the embedding of some samples, predicted from a fit with every other landmark.

    None if there are too few landmarks to halve, or so many that half would do. ``arrays`` are the views, and
    ``embedding`` (s, q) the coordinates, of these samples.
    """
    q, L = int(settings.spectrum.n_components), whole.n_landmarks
    kept = np.arange(0, L, 2)
    if not FEWEST_HALVED <= L <= MOST_HALVED or q + 2 > len(kept):
        return None
    rows = len(embedding) + np.arange(len(kept))  # landmarks need not be among these samples
    wider = settings.with_options(n_components=q + 1, solver="gram", landmarks=rows)
    job = memory_job(arrays, whole.names, wider)
    landmarks.fill(job, rows, [P[kept] for P in whole.points])
    metric.fill(job, [F[kept] for F in whole.factors])
    try:
        model = fitted(job)
    except (DataError, SettingsError):  # the distances of these samples are all zero, or their kernel has no such rank
        return None
    S, other = spectrum.eigenvalues(job), model.coordinates(arrays)
    gap = (S[q] - S[q + 1]) / max(1 - S[q + 1], spectrum.LEAST_EIGENVALUE)
    return linear_r2(embedding, other[:, :q]), linear_r2(embedding, other), float(gap)


def result(job: Job) -> Checks:
    """What was found."""
    facts = CHECKS.of(job).facts(0)
    return Checks(**facts | {name: np.array(facts[name]) for name in ARRAYS if facts.get(name) is not None})


def _cost(job: Job) -> dict[str, float]:
    """A fit with half the landmarks to some rows, two fits to halves of some, and checks of many coordinates."""
    m, some = landmarks.count(job), min(job.n, 1024)
    half, kept = m / 2, min(m, LANDMARKS_OF_HALF)
    halved = min(job.n, MOST_ROWS, MOST_ENTRIES // job.width)
    held = max(4 * half**2 * 8 + some * m * 16.0, 4.0 * halved * (job.width + kept) * 8)
    read = float(job.n) * job.q * job.itemsize
    return {
        "tasks": 2,
        "products": 2.0 * some * half * half + 4.0 * (some * m + 3 * halved * kept) * job.width,
        "decompositions": 10.0 * half**3 if m <= MOST_HALVED else 0.0,
        "reads": read + job.touched_bytes(some) + job.touched_bytes(halved // 2),
        "memory": 2.0 * m * job.width * metric.rank(job) * 8 + held,
    }


CHECKS = Stage(
    "checks",
    after=[embed.EMBEDDING],
    drive=_check,
    says=lambda job: f"{job.q} coordinates",
    cost=_cost,
    reads="some rows",
    leaves="checks of the kernel, and of the result by fits to halves",
)

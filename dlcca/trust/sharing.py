"""What the views share: at every landmark, and over all of a recording, against what they would share by chance.

Its cost is bounded whatever the recording: some tens of local decompositions for each of 38 surrogates, and one small
test at each landmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.landmarks import evenly
from dlcca.numerics.neighborhoods import joint_space, squared_distances
from dlcca.numerics.windows import roomy, time_windows
from dlcca.settings.fit import Settings
from dlcca.trust import rhythms
from dlcca.trust.components import all_steps, first_step, leading, n_directions
from dlcca.trust.quality import LEVEL, Common
from dlcca.trust.significance import Tested, n_significant, p_values
from dlcca.trust.surrogates import WINDOW_SAMPLES, Bases, Compared, Measure, knn_bases, shift_test, windows_bases

#: Entries of the neighborhoods gathered at once.
BATCH_ENTRIES = 1 << 22
#: Fewer surrogates than this cannot be significant at `LEVEL`.
FEWEST_SURROGATES = 19
#: Distances to landmarks that are worth making to tell the strength of a row that is in no neighborhood.
STRENGTH_ENTRIES = 1 << 27

#: A view (n, d), of which some rows are asked for: an array, or whatever reads them when they are.
Rows = Any


@dataclass(frozen=True)
class Chance:
    """What views that share nothing would show."""

    p: float | None  # that such views look like these; None if there are too few rows to tell
    against: str  # the surrogates: views "shifted", or at other "speeds"
    samples: float  # independent samples that a neighborhood is worth
    by_chance: float  # the largest squared correlation that shifted views reach, the mean


@dataclass(frozen=True)
class AtLandmarks:
    """What is looked at in the neighborhoods of m landmarks."""

    test: Tested
    radius: NDArray[np.float64]  # (m, K) root of the total variance
    condition: NDArray[np.float64]  # (m, K) the largest variance over the least that is not zero


def chance_of(
    arrays: Sequence[Rows],
    k: int,
    settings: Settings,
    segments: NDArray[np.int64] | None = None,
    given: NDArray[np.int64] | None = None,
) -> Chance:
    """Two or more views against surrogates; k samples make a neighborhood, ``given`` (m, k) if the user gave them."""
    surrogates, found, against = compared_of(arrays, k, settings, segments, given)
    return chance_from(surrogates, against, found.p if len(found.surrogates) >= FEWEST_SURROGATES else None, k)


def compared_of(
    arrays: Sequence[Rows],
    k: int,
    settings: Settings,
    segments: NDArray[np.int64] | None = None,
    given: NDArray[np.int64] | None = None,
) -> tuple[Compared, Compared, str]:
    """The views against shifted ones; against the surrogates that tell whether they share; and which these are."""
    measure, places = _measure(arrays, k, settings, segments, given)
    surrogates = shift_test(measure, places, len(arrays))
    views = [rhythms.rhythm(X) for X in arrays]
    if all(rhythms.forecast(Z) >= rhythms.STEADY for Z in views):
        return surrogates, rhythms.speed_test(views), "speeds"
    return surrogates, surrogates, "shifted"


def chance_from(surrogates: Compared, against: str, p: float | None, k: int) -> Chance:
    """What chance gives, from the views against shifted ones, and the p-value of a test that may be another."""
    return Chance(
        p=p,
        against=against,
        samples=min(float(k), surrogates.samples or 0.0),
        by_chance=_by_chance(surrogates, against),
    )


def _by_chance(surrogates: Compared, against: str) -> float:
    """Views that repeat themselves are as much alike when shifted: that is no measure of chance."""
    return min(surrogates.by_chance or 0.0, 1 - 1e-9) if against == "shifted" else 0.0


def _measure(
    arrays: Sequence[Rows],
    k: int,
    settings: Settings,
    segments: NDArray[np.int64] | None,
    given: NDArray[np.int64] | None,
) -> tuple[Measure, int]:
    bases, places = bases_of(arrays, k, settings, segments, given)
    return lambda shifts: first_step(bases(shifts)), places


def bases_of(
    arrays: Sequence[Rows],
    k: int,
    settings: Settings,
    segments: NDArray[np.int64] | None = None,
    given: NDArray[np.int64] | None = None,
) -> tuple[Bases, int]:
    """Neighborhoods as the fit has them, but not at its landmarks: these may be few, or chosen by their values."""
    if given is not None:
        return windows_bases(arrays, given)
    if settings.neighborhoods.kind == "knn":
        return knn_bases(arrays, k)
    n = len(arrays[0])
    rows = np.arange(n) if segments is None else np.flatnonzero(roomy(segments, k))
    rows = rows[evenly(len(rows), min(len(rows), WINDOW_SAMPLES))]
    return windows_bases(arrays, time_windows(n, rows, k, segments))


def at_landmarks(arrays: Sequence[NDArray], neighbors: NDArray[np.int64], ranks: NDArray) -> AtLandmarks:
    """The sequential test at every landmark; ``neighbors`` (m, k) are rows, ``ranks`` (m, K) those of the views."""
    k, widest = neighbors.shape[1], sum(X.shape[1] for X in arrays)
    batch = max(1, BATCH_ENTRIES // (k * widest))
    parts, radius, condition = [], [], []
    for first in range(0, len(neighbors), batch):
        some = neighbors[first : first + batch]
        views = [leading(X[some], n_directions(k)) for X in arrays]
        parts.append(all_steps([view.scores for view in views]))
        radius.append(np.column_stack([np.sqrt(view.variances.sum(axis=1)) for view in views]))
        last = np.maximum(ranks[first : first + batch] - 1, 0)
        least = [np.take_along_axis(view.variances, last[:, [v]], axis=1)[:, 0] for v, view in enumerate(views)]
        condition.append(np.column_stack([_ratio(V.variances[:, 0], x) for V, x in zip(views, least, strict=True)]))
    return AtLandmarks(_joined(parts), np.concatenate(radius), np.concatenate(condition))


def _ratio(largest: NDArray, least: NDArray) -> NDArray[np.float64]:
    return np.divide(largest, least, out=np.full(len(least), np.inf), where=least > 0)


def _joined(parts: Sequence[Tested]) -> Tested:
    names = ("statistic", "freedom", "penalty", "top", "shared")
    return Tested(*(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in names))


def common_of(chance: Chance, found: AtLandmarks) -> Common:
    """What the views share, at every landmark and over all."""
    p = p_values(found.test, chance.samples)
    return Common(
        p=chance.p,
        against=chance.against,
        count=n_significant(p, LEVEL),
        p_values=p[:, 0],
        strength=np.clip((found.test.top.min(axis=0) ** 2 - chance.by_chance) / (1 - chance.by_chance), 0, 1),
        radius=found.radius,
        condition=found.condition,
        samples=chance.samples,
        by_chance=chance.by_chance,
    )


def strength_in_neighborhoods(n: int, neighborhoods: Iterable[NDArray], strengths: Iterable[NDArray]) -> NDArray:
    """The mean strength (n,) of the neighborhoods that each row belongs to; NaN for a row that is in none.

    ``neighborhoods`` are parts (m_i, k) of all landmarks, ``strengths`` (m_i,) what was found there.
    """
    total, times = np.zeros(n), np.zeros(n, np.int64)
    for rows, strength in zip(neighborhoods, strengths, strict=True):
        total += np.bincount(rows.ravel(), np.repeat(strength, rows.shape[1]), minlength=n)
        times += np.bincount(rows.ravel(), minlength=n)
    return np.where(times > 0, total / np.maximum(times, 1), np.nan)


def between_landmarks(found: NDArray, rows: NDArray[np.int64], strength: NDArray) -> NDArray[np.float64]:
    """Strengths (n,) whose NaN are filled with what lies between the landmarks before and after them in time."""
    alone, order = np.flatnonzero(np.isnan(found)), np.argsort(rows)
    found = found.copy()
    found[alone] = np.interp(alone, rows[order], strength[order])
    return found


def strength_of_rows(
    arrays: Sequence[NDArray],
    rows: NDArray[np.int64],
    neighbors: NDArray[np.int64],
    strength: NDArray,
    settings: Settings,
) -> NDArray[np.float64]:
    """The common strength of every row, (n,): the mean over the neighborhoods that it belongs to.

    A row in none has that between the landmarks before and after it in time; with nearest neighbours, that of the
    nearest landmark.
    """
    n = len(arrays[0])
    found = strength_in_neighborhoods(n, [neighbors], [strength])
    alone = np.flatnonzero(np.isnan(found))
    by_state = isinstance(settings.neighborhoods.kind, str) and settings.neighborhoods.kind == "knn"
    if by_state and len(alone) * len(rows) <= STRENGTH_ENTRIES:
        scaled = joint_space(arrays)
        for first in range(0, len(alone), 1024):
            some = alone[first : first + 1024]
            D = np.maximum.reduce([squared_distances(X[some], X[rows]) for X in scaled])
            found[some] = strength[D.argmin(axis=1)]
    return between_landmarks(found, rows, strength)

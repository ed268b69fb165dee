"""What is looked at, in arrays in memory, before a fit is called good: what the views share, and what the kernel does.

Its cost is bounded whatever the recording: some tens of local decompositions for each of 38 surrogates, one small test
at each landmark, and a fit to a thousand rows with half the landmarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.model import Model, fused_rows
from dlcca.numerics import rhythms
from dlcca.numerics.components import all_steps, leading, n_directions
from dlcca.numerics.coordinates import carriers, independent
from dlcca.numerics.landmarks import evenly
from dlcca.numerics.neighborhoods import joint_space, squared_distances
from dlcca.numerics.novelty import nearest_distances
from dlcca.numerics.pieces import landmarks_seen, n_pieces
from dlcca.numerics.significance import Tested, n_significant, p_values
from dlcca.numerics.surrogates import (
    WINDOW_SAMPLES,
    Compared,
    Measure,
    knn_measure,
    shift_test,
    windows_measure,
)
from dlcca.numerics.windows import roomy, time_windows
from dlcca.quality import CONNECTED, FEWEST_CARRIERS, LEVEL, Checks, Common
from dlcca.settings import Settings

#: R² of the coordinates by those of half the landmarks, the same with one coordinate more there, and the eigengap.
Half = tuple[NDArray, NDArray, float]

#: Entries of the neighborhoods gathered at once.
BATCH_ENTRIES = 1 << 22
#: Fewer surrogates than this cannot be significant at `LEVEL`.
FEWEST_SURROGATES = 19
#: Rows in which the kernel is looked at.
SOME_ROWS = 1024
#: A row is far from all landmarks when the nearest is so many times as far as landmarks are from each other.
FAR = 3.0
#: Distances to landmarks that are worth making to tell the strength of a row that is in no neighborhood.
STRENGTH_ENTRIES = 1 << 27


def common_of(
    arrays: list[NDArray],
    neighbors: NDArray[np.int64],
    ranks: NDArray,
    settings: Settings,
    segments: NDArray[np.int64] | None = None,
) -> Common | None:
    """What the views share, at every landmark and over all; None for one view.

    ``neighbors`` (m, k) are the rows of each landmark's neighborhood, ``ranks`` (m, K) of the views there.
    """
    if len(arrays) < 2:
        return None
    surrogates = _shifted(arrays, neighbors, settings, segments)
    found, against = surrogates, "shifted"
    views = [rhythms.rhythm(X) for X in arrays]
    if all(rhythms.forecast(Z) >= rhythms.STEADY for Z in views):
        found, against = rhythms.speed_test(views), "speeds"
    test, radius, condition = _local(arrays, neighbors, ranks)
    k = neighbors.shape[1]
    samples = min(float(k), surrogates.samples or 0.0)
    p = p_values(test, samples)
    enough = len(found.surrogates) >= FEWEST_SURROGATES
    # Views that repeat themselves are as much alike when shifted: that is no measure of chance.
    by_chance = min(surrogates.by_chance or 0.0, 1 - 1e-9) if against == "shifted" else 0.0
    return Common(
        p=found.p if enough else None,
        against=against,
        count=n_significant(p, LEVEL),
        p_values=p[:, 0],
        strength=np.clip((test.top.min(axis=0) ** 2 - by_chance) / (1 - by_chance), 0, 1),
        radius=radius,
        condition=condition,
        samples=samples,
        by_chance=by_chance,
    )


def _shifted(
    arrays: list[NDArray], neighbors: NDArray[np.int64], settings: Settings, segments: NDArray[np.int64] | None
) -> Compared:
    measure, places = _measure(arrays, neighbors, settings, segments)
    return shift_test(measure, places, len(arrays))


def _measure(
    arrays: list[NDArray], neighbors: NDArray[np.int64], settings: Settings, segments: NDArray[np.int64] | None
) -> tuple[Measure, int]:
    """Neighborhoods as the fit has them, but not at its landmarks: these may be few, or chosen by their values."""
    kind, n = settings.neighborhoods.kind, len(arrays[0])
    if not isinstance(kind, str):
        return windows_measure(arrays, neighbors)
    if kind == "knn":
        return knn_measure(arrays, neighbors.shape[1])
    width = neighbors.shape[1]
    rows = np.arange(n) if segments is None else np.flatnonzero(roomy(segments, width))
    rows = rows[evenly(len(rows), min(len(rows), WINDOW_SAMPLES))]
    return windows_measure(arrays, time_windows(n, rows, width, segments))


def _local(
    arrays: list[NDArray], neighbors: NDArray[np.int64], ranks: NDArray
) -> tuple[Tested, NDArray[np.float64], NDArray[np.float64]]:
    """The sequential test at every landmark, with the radius and the condition (m, K) of its neighborhood."""
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
    return _joined(parts), np.concatenate(radius), np.concatenate(condition)


def _ratio(largest: NDArray, least: NDArray) -> NDArray[np.float64]:
    return np.divide(largest, least, out=np.full(len(least), np.inf), where=least > 0)


def _joined(parts: Sequence[Tested]) -> Tested:
    names = ("statistic", "freedom", "penalty", "top", "shared")
    return Tested(*(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in names))


def strength_of_rows(
    arrays: list[NDArray],
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
    total = np.bincount(neighbors.ravel(), np.repeat(strength, neighbors.shape[1]), minlength=n)
    times = np.bincount(neighbors.ravel(), minlength=n)
    found = total / np.maximum(times, 1)
    alone = np.flatnonzero(times == 0)
    by_state = isinstance(settings.neighborhoods.kind, str) and settings.neighborhoods.kind == "knn"
    if by_state and len(alone) * len(rows) <= STRENGTH_ENTRIES:
        scaled = joint_space(arrays)
        for first in range(0, len(alone), 1024):
            some = alone[first : first + 1024]
            D = np.maximum.reduce([squared_distances(X[some], X[rows]) for X in scaled])
            found[some] = strength[D.argmin(axis=1)]
        return found
    order = np.argsort(rows)
    found[alone] = np.interp(alone, rows[order], strength[order])
    return found


def checks_of(
    model: Model, arrays: list[NDArray], embedding: NDArray, eigenvalues: NDArray, half: Half | None
) -> Checks:
    """What the kernel and the coordinates look like; ``half`` is what `fitting.half_fit` found, or None."""
    told, more, gap = half or (None, None, None)
    some = evenly(len(arrays[0]), min(len(arrays[0]), SOME_ROWS))
    kernels = kernels_of(model, [X[some] for X in arrays])
    carried = carriers(embedding)
    return Checks(
        pieces=n_pieces(kernels_of(model, arrays)) if (eigenvalues[1:] > CONNECTED).any() else 1,
        far=_far(model, arrays, some),
        seen=float(min(np.median(landmarks_seen(W)) for W in kernels)),
        could_see=model.n_links or model.n_landmarks,
        told=told,
        told_by_more=more,
        gap=gap,
        independent=independent(embedding, carried >= FEWEST_CARRIERS),
        carriers=carried,
    )


def kernels_of(model: Model, arrays: list[NDArray]) -> list[Any]:
    """The rows of every kernel, up to a factor of each row."""
    if model.fusion == "alternating":
        return [model.view_rows(v, arrays[v]) for v in model.needed]
    return [fused_rows(model.distances(arrays), model.n_links)]


def _far(model: Model, arrays: list[NDArray], some: NDArray[np.int64]) -> float:
    """The share of the rows whose nearest landmark is far, in the view in which it is farthest."""
    far = np.zeros(len(some), bool)
    for v in model.needed:
        points = model.points[v]
        picked = points[evenly(len(points), min(len(points), SOME_ROWS))]
        # Of a landmark to the nearest other: the second nearest of all, itself being the nearest.
        apart = np.sqrt(np.partition(squared_distances(picked, points), 1, axis=1)[:, 1])
        unit = np.quantile(apart, 0.95)
        far |= nearest_distances(arrays[v][some], points) > FAR * unit if unit > 0 else False
    return float(far.mean())

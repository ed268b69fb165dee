"""Appending rows to a fitted model: the old landmarks are kept, and rows outside their reach get new ones.

With the old rows at hand, everything is fitted to old and new rows together, the metrics of the old landmarks too.
Without them, the old landmarks keep their metrics and represent the old rows: the step of the diffusion does not
depend on how densely rows lie, so that few may represent many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.fitting import embed, landmarks, metric, spectrum
from dlcca.fitting.in_memory import Fit, fit_of, fit_views
from dlcca.fitting.job import memory_job
from dlcca.fitting.neighbors import find_neighbors
from dlcca.model import Model
from dlcca.numerics.landmarks import cover
from dlcca.numerics.windows import has_full_window, time_windows
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.trust.quality import Quality
from dlcca.views import Views

#: Rows outside among which new landmarks are chosen, at most.
MOST_CANDIDATES = 20_000


@dataclass(frozen=True)
class Known:
    """What is known of the fit that rows are appended to."""

    model: Model
    landmarks: NDArray[np.int64]  # (m,) row numbers
    correlations: NDArray  # (m, r)
    quality: Quality
    settings: Settings  # without any "auto"
    old_segments: NDArray[np.int64] | None = None  # of the old rows, if they are of recordings
    new_segments: NDArray[np.int64] | None = None  # of the new ones

    @property
    def window(self) -> int:
        """Rows of a window of time; 1 where neighborhoods are others."""
        if not isinstance(self.settings.neighborhoods.kind, str):
            raise SettingsError(
                "this model was given its neighborhoods as row numbers, and does not know those of new rows; "
                "fit old and new rows together, with the neighborhoods of both."
            )
        return embed.rows_apart(self.settings)


def new_landmarks(known: Known, distance: NDArray, read: Any) -> NDArray[np.int64]:
    """Rows that become landmarks, rising: so many that none is outside, but no more than there are landmarks.

    From the ``distance`` (n,) of the new rows from what the fit has seen, NaN where a row is not valid; ``read`` gives
    the views (a list, None for one that is not used) at some of the new rows.
    """
    outside = np.flatnonzero(np.nan_to_num(distance) > 1)
    if known.window > 1:  # there must be room for the window of a landmark
        outside = outside[has_full_window(_segments(known.new_segments, len(distance)), known.window)[outside]]
    if len(outside) > MOST_CANDIDATES:
        outside = outside[np.linspace(0, len(outside) - 1, MOST_CANDIDATES).astype(np.int64)]
    if not len(outside):
        return outside
    model, views = known.model, read(outside)
    units = [float(model.reach[v]) for v in model.needed]
    return np.sort(outside[cover([views[v] for v in model.needed], units, distance[outside], model.n_landmarks)])


def settings_together(
    known: Known, old: Sequence[Any], new: Sequence[Any], distance: Callable[[], NDArray]
) -> Settings:
    """The settings of a fit to old and new rows: with the old landmarks, and those among the new rows that are needed.

    Windows of time do not cross from old to new. Views are arrays of NumPy or Dask; the old rows must be those of the
    fit. ``distance`` gives how far the new rows (n,) lie from what the fit has seen.
    """
    model, (n_old, n_new) = known.model, (views[0].shape[0] for views in (old, new))
    if n_old <= (last := int(known.landmarks.max())):
        raise DataError(f"the old views have {n_old} rows, and row {last} is a landmark; give the rows of the fit.")
    points = [np.asarray(X[known.landmarks]) for X in old]
    for name, X, P in zip(model.names, points, model.points, strict=True):
        if X.shape != P.shape or not np.allclose(X, P):
            raise DataError(
                f"view {name!r} of the old rows is not what the model was fitted to: the landmarks are not among its "
                "rows. Give the rows of the fit in their order; or none, and the landmarks stand for them."
            )
    added = new_landmarks(known, distance(), lambda rows: [np.asarray(X[rows]) for X in new])
    given: dict[str, Any] = {"landmarks": np.concatenate([known.landmarks, n_old + added])}
    if known.window > 1:
        before, after = _segments(known.old_segments, n_old), _segments(known.new_segments, n_new)
        segments = np.concatenate([before, int(before.max()) + 1 + after])
        given["neighborhoods"] = time_windows(n_old + n_new, given["landmarks"], known.window, segments)
    return known.settings.with_options(**given)


def _segments(known: NDArray[np.int64] | None, n: int) -> NDArray[np.int64]:
    """The unbroken stretches of n rows: all one, if no others are known."""
    return np.zeros(n, np.int64) if known is None else known


def refit_together(known: Known, old: Views, new: Views, seed: int) -> Fit:
    """A fit to old and new rows, with the old landmarks and what is needed besides."""
    settings = settings_together(known, old.present, new.present, lambda: known.model.distance(new.present))
    return fit_views(stacked(old, new), settings, seed)


def refit_alone(known: Known, new: Views) -> Fit:
    """A fit to new rows and the old landmarks, which keep their metrics and represent the old rows."""
    m, settings = known.model.n_landmarks, known.settings
    added = new_landmarks(known, known.model.distance(new.present), lambda rows: [X[rows] for X in new.present])
    factors, correlations = known.model.factors, known.correlations
    if len(added):
        neighbors = find_neighbors(new.present, added, settings, known.new_segments)
        fitted = metric.fit_metric(new.present, neighbors, settings)
        factors = [joined(F, G, axis=2) for F, G in zip(factors, fitted.factors, strict=True)]
        correlations = joined(correlations, fitted.correlations, axis=1)
    together = stacked(Views(tuple(known.model.points), new.names), new)
    rows = np.concatenate([np.arange(m), m + added])
    job = memory_job(together.present, together.names, settings.with_options(landmarks=rows))
    landmarks.fill(job, rows, [X[rows] for X in together.present])
    metric.fill(job, factors)
    embedding = embed.fitted(job).coordinates(together.present).astype(together.present[0].dtype)
    measures = {**known.quality.measures, "leading_eigenvalue": float(spectrum.eigenvalues(job)[0])}
    quality = replace(known.quality, measures=measures)
    return fit_of(job, embedding, quality, Choices(settings, {}), correlations)


def aligned(model: Model, before: Model, R: NDArray) -> Model:
    """The model with its axes turned; its landmarks reach as far as they did before, if not farther."""
    return replace(model, rotation=R, reach=np.maximum(model.reach, before.reach))


def joined(A: NDArray, B: NDArray, axis: int) -> NDArray:
    """Both one after another, the narrower one filled up with zeros along an axis."""
    wide = max(A.shape[axis], B.shape[axis])
    room = np.zeros((2, A.ndim, 2), int)
    room[:, axis, 1] = wide - A.shape[axis], wide - B.shape[axis]
    return np.concatenate([np.pad(A, room[0]), np.pad(B, room[1])])


def stacked(old: Views, new: Views) -> Views:
    """The rows of both, the old ones first."""
    arrays = [np.concatenate([X, Y]) for X, Y in zip(old.present, new.present, strict=True)]
    dtype = np.result_type(*arrays)
    return Views(tuple(X.astype(dtype, copy=False) for X in arrays), new.names)

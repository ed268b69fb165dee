"""Checks of the kernel and the coordinates of a fit, on some of the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.model import Model
from dlcca.numerics.distances import squared_distances
from dlcca.numerics.kernels import landmarks_seen
from dlcca.numerics.landmarks import evenly, nearest_distances
from dlcca.trust.quality import Checks
from dlcca.trust.scores import at_unit_variance, blocked_folds, variable_scores
from dlcca.trust.select_coordinates import FEWEST_CARRIERS, carriers, independent
from dlcca.trust.surrogates import narrowed

#: R² of the coordinates predicted by a fit with half of the landmarks, the same with one coordinate more, the eigengap.
Half = tuple[NDArray, NDArray, float]

#: Rows in which the kernel is checked.
SOME_ROWS = 1024
#: Linear CCA for comparison: channels (principal components of a wider view) and ridge.
LINEAR_CHANNELS, LINEAR_RIDGE = 64, 0.01
#: A row is far from all landmarks if the nearest is farther than so many times the spacing of landmarks.
FAR = 3.0


def checks_of(model: Model, arrays: list[NDArray], embedding: NDArray, half: Half | None, pieces: int = 1) -> Checks:
    """Check the kernel and the coordinates.

    ``arrays`` are the views at some rows, about `SOME_ROWS`, ``embedding`` (n, q) is of all rows, or of many, ``half``
    of a fit with half of the landmarks, and ``pieces`` the number of connected components of the kernel.
    """
    half_r2, more, gap = half or (None, None, None)
    carried = carriers(embedding)
    return Checks(
        pieces=pieces,
        far=_far(model, arrays),
        seen=float(min(np.median(landmarks_seen(W)) for W in model.kernel_rows(arrays))),
        could_see=model.n_links or model.n_landmarks,
        half_r2=half_r2,
        half_r2_more=more,
        gap=gap,
        independent=independent(embedding, carried >= FEWEST_CARRIERS),
        carriers=carried,
    )


def linear_cca_r2(arrays: list[NDArray], embedding: NDArray) -> NDArray | None:
    """Held-out R² (q,) of coordinates (s, q), predicted by nearest neighbours from as many variates of linear CCA.

    Where all are near 1, plain linear CCA of the whole recording finds the same. None for one view, or where linear CCA
    is not defined.
    """
    from dlcca.baselines.cca import linear_cca

    if len(arrays) < 2:
        return None
    views = [narrowed(np.asarray(X, np.float64), LINEAR_CHANNELS) for X in arrays]
    q = min(embedding.shape[1], sorted(X.shape[1] for X in views)[-2])
    try:
        variates = linear_cca(views, q, ridge=LINEAR_RIDGE).embedding
    except (DataError, SettingsError):
        return None
    found = variable_scores(at_unit_variance(variates), embedding, blocked_folds(len(embedding)))
    return found if np.isfinite(found).all() else None


def _far(model: Model, arrays: list[NDArray]) -> float:
    """The share of the rows whose nearest landmark is far, in the view in which it is farthest."""
    far = np.zeros(len(arrays[0]), bool)
    for v in model.needed:
        points = model.points[v]
        picked = points[evenly(len(points), min(len(points), SOME_ROWS))]
        # Distance to the nearest other landmark: the second smallest, because the smallest is 0.
        apart = np.sqrt(np.partition(squared_distances(picked, points), 1, axis=1)[:, 1])
        unit = np.quantile(apart, 0.95)
        far |= nearest_distances(arrays[v], points) > FAR * unit if unit > 0 else False
    return float(far.mean())

"""The private part of a view: what one sensor sees and the others do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.estimator import LocalCCA, in_step
from dlcca.model import Model
from dlcca.numerics.coordinates import signs
from dlcca.numerics.distances import linked_distances
from dlcca.numerics.fusion import Degrees, Fusion
from dlcca.numerics.kernels import balanced, choose_bandwidth, extend, gram, relative_rows, sparse_rows
from dlcca.numerics.neighbors import joint_neighbors
from dlcca.numerics.topk import nearest_links
from dlcca.trust.lags import spread
from dlcca.trust.private import common_variates, spread_apart, standardised, standards, unmoved
from dlcca.views import checked

#: Rows that the private part is learned from, at most; leading components of the view that its functions depend on.
MOST_ROWS, MOST_DIRECTIONS = 50_000, 16
#: Neighbours of a landmark in the view: at least so many, and so many times the rows that there are for each landmark,
#: because functions given at landmarks are rough on a smaller scale.
NEIGHBORS, FOR_EACH_LANDMARK = 48, 24
#: Functions of the view among which private ones are sought, and places at which their spread is measured.
FUNCTIONS, PLACES = 100, 200
#: Coordinates of whose change more than this share goes with what is common are not private.
MOST_SHARED = 0.3


@dataclass(frozen=True)
class PrivatePart:
    """Coordinates of what one view has for itself, as `private` finds them."""

    of: str  # the view
    embedding: NDArray  # (n, q) coordinates of the samples; NaN for a row without a partner in the other views
    shared: NDArray  # (q,) of their change from neighbour to neighbour, the share that goes with what is common
    common: LocalCCA  # the model of what is common
    model: Model  # functions of the view's leading components
    origin: NDArray  # (d,)
    directions: NDArray  # (d, p) leading components of the view
    places: NDArray  # (m, c) common coordinates of the landmarks, at which the standards hold
    mean: NDArray  # (m, q)
    root: NDArray  # (m, q, q)

    def transform(self, views: Any) -> NDArray:
        """Private coordinates (n, q) of samples, new or known; views other than this one may be None."""
        views, rows, n = in_step(self.common, views)
        X = views.arrays[views.names.index(self.of)]
        if X is None:
            raise DataError(f"view {self.of!r} is missing, and this is its private part; give it.")
        Z = self.common.model_.coordinates(views.arrays)
        functions = self.model.coordinates([(X - self.origin) @ self.directions])
        return spread(standardised(functions, Z, self.places, self.mean, self.root).astype(X.dtype), rows, n)


def private(model: LocalCCA, views: Any, of: Any, *, n_components: int = 2) -> PrivatePart:
    """The private part of a view: smooth coordinates of it that do not change with what is common.

    Parameters
    ----------
    model : fitted to the views; what it found is what is common
    views : those that it was fitted to, in memory
    of : name of the view, or its number from 0
    n_components : coordinates wanted

    Returns
    -------
    PrivatePart, with ``embedding`` (n, n_components), ``shared`` and ``transform(views)``
    """
    aligned, rows, _ = in_step(model, views)
    aligned = checked(aligned)
    name = aligned.names[of] if isinstance(of, int | np.integer) and 0 <= of < len(aligned.names) else of
    if name not in aligned.names:
        raise SettingsError(f"of={of!r} is no view of the model; {suggest(str(of), aligned.names)}")
    if model.n_common_ == 0:
        raise DataError(
            f"the model found nothing common, so all of view {name!r} is private; embed it alone: "
            "LocalCCA(metric='mahalanobis').fit(X)."
        )
    if n_components < 1:
        raise SettingsError(f"n_components={n_components}; a whole number of at least 1 is needed.")
    X = aligned.present[aligned.names.index(name)]
    at = np.searchsorted(rows, np.asarray(model.landmarks_))
    some = np.union1d(np.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).astype(np.int64), at)
    at = np.searchsorted(some, at)
    Z = model.model_.coordinates([V[some] for V in aligned.present])
    origin = X[some].mean(axis=0)
    _, S, Vt = np.linalg.svd(X[some] - origin, full_matrices=False)
    directions = Vt[:MOST_DIRECTIONS][S[:MOST_DIRECTIONS] > 1e-6 * S[0]].T  # those without extent are left out
    P = (X[some] - origin) @ directions
    functions, Phi = _functions_of(P, at, n_components, model)
    neighbors = joint_neighbors([P], at, min(len(P), max(NEIGHBORS, FOR_EACH_LANDMARK * len(P) // len(at))))
    a, w = common_variates(P[neighbors], Z[neighbors], ridge=float(model.settings_.metric.ridge))
    some_places = Z[at[:: max(1, len(at) // PLACES)]]
    c, shared = unmoved(Phi, neighbors, a, w, spread_apart(Phi, Z, some_places), n_components)
    if shared.min() > MOST_SHARED:
        raise DataError(
            f"view {name!r} has no private part that can be separated: {shared.min():.0%} of the change of its most "
            "private coordinate goes with what is common."
        )
    c = c * signs(Phi @ c)
    functions = replace(functions, values=[functions.values[0] @ c], scale=np.ones(n_components))
    mean, root = standards(Phi @ c, Z, Z[at])
    part = PrivatePart(name, np.empty(0), shared, model, functions, origin, directions, Z[at], mean, root)
    return replace(part, embedding=part.transform(views))


def _functions_of(P: NDArray, at: NDArray[np.int64], q: int, model: LocalCCA) -> tuple[Model, NDArray]:
    """Smooth functions of a view's components P (n, p): the model that gives them, and their values (n, b)."""
    points, m = P[at], len(at)
    count = min(FUNCTIONS, m // 2)
    if q > count:
        raise SettingsError(f"n_components={q}; {m} landmarks can separate {count} private ones. Request fewer.")
    links = nearest_links(P, points, min(int(model.settings_.kernel.n_links), m))
    F = np.broadcast_to(np.eye(P.shape[1], dtype=P.dtype), (m, P.shape[1], P.shape[1]))
    D = linked_distances(P, points, F, links)
    sigma = choose_bandwidth(D, "quantile")
    W = sparse_rows(relative_rows(D, sigma), links, m)
    A, C = balanced(W)
    _, (values,) = Fusion().from_grams({(0, 0): gram(A, A)}, count, Degrees(len(P), [C]))
    made = Model(
        names=("components",),
        fusion="alternating",  # links to the nearest landmarks, as here
        n_links=links.shape[1],
        points=[points],
        factors=[np.array(F)],
        units=np.array([sigma]),
        weights=[np.ones(m)],
        values=[values],
        scale=np.ones(count),
    )
    return made, extend(W, np.ones(m), values)

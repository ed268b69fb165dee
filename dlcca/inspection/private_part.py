r"""The private part of a view, which the others do not see: functions of it that do not change with what is common.

In a neighborhood of the view, the canonical directions between it and the common coordinates are those along which the
view changes with what is common. A private function keeps its value along them. Among smooth functions
:math:`f = \Phi c` of the view (its own diffusion coordinates Φ) those are sought that change least there,

.. math:: \min_f \; \sum_i \Big( (1 + \eta)\, |f|_i^2 - \sum_a (1 - w_{ia}) \langle a_{ia}, f \rangle_i^2 \Big)
   \quad\text{with unit variance of } f \text{ where what is common is alike},

where :math:`|f|_i^2` is the sum of squares of f in the neighborhood i less its mean, :math:`a_{ia}` are the canonical
variates of the view there (orthonormal, all its directions that have extent), :math:`w_{ia}` says which of them are
common, and η, far smaller, puts the smooth ones first. So all change counts that does not go along a private direction.
What is left of the common variable, in the mean and the spread of f, is taken out last (`standards`).

The first axis of neighborhoods runs over m landmarks.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.estimator import LocalCCA, in_step
from dlcca.model import Model
from dlcca.numerics.coordinates import signs
from dlcca.numerics.distances import linked_distances
from dlcca.numerics.fusion import Degrees, Fusion
from dlcca.numerics.kernels import balanced, choose_bandwidth, extend, gram, relative_rows, sparse_rows
from dlcca.numerics.metrics.cca import whiten
from dlcca.numerics.neighbors import joint_neighbors
from dlcca.numerics.topk import nearest_links
from dlcca.settings.schema import count
from dlcca.trust.lags import spread
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
#: η: how much less a change along private directions counts.
SMOOTHNESS = 1e-3
#: Directions that the ridge shrinks to less than this share of their variance count as directions without extent.
LEAST_EXTENT = 0.5
#: Rows whose mean and spread are taken together: at least so many, and this share of all.
FEWEST_TOGETHER, SHARE_TOGETHER = 50, 1 / 40
#: Added to the variances of functions, as a share of the mean one: functions without any would be taken for private.
RIDGE = 1e-3
#: Landmarks whose standards are averaged for a row.
NEAREST_STANDARDS = 8
#: A spread is at least this share of the mean one.
LEAST_SPREAD = 0.05

Floats = NDArray[np.float64]


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
    count(1).check("n_components", n_components)
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
    most = min(FUNCTIONS, m // 2)
    if q > most:
        raise SettingsError(f"n_components={q}; {m} landmarks can separate {most} private ones. Request fewer.")
    links = nearest_links(P, points, min(int(model.settings_.kernel.n_links), m))
    F = np.broadcast_to(np.eye(P.shape[1], dtype=P.dtype), (m, P.shape[1], P.shape[1]))
    D = linked_distances(P, points, F, links)
    sigma = choose_bandwidth(D, "quantile")
    W = sparse_rows(relative_rows(D, sigma), links, m)
    A, C = balanced(W)
    _, (values,) = Fusion().from_grams({(0, 0): gram(A, A)}, most, Degrees(len(P), [C]))
    made = Model(
        names=("components",),
        fusion="alternating",  # links to the nearest landmarks, as here
        n_links=links.shape[1],
        points=[points],
        factors=[np.array(F)],
        units=np.array([sigma]),
        weights=[np.ones(m)],
        values=[values],
        scale=np.ones(most),
    )
    return made, extend(W, np.ones(m), values)


def common_variates(X: NDArray, Z: NDArray, *, ridge: float) -> tuple[Floats, Floats]:
    """White variates of a view in each neighborhood, and how far each changes with what is common.

    From X (m, k, d), the view at the k neighbours of each landmark, Z (m, k, q), the common coordinates there, and the
    ``ridge`` of `whiten`: the variates a (m, k, p) along all directions of the view, those of the largest correlation
    first, orthonormal, zero along directions without extent; and w (m, p), 2ρ² - 1, or 0 where less than half of the
    variate goes with what is common: a bent curve fills a second direction of the common coordinates, with which the
    view changes a little too.
    """
    white, common = whiten(X, ridge=ridge), whiten(Z, ridge=ridge)
    U, rho, _ = np.linalg.svd(np.swapaxes(white.scores, 1, 2) @ common.scores, full_matrices=True)
    w = np.zeros(U.shape[:2])
    w[:, : rho.shape[1]] = np.clip(2 * np.clip(rho, 0, 1) ** 2 - 1, 0, 1)
    Q, R = np.linalg.qr(white.scores @ U)  # the ridge leaves them not quite orthogonal; what is common comes first
    extent = np.square(np.diagonal(R, axis1=1, axis2=2))
    return np.where(extent[:, None, :] > LEAST_EXTENT, Q, 0), w


def unmoved(
    Phi: NDArray, neighbors: NDArray[np.int64], a: Floats, w: Floats, covariance: NDArray, q: int
) -> tuple[Floats, Floats]:
    """The q functions that change least with what is common, as combinations of given ones.

    From functions Phi (n, b) of the view, the rows ``neighbors`` (m, k) of each neighborhood, a and w of
    `common_variates`, and the ``covariance`` (b, b) of `spread_apart`: the coefficients c (b, q), such that ``Phi @ c``
    has unit variance and no correlation in that covariance; and of their change within neighborhoods the share (q,)
    that goes with what is common.
    """
    own, every = np.zeros((Phi.shape[1],) * 2), np.zeros((Phi.shape[1],) * 2)
    for rows, variates, weights in zip(neighbors, a, w, strict=True):
        f = Phi[rows] - Phi[rows].mean(axis=0)  # (k, b)
        G = variates.T @ f
        own += (G.T * (1 - weights)) @ G
        every += f.T @ f
    common = every - own
    _, c = scipy.linalg.eigh(common + SMOOTHNESS * every, covariance, subset_by_index=[0, q - 1])
    share = np.einsum("bq,bc,cq->q", c, common, c) / np.einsum("bq,bc,cq->q", c, every, c)
    return c, share


def spread_apart(Phi: NDArray, Z: NDArray, Z_L: NDArray) -> Floats:
    """Covariance (b, b) of functions (n, b) among samples whose Z (n, p) is alike, the mean over places Z_L (m, p).

    Functions of the common variable have next to none, however slowly they change.
    """
    made = np.zeros((Phi.shape[1],) * 2)
    for rows in together(Z, Z_L):
        f = Phi[rows] - Phi[rows].mean(axis=0)
        made += f.T @ f / len(rows)
    made /= len(Z_L)
    return made + RIDGE * np.trace(made) / len(made) * np.eye(len(made))


def together(Z: NDArray, Z_L: NDArray) -> NDArray[np.int64]:
    """Rows (m, k) of Z that are taken together at each of some places."""
    return nearest_links(Z_L, Z, min(len(Z), max(FEWEST_TOGETHER, int(len(Z) * SHARE_TOGETHER))))


def standards(E: NDArray, Z: NDArray, Z_L: NDArray) -> tuple[Floats, Floats]:
    """Mean (m, q) and inverse root of the covariance (m, q, q) of coordinates E (n, q), where Z (n, p) is near Z_L.

    The spread has the directions of E: the root is the symmetric one, so that nothing is turned.
    """
    near = together(Z, Z_L)
    mean = E[near].mean(axis=1)
    R = E[near] - mean[:, None]
    lam, V = np.linalg.eigh(np.swapaxes(R, 1, 2) @ R / near.shape[1])
    least = LEAST_SPREAD * float(E.var(axis=0).mean())
    return mean, (V / np.sqrt(np.maximum(lam, least))[:, None, :]) @ np.swapaxes(V, 1, 2)


def standardised(E: NDArray, Z: NDArray, Z_L: NDArray, mean: Floats, root: Floats) -> Floats:
    """Coordinates E (n, q) less the mean that goes with what is common, divided by the spread that does."""
    near = nearest_links(Z, Z_L, min(NEAREST_STANDARDS, len(Z_L)))
    return np.einsum("npq,nq->np", root[near].mean(axis=1), E - mean[near].mean(axis=1))

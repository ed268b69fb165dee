r"""What one view sees and the others do not: functions of the view that do not change with what is common.

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

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dlcca.numerics.metrics.cca import whiten
from dlcca.numerics.topk import nearest_links

Floats = NDArray[np.float64]

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

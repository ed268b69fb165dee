"""Tensor CCA: the paper's Algorithm 3, one direction per view from a rank-1 tensor approximation.

The covariance tensor of K whitened views has p^K entries. It is never formed: a product with vectors on all modes
but one is a weighted sum of scores, and the Gram matrix of an unfolding is a product of k x k Gram matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.metrics.cca import LocalMetric, whiten


@dataclass(frozen=True)
class RankOne:
    """Best rank-1 approximation found for each of m tensors."""

    vectors: list[NDArray]  # one (m, p_v) per mode, unit length
    rho: NDArray  # (m,) weight, never negative
    steps: NDArray  # (m,) sweeps of alternating least squares until it stood still
    converged: NDArray  # (m,) bool


def tcca_metric(
    views: Sequence[NDArray], *, ridge: float, rng: np.random.Generator, restarts: int = 3
) -> tuple[LocalMetric, RankOne]:
    r"""Local metric of K views by tensor CCA: :math:`A^{(v)} = p^{(v)} p^{(v)T}` (Corollary 6), so that r = 1.

    ``views`` are K arrays (m, k, d_v), the same k moments around each of m landmarks; the ``ridge`` is as in `whiten`.
    ``rng`` draws the restarts, random starts besides the one from the HOSVD. With the metric come the rank-1
    approximations, their weights and convergence.
    """
    white = [whiten(X, ridge=ridge) for X in views]
    # Scores carry 1/sqrt(k-1) each; the tensor of K views has one 1/(k-1) in all.
    k = views[0].shape[1]
    unit = [w.scores * np.asarray((k - 1) ** (0.5 - 1 / len(white)), w.scores.dtype) for w in white]
    fit = rank_one(unit, rng=rng, restarts=restarts)
    factors = [w.unmix @ u[:, :, None] for w, u in zip(white, fit.vectors, strict=True)]
    return LocalMetric.of(white, factors, np.clip(fit.rho, 0, 1)[:, None]), fit


def rank_one(
    scores: Sequence[NDArray], *, rng: np.random.Generator, restarts: int, sweeps: int = 200, tol: float = 1e-10
) -> RankOne:
    r"""Rank-1 approximation of :math:`T = \sum_i z^{(1)}_i \otimes \dots \otimes z^{(K)}_i` for each landmark.

    From ``scores``, K arrays (m, k, p_v). Of the start by HOSVD and the random ``restarts`` the best weight wins.
    Alternating least squares ends when the weight changes by less than ``tol``, relatively.
    """
    kept = [Z.dtype for Z in scores]
    scores = [Z.astype(np.float64) for Z in scores]  # in float32 the weight never stands still to ``tol``
    starts = [_hosvd(scores), *(_random_start(scores, rng) for _ in range(restarts))]
    best = reduce(_better, (_als(scores, start, sweeps, tol) for start in starts))
    return replace(best, vectors=[u.astype(dtype) for u, dtype in zip(best.vectors, kept, strict=True)])


def _hosvd(scores: Sequence[NDArray]) -> list[NDArray]:
    """The leading left singular vector of each unfolding."""
    grams = [Z @ np.swapaxes(Z, 1, 2) for Z in scores]
    start = []
    for v, Z in enumerate(scores):
        others = np.prod([G for u, G in enumerate(grams) if u != v], axis=0)
        start.append(np.linalg.eigh(np.swapaxes(Z, 1, 2) @ others @ Z)[1][:, :, -1])
    return start


def _random_start(scores: Sequence[NDArray], rng: np.random.Generator) -> list[NDArray]:
    """The same direction for every landmark, so that none depends on which others are in its batch."""
    drawn = [rng.standard_normal((1, Z.shape[2])).astype(Z.dtype) for Z in scores]
    return [np.repeat(u / np.linalg.norm(u), len(Z), axis=0) for u, Z in zip(drawn, scores, strict=True)]


def _als(scores: Sequence[NDArray], start: list[NDArray], sweeps: int, tol: float) -> RankOne:
    """Alternating least squares: each vector in turn is the contraction with all the others, normalised.

    A landmark that stands still is left alone, so that its answer does not depend on the others in the batch.
    """
    vectors = list(start)
    m = len(scores[0])
    rho = np.zeros(m)
    steps = np.zeros(m, dtype=np.int64)
    moving = np.ones(m, dtype=bool)
    projections = [np.einsum("mkp,mp->mk", Z, u) for Z, u in zip(scores, vectors, strict=True)]
    for _ in range(sweeps):
        for v, Z in enumerate(scores):
            others = np.prod([p for u, p in enumerate(projections) if u != v], axis=0)
            contraction = np.einsum("mkp,mk->mp", Z, others)
            weight = np.linalg.norm(contraction, axis=1)
            turning = moving & (weight > 0)
            vectors[v] = np.where(turning[:, None], contraction / np.where(turning, weight, 1)[:, None], vectors[v])
            projections[v] = np.einsum("mkp,mp->mk", Z, vectors[v])
        steps += moving
        changed = np.abs(weight - rho) > tol * np.maximum(weight, np.finfo(np.float64).tiny)
        rho = np.where(moving, weight, rho)
        moving &= changed
        if not moving.any():
            break
    return RankOne(vectors, rho, steps, ~moving)


def _better(one: RankOne, other: RankOne) -> RankOne:
    """Landmark by landmark, the approximation with the larger weight."""
    switch = other.rho > one.rho * (1 + 1e-9)
    vectors = [np.where(switch[:, None], b, a) for a, b in zip(one.vectors, other.vectors, strict=True)]
    pairs = ((one.rho, other.rho), (one.steps, other.steps), (one.converged, other.converged))
    return RankOne(vectors, *(np.where(switch, b, a) for a, b in pairs))

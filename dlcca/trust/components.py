r"""Number of common directions in a neighborhood: a sequential test at each landmark, and which steps are significant.

Canonical correlations of k samples in many channels are near 1 for any views, so each view is first reduced to its
leading directions. At each step the leading common direction is removed from both views, with its squares and products,
and the rest is tested again: a curve fills two directions of a neighborhood, and the second is a function of the first.

All functions are batched: the first axis runs over m landmarks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.principal import Floats

#: Directions with less than this share of the largest local variance are left out, as a ridge would do.
FLOOR = 0.03
#: Samples of a neighborhood for each direction of a view.
SAMPLES_PER_DIRECTION = 8
#: The sequence ends at a landmark whose p-value would exceed this even if its samples were independent.
GIVEN_UP = 0.2
#: Lower bound of 1 - ρ²: the statistic of a correlation of one would be infinite.
LEAST_REST = 1e-12


def n_directions(k: int) -> int:
    """Directions of a view that are used in neighborhoods of k samples."""
    return max(1, (k - 1) // SAMPLES_PER_DIRECTION)


@dataclass(frozen=True)
class Basis:
    """Orthonormal columns along those directions of each neighborhood that are above the floor; zero for others."""

    columns: Floats  # (m, k, p)
    count: Floats  # (m,) of those that are not zero

    def moved(self, places: int) -> Self:
        """At each place, the basis of the neighborhood so many places before."""
        return replace(self, columns=np.roll(self.columns, places, axis=0), count=np.roll(self.count, places))


def basis(scores: Floats, least: Floats | None = None) -> Basis:
    """The basis of scores (m, k, p) of `leading`; ``least`` (m,) is `floor_of` these, or of earlier ones."""
    least = floor_of(scores) if least is None else least
    lam, V = np.linalg.eigh(np.swapaxes(scores, 1, 2) @ scores)
    alive = (lam > least[:, None]) & (lam > 0)
    inverse = np.where(alive, 1 / np.sqrt(np.where(alive, lam, 1)), 0)
    return Basis(scores @ (V * inverse[:, None, :]), alive.sum(axis=1).astype(np.float64))


def floor_of(scores: Floats) -> NDArray:
    """Smallest sum of squares (m,) along a direction that is kept."""
    return FLOOR * np.linalg.eigvalsh(np.swapaxes(scores, 1, 2) @ scores)[:, -1]


class Tested(NamedTuple):
    """Statistics of the tests of all pairs of views, at m landmarks and s steps; a step not taken has freedom 0.

    Under the null hypothesis that nothing (more) is common, the statistic of a step times the samples less its penalty
    is chi-squared with so many degrees of freedom: see `chance`.
    """

    statistic: Floats  # (pairs, m, s) -Σ log(1 - ρ²)
    freedom: Floats  # (pairs, m, s)
    penalty: Floats  # (pairs, m, s)
    top: Floats  # (pairs, m) the largest correlation at the first step
    shared: Floats  # (pairs, m) Σ ρ² at the first step


def first_step(views: Sequence[Basis]) -> Tested:
    """The statistics of every pair of K views at the first step."""
    parts = []
    for one, other in combinations(views, 2):
        rho = np.linalg.svd(np.swapaxes(one.columns, 1, 2) @ other.columns, compute_uv=False)
        squares = np.minimum(rho**2, 1 - LEAST_REST)
        steps = [x[:, None] for x in _numbers(squares, one.count, other.count, taken=1)]
        parts.append((*steps, np.sqrt(squares[:, 0]), squares.sum(axis=1)))
    return Tested(*(np.stack(x) for x in zip(*parts, strict=True)))


def all_steps(scores: Sequence[Floats]) -> Tested:
    """The statistics of every pair of K views at all steps, from `leading` scores (m, k, p_v)."""
    first = first_step([basis(A) for A in scores])
    pairs = [sequence(A, B)[0] for A, B in combinations(scores, 2)]
    most = max(x.shape[2] for x in pairs)
    wide = np.stack([np.pad(x, ((0, 0), (0, 0), (0, most - x.shape[2]))) for x in pairs], axis=1)
    return Tested(wide[0], wide[1], wide[2], first.top, first.shared)


def sequence(A: Floats, B: Floats) -> tuple[Floats, Floats]:
    """The s steps of one pair of views, from scores (m, k, p) and (m, k, q).

    Statistic, freedom and penalty of each, (3, m, s), and the sum of its two leading variates, (m, k, s), zero after
    the sequence has ended.
    """
    m, k, _ = A.shape
    most = min(A.shape[2], B.shape[2])
    made, variates = np.zeros((3, m, most)), np.zeros((m, k, most))
    floor_A, floor_B = floor_of(A), floor_of(B)
    at = np.arange(m)
    gone = np.full((m, k, 1), k**-0.5)  # removed functions, as orthonormal columns: the mean is the first
    for step in range(most):
        one, other = basis(A, floor_A), basis(B, floor_B)
        L, rho, Rt = np.linalg.svd(np.swapaxes(one.columns, 1, 2) @ other.columns, full_matrices=False)
        squares = np.minimum(rho**2, 1 - LEAST_REST)
        made[:, at, step] = _numbers(squares, one.count, other.count, taken=gone.shape[2])
        statistic, freedom, penalty = made[:, at, step]
        on = np.flatnonzero(chance(statistic, freedom, penalty, k) <= GIVEN_UP)
        if not len(on):
            break
        ours, theirs = one.columns[on] @ L[on, :, :1], other.columns[on] @ np.swapaxes(Rt[on, :1], 1, 2)
        at = at[on]
        variates[at, :, step] = (ours + theirs)[:, :, 0]
        if step + 1 == most:
            break
        gone, floor_A, floor_B = gone[on], floor_A[on], floor_B[on]
        # Both variates: if only their mean were removed, the residuals of the two would be correlated.
        products = variates[at, :, step, None] * variates[at, :, : step + 1]
        new = _orthonormal(np.concatenate([ours, theirs, products], axis=2), gone)
        A, B = (X[on] - new @ (np.swapaxes(new, 1, 2) @ X[on]) for X in (A, B))
        gone = np.concatenate([gone, new], axis=2)
    return made, variates


def _numbers(squares: Floats, p: Floats, q: Floats, *, taken: int) -> tuple[Floats, Floats, Floats]:
    """Statistic, freedom and penalty (m,) from squared correlations (m, r) of p and q directions."""
    return -np.log1p(-squares).sum(axis=1), p * q, taken + (p + q + 1) / 2


def _orthonormal(new: Floats, to: Floats) -> Floats:
    """Orthonormal columns of what new ones (m, k, c) add to the span of ``to`` (m, k, b); zero if nothing."""
    made = to
    for c in range(new.shape[2]):
        x = new[:, :, c]
        for _ in range(2):  # twice: the division would amplify the rounding of the first time
            x = x - np.einsum("mkb,mb->mk", made, np.einsum("mkb,mk->mb", made, x))
        size, before = np.linalg.norm(x, axis=1), np.linalg.norm(new[:, :, c], axis=1)
        adds = size > 1e-8 * before
        x = np.where(adds[:, None], x / np.where(adds, size, 1)[:, None], 0)
        made = np.concatenate([made, x[:, :, None]], axis=2)
    return made[:, :, to.shape[2] :]


def chance(statistic: Floats, freedom: Floats, penalty: Floats, samples: float) -> Floats:
    r"""p-value of a statistic (Bartlett's approximation).

    :math:`P(\chi^2_{pq} \ge -(N - g) \sum_i \log(1 - \rho_i^2))` with :math:`g = c + (p + q + 1)/2`, where p and q are
    the directions of the two views and c the functions removed before, the mean among them. Arrays of one shape.
    """
    from scipy.special import chdtrc

    weight = np.maximum(samples - penalty, 0)
    return np.where(freedom > 0, chdtrc(np.maximum(freedom, 1), weight * statistic), 1.0)


def p_values(test: Tested, samples: float) -> Floats:
    """p-values (m, s) of every landmark and step; of several pairs of views the largest, so that all have to share."""
    return chance(test.statistic, test.freedom, test.penalty, samples).max(axis=0)


def n_significant(p: Floats, level: float) -> NDArray[np.int64]:
    """Common directions (m,) of every landmark, from its `p_values` (m, s), at a false discovery rate.

    Step by step: the procedure of Benjamini and Hochberg among the landmarks that were significant at all steps before.
    """
    count = np.zeros(len(p), np.int64)
    left = np.arange(len(p))
    for step in range(p.shape[1]):
        if not len(left):
            break
        left = left[discoveries(p[left, step], level)]
        count[left] += 1
    return count


def discoveries(p: Floats, level: float) -> NDArray[np.bool_]:
    """Which p-values (m,) are significant at a false discovery rate (Benjamini and Hochberg, 1995).

    As `scipy.stats.false_discovery_control`, whose import takes longer than a small fit.
    """
    ordered = np.sort(p)
    below = np.flatnonzero(ordered * len(p) / np.arange(1, len(p) + 1) <= level)
    return p <= ordered[below[-1]] if len(below) else np.zeros(len(p), bool)


def effective_samples(surrogates: Sequence[Tested]) -> float:
    r"""Effective number of independent samples N of a neighborhood: it calibrates the first step on surrogates.

    Consecutive samples are correlated, so that N is less than k. N solves
    :math:`\sum_i (N - g_i) T_i = \sum_i f_i`, the sum of the statistics equal to its expectation; or it makes 5 % of
    them significant at the level 0.05, if that N is smaller.
    """
    from scipy.special import chdtri

    T, f, g = (np.concatenate([x[:, :, 0].ravel() for x in parts]) for parts in list(zip(*surrogates, strict=True))[:3])
    alive = (f > 0) & (T > 0)
    if not alive.any():
        return 0.0
    T, f, g = T[alive], f[alive], g[alive]
    by_mean = (f.sum() + (g * T).sum()) / T.sum()
    by_tail = np.quantile(g + chdtri(f, 0.05) / T, 0.05)
    return float(min(by_mean, by_tail))


def null_edge(effective: NDArray, k: int) -> NDArray[np.float64]:
    r"""Limit of the largest canonical correlation of independent views, in neighborhoods of k samples.

    The Wachter edge :math:`\sqrt{c_1(1-c_2)} + \sqrt{c_2(1-c_1)}` with :math:`c_v = d_v/(k-1)`, where
    :math:`d_v` is the effective rank after the ridge, ``effective`` (m, K) for each view at each landmark. For more
    than two views: the largest over pairs. The edge (m,) is at most 1.
    """
    c = np.clip(np.asarray(effective, np.float64) / (k - 1), 0, 1)
    if c.shape[1] == 1:
        return np.zeros(len(c))
    top = np.sort(c, axis=1)[:, -2:]  # the edge rises with both: the two largest make the largest
    edge = np.sqrt(top[:, 0] * (1 - top[:, 1])) + np.sqrt(top[:, 1] * (1 - top[:, 0]))
    return np.where(top.sum(axis=1) >= 1, 1.0, np.minimum(edge, 1.0))

r"""Number of common directions in a neighborhood: statistics of a sequential test at each landmark.

Canonical correlations of k samples in many channels are near 1 for any views, so each view is first reduced to its
leading directions. At each step the leading common direction is removed from both views, with its squares and products,
and the rest is tested again: a curve fills two directions of a neighborhood, and the second is a function of the first.
The p-values are in `significance`.

All functions are batched: the first axis runs over m landmarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dlcca.trust.significance import Tested, chance

#: Directions with less than this share of the largest local variance are left out, as a ridge would do.
FLOOR = 0.03
#: Samples of a neighborhood for each direction of a view.
SAMPLES_PER_DIRECTION = 8
#: The sequence ends at a landmark whose p-value would exceed this even if its samples were independent.
GIVEN_UP = 0.2
#: Lower bound of 1 - ρ²: the statistic of a correlation of one would be infinite.
LEAST_REST = 1e-12

Floats = NDArray[np.float64]


def n_directions(k: int) -> int:
    """Directions of a view that are used in neighborhoods of k samples."""
    return max(1, (k - 1) // SAMPLES_PER_DIRECTION)


@dataclass(frozen=True)
class Leading:
    """One view's neighborhoods along their principal directions."""

    scores: Floats  # (m, k, p) the centred samples along the leading p; directions without extent are zero
    variances: Floats  # (m, min(k, d)) along all of them, falling


def leading(X: NDArray, most: int) -> Leading:
    """The principal directions of each neighborhood (m, k, d), with scores along the leading ``most``.

    From the smaller of the two Gram matrices: directions that its rounding would spoil are far below `FLOOR`.
    """
    X = np.asarray(X, np.float64) - X[:, :1]  # exactly zero for a constant channel
    X -= X.mean(axis=1, keepdims=True)
    k, d = X.shape[1:]
    p = min(most, k, d)
    if d <= k:
        lam, V = np.linalg.eigh(np.swapaxes(X, 1, 2) @ X)
        scores = X @ V[:, :, : -p - 1 : -1]
    else:
        lam, U = np.linalg.eigh(X @ np.swapaxes(X, 1, 2))
        scores = U[:, :, : -p - 1 : -1] * np.sqrt(np.maximum(lam[:, None, : -p - 1 : -1], 0))
    return Leading(scores, np.maximum(lam[:, ::-1], 0) / (k - 1))


@dataclass(frozen=True)
class Basis:
    """Orthonormal columns along those directions of each neighborhood that are above the floor; zero for others."""

    columns: Floats  # (m, k, p)
    count: Floats  # (m,) of those that are not zero

    def moved(self, places: int) -> Basis:
        """At each place, the basis of the neighborhood so many places before."""
        return Basis(np.roll(self.columns, places, axis=0), np.roll(self.count, places))


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

r"""Whether views share anything at all: what their neighborhoods show, against what they show of shifted views.

Views shifted against each other in time are what they were, as smooth, as rare, as bent, but no longer in step. So
whatever shifted views reach, they reach by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.neighborhoods import joint_space
from dlcca.trust.components import Basis, basis, first_step, leading, n_directions
from dlcca.trust.significance import Tested, effective_samples

#: Surrogates. Only what exceeds all of them is significant at 0.05: one in 39 is 0.026, two would be 0.051.
SURROGATES = 38
#: Neighborhoods that are looked at: of nearest neighbours, which are searched anew for every shift, and of others.
KNN_SAMPLES, WINDOW_SAMPLES = 64, 512
#: Rows among which nearest neighbours are searched, at most, and the stretches that they are taken from.
MOST_ROWS, STRETCHES = 20_000, 8
#: Views of more channels are searched in so many of their principal components.
MOST_CHANNELS = 24
#: Shifts are at least this share of the recording: a small one leaves views in step.
LEAST_SHIFT = 0.05

#: The directions of each of K views in its neighborhoods when view v is shifted by its entry of (K,) places.
Bases = Callable[[Sequence[int]], list[Basis]]
#: Statistics of the neighborhoods when view v is shifted by its entry of (K,) places.
Measure = Callable[[Sequence[int]], Tested]


@dataclass(frozen=True)
class Compared:
    """The views as they are, against surrogates."""

    statistic: float
    surrogates: NDArray[np.float64]  # (B,)
    samples: float | None = None  # independent samples that a neighborhood is worth; None if not known
    by_chance: float | None = None  # the mean of the largest squared correlation that surrogates reach

    @property
    def p(self) -> float:
        """The share of all, themselves included, that reach what the views reach as they are."""
        return float((1 + (self.surrogates >= self.statistic).sum()) / (1 + len(self.surrogates)))


def shift_test(measure: Measure, n: int, K: int, *, count: int = SURROGATES) -> Compared:
    r"""Views in step against views shifted by random numbers of n places, each by another.

    The statistic is :math:`\sum_i \rho_i^2`, the mean over the neighborhoods; of several pairs of views the least, so
    that all have to share.
    """
    shifts = random_shifts(n, K, count, np.random.default_rng(0))
    if not len(shifts):
        return Compared(statistic_of(measure([0] * K)), np.empty(0), 0.0, 0.0)
    made = [measure(row) for row in shifts]
    null = np.array([statistic_of(test) for test in made])
    by_chance = float(np.mean([test.top**2 for test in made]))
    samples = effective_samples(made)
    return Compared(statistic_of(measure([0] * K)), null, samples, by_chance)


def statistic_of(test: Tested) -> float:
    """The least pair's mean of Σ ρ²."""
    return float(test.shared.mean(axis=1).min())


def random_shifts(n: int, K: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Shifts (count, K) among n places around a circle, no two views of a row closer than `LEAST_SHIFT` allows.

    The K views are laid around the circle in random order with random gaps; the first stays where it is.
    """
    least = max(1, min(int(np.ceil(LEAST_SHIFT * n)), n // (2 * K)))
    if K == 2:
        # One from each of equal parts: shifts that lie side by side show much the same, and would count as one.
        edges = np.linspace(least, n - least + 1, min(count, n - 2 * least + 1) + 1).astype(np.int64)
        drawn = rng.integers(edges[:-1], edges[1:])
        return np.column_stack([np.zeros_like(drawn), drawn])
    made = np.empty((count, K), np.int64)
    for b in range(count):
        spare = n - K * least
        ends = np.sort(rng.integers(0, spare + 1, K - 1))
        places = np.concatenate([[0], ends]) + least * np.arange(K)
        made[b, 0], made[b, 1:] = 0, rng.permutation(places[1:])
    return made


def windows_measure(views: Sequence[NDArray], neighbors: NDArray[np.int64]) -> tuple[Measure, int]:
    """For neighborhoods that do not depend on the values, as windows of time: and the number of places.

    Parameters
    ----------
    views : K arrays (n, d_v)
    neighbors : (m, k) rows, in the order of time
    """
    bases, places = windows_bases(views, neighbors)
    return lambda shifts: first_step(bases(shifts)), places


def windows_bases(views: Sequence[NDArray], neighbors: NDArray[np.int64]) -> tuple[Bases, int]:
    """The directions of each view in its neighborhoods, for any shifts of the views.

    A shift pairs the neighborhoods of one view with those of another further on, so that each is decomposed once.
    """
    some = neighbors[np.linspace(0, len(neighbors) - 1, min(len(neighbors), WINDOW_SAMPLES)).astype(np.int64)]
    most = n_directions(some.shape[1])
    made = [basis(leading(X[some], most).scores) for X in views]

    def bases(shifts: Sequence[int]) -> list[Basis]:
        return [view.moved(s) for view, s in zip(made, shifts, strict=True)]

    return bases, len(some)


def knn_measure(views: Sequence[NDArray], k: int) -> tuple[Measure, int]:
    """For the k nearest neighbours in all views at once, which depend on how the views are paired; as above.

    The neighborhoods are those of random rows. Landmarks would not do: they are chosen in the joint space, where the
    views are in step.
    """
    bases, places = knn_bases(views, k)
    return lambda shifts: first_step(bases(shifts)), places


def knn_bases(views: Sequence[NDArray], k: int) -> tuple[Bases, int]:
    """The directions of each view among the neighbours, which are searched anew for any shifts of the views."""
    rows = sampled_rows(len(views[0]))
    scaled = joint_space([narrowed(X[rows]) for X in views])
    n = len(rows)
    k = min(k, n)
    at = np.sort(np.random.default_rng(1).choice(n, min(n, KNN_SAMPLES), replace=False))
    first = _apart(scaled[0], at)
    most = n_directions(k)

    def bases(shifts: Sequence[int]) -> list[Basis]:
        moved = [np.roll(X, s, axis=0) if s else X for X, s in zip(scaled, shifts, strict=True)]
        D = np.maximum.reduce([_apart(moved[0], at) if shifts[0] else first, *(_apart(X, at) for X in moved[1:])])
        near = np.argpartition(D, k - 1, axis=1)[:, :k]
        return [basis(leading(X[near], most).scores) for X in moved]

    return bases, n


def _apart(X: NDArray, at: NDArray[np.int64]) -> NDArray[np.float32]:
    """Squared distances (m, n) of some rows to all; single precision ranks neighbours well enough, twice as fast."""
    X = X.astype(np.float32)
    lengths = np.einsum("nd,nd->n", X, X)
    D = X[at] @ (-2 * X.T)
    D += lengths
    D += lengths[at, None]
    return D


def narrowed(X: NDArray) -> NDArray:
    """A view (n, d), or its leading principal components if it has many channels."""
    return X if X.shape[1] <= MOST_CHANNELS else leading(X[None], MOST_CHANNELS).scores[0]


def sampled_rows(n: int) -> NDArray[np.int64]:
    """All rows, or some unbroken stretches spread over them: single rows would not be as alike as they are."""
    if n <= MOST_ROWS:
        return np.arange(n)
    length = MOST_ROWS // STRETCHES
    starts = np.linspace(0, n - length, STRETCHES).astype(np.int64)
    return (starts[:, None] + np.arange(length)).ravel()

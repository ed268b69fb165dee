"""Which correlations are more than chance: p-values of a sequential test, and false discoveries held at a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tested:
    """What the tests of all pairs of views need, at m landmarks and s steps; a step not taken has no freedom.

    A step's statistic, times the samples less its penalty, follows the chi-squared distribution of so many degrees of
    freedom where nothing (more) is common: see `chance`.
    """

    statistic: Floats  # (pairs, m, s) -Σ log(1 - ρ²)
    freedom: Floats  # (pairs, m, s)
    penalty: Floats  # (pairs, m, s)
    top: Floats  # (pairs, m) the largest correlation before anything was taken out
    shared: Floats  # (pairs, m) Σ ρ² then


def chance(statistic: Floats, freedom: Floats, penalty: Floats, samples: float) -> Floats:
    r"""How likely a statistic as large is where nothing is common (Bartlett's approximation).

    :math:`P(\chi^2_{pq} \ge -(N - g) \sum_i \log(1 - \rho_i^2))` with :math:`g = c + (p + q + 1)/2`, where p and q are
    the directions of the two views and c the functions taken out before, the mean among them. All arrays alike.
    """
    from scipy.special import chdtrc

    weight = np.maximum(samples - penalty, 0)
    p: Floats = np.where(freedom > 0, chdtrc(np.maximum(freedom, 1), weight * statistic), 1.0)
    return p


def p_values(test: Tested, samples: float) -> Floats:
    """Of every landmark and step, (m, s): that not all pairs of views share one more direction; the worst pair's."""
    return chance(test.statistic, test.freedom, test.penalty, samples).max(axis=0)


def n_significant(p: Floats, level: float) -> NDArray[np.int64]:
    """Common directions (m,) of every landmark, from its `p_values` (m, s), with false discoveries held at a level.

    Step by step: among the landmarks that passed so far, those pass whose p-values the procedure of Benjamini and
    Hochberg rejects, so that of what is said to be there at a step at most the share ``level`` is not.
    """
    from scipy.stats import false_discovery_control

    count = np.zeros(len(p), np.int64)
    left = np.arange(len(p))
    for step in range(p.shape[1]):
        if not len(left):
            break
        left = left[false_discovery_control(p[left, step]) <= level]
        count[left] += 1
    return count


def effective_samples(surrogates: Sequence[Tested]) -> float:
    r"""Samples N that neighborhoods are worth: with it the first step finds in surrogates what chance would.

    Samples that follow each other are alike, and k of them are worth fewer. N solves
    :math:`\sum_i (N - g_i) T_i = \sum_i f_i`, the sum of the statistics at its expectation; or it makes the share 0.05
    of them significant at that level, if that takes fewer.
    """
    from scipy.special import chdtri

    T, f, g = (
        np.concatenate([getattr(test, name)[:, :, 0].ravel() for test in surrogates])
        for name in ("statistic", "freedom", "penalty")
    )
    alive = (f > 0) & (T > 0)
    if not alive.any():
        return 0.0
    T, f, g = T[alive], f[alive], g[alive]
    by_mean = (f.sum() + (g * T).sum()) / T.sum()
    by_tail = np.quantile(g + chdtri(f, 0.05) / T, 0.05)
    return float(min(by_mean, by_tail))

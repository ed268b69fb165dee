"""Which correlations are significant: p-values of a sequential test, false discovery rate, the largest by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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

r"""What a set of three or more views shares, in the whole recording and at each landmark.

Three views may share something two by two and nothing all together, so each view in turn is tested against what the
*others* share. For two views see `surrogates` and `components`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from dlcca.trust.components import Basis, Floats, chance, n_significant, sequence
from dlcca.trust.surrogates import SURROGATES, Bases, Compared, random_shifts

#: Shifts that give the agreement of views by chance.
EDGE_SHIFTS = 6


@dataclass(frozen=True)
class Together:
    """Common components of a set of views at m landmarks."""

    count: NDArray[np.int64]  # (m,) components
    variates: Floats  # (m, k, s) of length one for significant components, else zero


def in_common(scores: Sequence[Floats], samples: float, level: float) -> Together:
    """Components that all of K >= 2 views hold, from their `leading` scores (m, k, p_v).

    Each view is tested against what the others share, found in the same way; the p-value is the largest of them.
    ``samples`` is the effective number of samples of a neighborhood, and ``level`` the false discovery rate.
    """

    @cache  # smaller sets are needed several times
    def of(views: tuple[int, ...]) -> Together:
        if len(views) == 2:
            return _counted([sequence(scores[views[0]], scores[views[1]])], samples, level)
        rests = [(tuple(u for u in views if u != v), v) for v in views]
        return _counted([sequence(of(rest).variates, scores[v]) for rest, v in rests], samples, level)

    return of(tuple(range(len(scores))))


def _counted(tried: Sequence[tuple[Floats, Floats]], samples: float, level: float) -> Together:
    """The largest p-value of several sequences, and the variates of the last."""
    s = min(made.shape[2] for made, _ in tried)
    p = np.max([chance(made[0, :, :s], made[1, :, :s], made[2, :, :s], samples) for made, _ in tried], axis=0)
    count = n_significant(p, level)
    kept = (np.arange(s) < count[:, None])[:, None, :]
    return Together(count, np.where(kept, unit(tried[-1][1][:, :, :s]), 0))


def agreed(views: Sequence[Basis]) -> tuple[Floats, Floats]:
    """The MAXVAR components of some views: variates (m, k, r) of length one, and their least correlation (m, r).

    The smallest correlation is over the pairs of views, between their parts of a component; it is near 0 for
    a component of two views of three.
    """
    sizes = [view.columns.shape[2] for view in views]
    Z = np.concatenate([view.columns for view in views], axis=2)
    _, V = np.linalg.eigh(np.swapaxes(Z, 1, 2) @ Z)
    V = V[:, :, : -min(sizes) - 1 : -1]
    parts = [
        unit(view.columns @ V[:, first:last])
        for view, (first, last) in zip(views, pairwise(np.cumsum([0, *sizes])), strict=True)
    ]
    least = np.min([np.einsum("mkr,mkr->mr", a, b) for a, b in combinations(parts, 2)], axis=0)
    return unit(np.sum(parts, axis=0)), np.maximum(least, 0)


def unit(x: Floats) -> Floats:
    """Columns (m, k, r) at length one; zero for those that are."""
    size = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, size, out=np.zeros_like(x), where=size > 1e-12)


def carried(variates: Floats, view: Basis) -> Floats:
    r"""How much of variates (m, k, r) of length one a view holds, (m, r): :math:`\|Q_v^T u\|^2`, from 0 to 1."""
    return ((np.swapaxes(view.columns, 1, 2) @ variates) ** 2).sum(axis=1)


def beyond_chance(variates: Floats, view: Basis) -> Floats:
    """The same less its expectation by chance, from the variates of other landmarks, (m, r); may be below 0."""
    m = len(variates)
    by_chance = float(np.mean([carried(variates, view.moved(m * part // 5)).mean() for part in range(1, 5)]))
    return (carried(variates, view) - by_chance) / max(1 - by_chance, 1e-12)


def rest_test(bases: Bases, n: int, K: int, v: int, *, count: int = SURROGATES, no_room: float = 1.0) -> Compared:
    r"""Test whether view v holds anything of what the K - 1 others share: it is shifted, they stay aligned.

    The statistic is :math:`\sum_i \max(0, t_i^2 - t_0^2)\, \|Q_v^T u_i\|^2`, the mean over the neighborhoods, with the
    components :math:`u_i` that the others agree on, their smallest correlation :math:`t_i`, and :math:`t_0` what
    shifted others reach in one neighborhood of twenty: components that agree by chance may consist of what each
    of the others shares with v. If :math:`t_0^2` is ``no_room`` or more there are no surrogates.
    """
    others = [u for u in range(K) if u != v]
    edge = _edge(bases, n, K, others)
    if edge >= no_room:
        return Compared(0.0, np.empty(0))

    def statistic(shift: int) -> float:
        made = bases([shift if u == v else 0 for u in range(K)])
        variates, least = agreed([made[u] for u in others])
        return float((np.maximum(least**2 - edge, 0) * carried(variates, made[v])).sum(axis=1).mean())

    shifts = random_shifts(n, 2, count, np.random.default_rng(0))[:, 1].tolist()
    return Compared(statistic(0), np.array([*map(statistic, shifts)]))


def _edge(bases: Bases, n: int, K: int, others: Sequence[int]) -> float:
    """The 95 % quantile over neighborhoods of the largest squared agreement of shifted views."""
    tops = []
    for row in random_shifts(n, len(others), EDGE_SHIFTS, np.random.default_rng(3)):
        shifts = np.zeros(K, np.int64)
        shifts[list(others)] = row
        made = bases(shifts.tolist())
        tops.append(agreed([made[u] for u in others])[1].max(axis=1) ** 2)
    return float(np.quantile(tops, 0.95)) if tops else 1.0


def adjusted(tests: Sequence[Compared]) -> list[float]:
    """p-values of several tests, adjusted for the family-wise error by the largest surrogate (Westfall and Young).

    Each statistic is standardised by its own surrogates, each surrogate by the others. With one test it is its own p.
    """
    count = min(len(test.surrogates) for test in tests)
    if count < 3:
        return [1.0] * len(tests)
    null = [test.surrogates[:count] for test in tests]
    largest = np.max([_among_others(x) for x in null], axis=0)
    above = [(t.statistic - x.mean()) / max(x.std(ddof=1), 1e-300) for t, x in zip(tests, null, strict=True)]
    return [float((1 + (largest >= least).sum()) / (1 + count)) for least in above]


def _among_others(x: Floats) -> Floats:
    """Each value standardised by the mean and the standard deviation of the others."""
    mean = (x.sum() - x) / (len(x) - 1)
    spread = [np.delete(x, i).std(ddof=1) for i in range(len(x))]
    return (x - mean) / np.maximum(spread, 1e-300)


def exactly(counts: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    r"""Components of exactly one set of views, from the numbers of components that all views of each set hold.

    :math:`e_S = \sum_{T \supseteq S} (-1)^{|T| - |S|} c_T`, at least 0; sets without any are left out.
    """
    made = {S: sum((-1) ** (len(T) - len(S)) * c for T, c in counts.items() if set(S) <= set(T)) for S in counts}
    return {S: e for S, e in made.items() if e > 0}

r"""What a set of views shares: at each landmark, and over all against what shifted views show.

For two views this is what `components` and `surrogates` test. Three views may share something two by two and nothing
all together, so for a larger set each view in turn is held against what the *others* share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from dlcca.trust.components import Basis, Floats, sequence
from dlcca.trust.significance import chance, n_significant
from dlcca.trust.surrogates import SURROGATES, Bases, Compared, random_shifts

#: Shifts from which it is told how much views agree by chance.
EDGE_SHIFTS = 6


@dataclass(frozen=True)
class Together:
    """What all views of a set share at m landmarks."""

    count: NDArray[np.int64]  # (m,) components
    p: Floats  # (m, s) of each step, that there is none
    variates: Floats  # (m, k, s) of length one, as many as are counted; the others are zero


def in_common(scores: Sequence[Floats], samples: float, level: float) -> Together:
    """Components that all of K >= 2 views hold, from their `leading` scores (m, k, p_v).

    Each view is tested against what the others share, found in the same way; the p-value is the worst of them.
    ``samples`` is what a neighborhood is worth, and ``level`` the share of false discoveries among the landmarks.
    """
    known: dict[tuple[int, ...], Together] = {}  # smaller sets are met on many ways

    def of(views: tuple[int, ...]) -> Together:
        if views not in known:
            known[views] = of_set(views)
        return known[views]

    def of_set(views: tuple[int, ...]) -> Together:
        if len(views) == 2:
            return _counted([sequence(scores[views[0]], scores[views[1]])], samples, level)
        rests = [(tuple(u for u in views if u != v), v) for v in views]
        return _counted([sequence(of(rest).variates, scores[v]) for rest, v in rests], samples, level)

    return of(tuple(range(len(scores))))


def _counted(tried: Sequence[tuple[Floats, Floats]], samples: float, level: float) -> Together:
    """The worst p-value of several sequences, and the variates of the last."""
    s = min(made.shape[2] for made, _ in tried)
    p = np.max([chance(made[0, :, :s], made[1, :, :s], made[2, :, :s], samples) for made, _ in tried], axis=0)
    count = n_significant(p, level)
    return Together(count, p, _kept(tried[-1][1][:, :, :s], count))


def _kept(variates: Floats, count: NDArray[np.int64]) -> Floats:
    """Of length one, and zero from the count on."""
    size = np.linalg.norm(variates, axis=1, keepdims=True)
    kept = (np.arange(variates.shape[2]) < count[:, None])[:, None, :] & (size > 0)
    return np.where(kept, variates / np.where(size > 0, size, 1), 0)


def agreed(views: Sequence[Basis]) -> tuple[Floats, Floats]:
    """The MAXVAR components of some views: variates (m, k, r) of length one, and their least correlation (m, r).

    The least is over the pairs of views of the correlation of their own parts; a component that two views of three hold
    has none to speak of.
    """
    sizes = [view.columns.shape[2] for view in views]
    Z = np.concatenate([view.columns for view in views], axis=2)
    _, V = np.linalg.eigh(np.swapaxes(Z, 1, 2) @ Z)
    V = V[:, :, : -min(sizes) - 1 : -1]
    parts = [
        _unit(view.columns @ V[:, first:last])
        for view, (first, last) in zip(views, pairwise(np.cumsum([0, *sizes])), strict=True)
    ]
    least = np.min([np.einsum("mkr,mkr->mr", a, b) for a, b in combinations(parts, 2)], axis=0)
    return _unit(np.sum(parts, axis=0)), np.maximum(least, 0)


def _unit(x: Floats) -> Floats:
    size = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, size, out=np.zeros_like(x), where=size > 1e-12)


def carried(variates: Floats, view: Basis) -> Floats:
    r"""How much of variates (m, k, r) of length one a view holds, (m, r): :math:`\|Q_v^T u\|^2`, from 0 to 1."""
    return np.asarray(((np.swapaxes(view.columns, 1, 2) @ variates) ** 2).sum(axis=1), np.float64)


def beyond_chance(variates: Floats, view: Basis) -> Floats:
    """The same less what the view's neighborhoods hold of other landmarks' variates, (m, r); below 0 by chance only."""
    m = len(variates)
    by_chance = float(np.mean([carried(variates, view.moved(m * part // 5)).mean() for part in range(1, 5)]))
    return (carried(variates, view) - by_chance) / max(1 - by_chance, 1e-12)


def rest_test(bases: Bases, n: int, K: int, v: int, *, count: int = SURROGATES, no_room: float = 1.0) -> Compared:
    r"""Whether view v holds anything of what the K - 1 others share: it is shifted against them, they stay in step.

    The statistic is :math:`\sum_i \max(0, t_i^2 - t_0^2)\, \|Q_v^T u_i\|^2`, the mean over the neighborhoods, with the
    components :math:`u_i` that the others agree on, their least correlation :math:`t_i`, and :math:`t_0` what others
    that are shifted reach in one neighborhood of twenty: what two views have by chance only may well be made of what
    each of them shares with v. Where :math:`t_0^2` is ``no_room`` or more nothing can be told: there are no surrogates.
    """
    others = [u for u in range(K) if u != v]
    edge = _edge(bases, n, K, others)
    if edge >= no_room:
        return Compared(0.0, np.empty(0))

    def statistic(shift: int) -> float:
        made = bases([shift if u == v else 0 for u in range(K)])
        variates, least = agreed([made[u] for u in others])
        return float((np.maximum(least**2 - edge, 0) * carried(variates, made[v])).sum(axis=1).mean())

    shifts = random_shifts(n, 2, count, np.random.default_rng(0))[:, 1]
    return Compared(statistic(0), np.array([statistic(int(shift)) for shift in shifts]))


def _edge(bases: Bases, n: int, K: int, others: Sequence[int]) -> float:
    """The square of the least correlation that only one neighborhood in twenty of shifted views exceeds."""
    tops = []
    for row in random_shifts(n, len(others), EDGE_SHIFTS, np.random.default_rng(3)):
        shifts = np.zeros(K, np.int64)
        shifts[list(others)] = row
        made = bases(shifts.tolist())
        tops.append(agreed([made[u] for u in others])[1].max(axis=1) ** 2)
    return float(np.quantile(tops, 0.95)) if tops else 1.0


def adjusted(tests: Sequence[Compared]) -> list[float]:
    """p-values of several tests such that the chance of any false one is held, by the largest of all surrogates.

    Each is measured in the spread of its own surrogates, a surrogate in that of the others; with the b-th surrogate of
    every test the largest counts (the step of Westfall and Young). Of one test it is its own p.
    """
    count = min(len(test.surrogates) for test in tests)
    if count < 3:
        return [1.0 for _ in tests]
    largest = np.max([_among_others(test.surrogates[:count]) for test in tests], axis=0)
    found = []
    for test in tests:
        spread = test.surrogates[:count].std(ddof=1)
        above = (test.statistic - test.surrogates[:count].mean()) / max(spread, 1e-300)
        found.append(float((1 + (largest >= above).sum()) / (1 + count)))
    return found


def _among_others(x: Floats) -> Floats:
    """How far each lies above the mean of the others, in units of their spread."""
    n = len(x)
    mean = (x.sum() - x) / (n - 1)
    spread = [np.delete(x, i).std(ddof=1) for i in range(n)]
    return np.asarray((x - mean) / np.maximum(spread, 1e-300), np.float64)


def exactly(counts: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    r"""Components that are in a set of views and in no larger one, from those that are in all views of each set.

    :math:`e_S = \sum_{T \supseteq S} (-1)^{|T| - |S|} c_T`, at least 0; sets without any are left out.
    """
    made = {
        S: max(0, sum((-1) ** (len(T) - len(S)) * c for T, c in counts.items() if set(S) <= set(T))) for S in counts
    }
    return {S: e for S, e in made.items() if e > 0}

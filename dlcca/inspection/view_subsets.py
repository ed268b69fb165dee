"""Which views share what: every two of them, and the sets of views that each common component is in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.estimator import LocalCCA, in_step
from dlcca.fitting.neighbors import find_neighbors
from dlcca.numerics.landmarks import evenly
from dlcca.numerics.principal import Floats, leading
from dlcca.trust.components import Basis, basis, chance, n_directions, n_significant, sequence
from dlcca.trust.quality import LEVEL, Common
from dlcca.trust.sharing import FEWEST_SURROGATES, at_landmarks, chance_from, common_of
from dlcca.trust.surrogates import Compared, Recording, adjusted, carried, compared_of, rest_test, unit
from dlcca.views import checked

#: Landmarks that are examined, spread over all.
SOME_LANDMARKS = 256
#: Views of which all sets are examined; of more there would be too many.
MOST_VIEWS = 8
#: Where a twentieth of the neighborhoods of shifted views reach this squared correlation, larger sets are undecided.
BLIND = 0.95
#: Something is not common to some views only when another holds more than this much of it.
MOST_OUTSIDE = 0.5

Set = tuple[int, ...]


@dataclass(frozen=True)
class PairShares:
    """What two views share."""

    views: tuple[str, str]
    shares: bool | None  # None if undecided: too few rows, or views that are as much alike when shifted
    p: float | None  # that views which share nothing look like these; the chance of any false pair is held
    n_common: int  # dimensions at the typical landmark
    strength: float  # how much of the leading common direction they share beyond chance, 0 to 1; the median landmark


@dataclass(frozen=True)
class SharedPart:
    """Something that is common to these views and, as far as is known, to no others."""

    views: tuple[str, ...]
    n_components: int
    p: float  # that some view of the set does not hold it
    carried: NDArray[np.float64]  # (K,) how much of it each of all views holds beyond chance, 0 to 1; NaN if not known
    exact: bool  # False if it is not known whether others hold it as well


@dataclass(frozen=True)
class Sharing:
    """Which views share what, as `who_shares` finds it; ``print`` it for sentences."""

    names: tuple[str, ...]
    pairs: list[PairShares]
    parts: list[SharedPart]  # the largest sets first
    carried: NDArray[np.float64]  # (q, K) how much of each coordinate of the model each view holds, 0 to 1

    @property
    def common_to_all(self) -> int:
        """Components that every view holds."""
        return sum(part.n_components for part in self.parts if len(part.views) == len(self.names))

    def matrix(self) -> NDArray[np.int64]:
        """Common dimensions of every two views, (K, K); 0 on the diagonal."""
        found = np.zeros((len(self.names),) * 2, np.int64)
        for pair in self.pairs:
            u, v = (self.names.index(name) for name in pair.views)
            found[u, v] = found[v, u] = pair.n_common
        return found

    def __str__(self) -> str:
        lines = [_part_line(part, len(self.names)) for part in self.parts] or ["No two views are known to share."]
        lines += [_pair_line(pair) for pair in self.pairs]
        for c, row in enumerate(self.carried):
            shares = ", ".join(f"{name} {share:.2f}" for name, share in zip(self.names, row, strict=True))
            lines.append(f"Coordinate {c + 1} is held by {shares} (1 is all of it, 0 none).")
        return "\n".join(lines)


def who_shares(model: LocalCCA, views: Any) -> Sharing:
    """Which views share what: each pair, and the sets of views that hold a common component.

    A pair shares something if its neighborhoods show more than those of the two views shifted against each other do.
    A larger set does if each of its views holds something of what the *others* share. The chance that any pair is named
    that shares nothing is at most 0.05 over all pairs together, and likewise over all sets of one size.

    Parameters
    ----------
    model : fitted to the views, two or more; its settings say what a neighborhood is
    views : those that it was fitted to, in memory

    Returns
    -------
    Sharing, with ``pairs``, ``parts`` (what is common to exactly which views), ``carried`` and ``matrix()``
    """
    examined = _examined(model, views)
    K, names = len(examined.arrays), model.model_.names
    pairs = _pairs(examined)
    sets = {S: common.dimensions for S, common in pairs.items() if common.found}
    p = {S: common.p for S, common in pairs.items() if common.p is not None}
    undecided = [S for size in range(3, K + 1) for S in _add_sets(examined, size, sets, p, pairs)]
    samples = min(common.samples for common in pairs.values())
    scores = examined.scores(tuple(range(K)))
    bases = [basis(A) for A in scores]
    found = []
    for S, e in sorted(exactly(sets).items(), key=lambda part: (-len(part[0]), part[0])):
        held = _held(scores, bases, S, sets[S], e, samples)
        if not any(held[v] > MOST_OUTSIDE for v in range(K) if v not in S):  # else a bend of what a larger set shares
            exact = not any(set(S) < set(larger) for larger in undecided)
            found.append(SharedPart(tuple(names[v] for v in S), e, p[S], held, exact))
    of_pairs = [
        PairShares((names[u], names[v]), x.found, x.p, x.dimensions, float(np.median(x.strength)))
        for (u, v), x in pairs.items()
    ]
    return Sharing(names, of_pairs, found, _carried(examined, model, bases))


def held_by_views(model: LocalCCA, views: Any) -> NDArray[np.float64]:
    """How much of each coordinate of a model each view holds beyond chance, (q, K): ``carried`` of `who_shares`."""
    examined = _examined(model, views)
    return _carried(examined, model, [basis(A) for A in examined.scores(tuple(range(len(examined.arrays))))])


@dataclass(frozen=True)
class _Examined(Recording):
    """The views, and the landmarks at which they are examined."""

    rows: NDArray[np.int64]  # of the landmarks

    def scores(self, S: Set) -> list[NDArray]:
        """Of each of these views (m, k, p_v), along its leading directions around the landmarks."""
        near = self.neighbors(S)
        return [leading(X[near], n_directions(near.shape[1])).scores for X in self.of(S)]

    def neighbors(self, S: Set) -> NDArray[np.int64]:
        """Rows (m, k): those near in these views, if it is by state; a window of time is one for all."""
        if self.given is not None:
            return self.given
        return find_neighbors(self.of(S), self.rows, self.settings, self.segments)


def _examined(model: LocalCCA, views: Any) -> _Examined:
    """The views in step, and some of the landmarks of the model."""
    aligned, rows, _ = in_step(model, views)
    arrays = checked(aligned).present
    if len(arrays) < 2:
        raise DataError("what views share is of two or more views; this model has one.")
    if len(arrays) > MOST_VIEWS:
        raise SettingsError(
            f"sets of at most {MOST_VIEWS} views are examined, and there are {len(arrays)}; give fewer."
        )
    at = np.searchsorted(rows, np.asarray(model.landmarks_))
    some = evenly(len(at), min(len(at), SOME_LANDMARKS))
    segments, kind = getattr(views, "segments", None), model.settings_.neighborhoods.kind
    given = None if isinstance(kind, str) else np.asarray(kind)[some]
    return _Examined(arrays, model.settings_, None if segments is None else segments[rows], given, at[some])


def _pairs(examined: _Examined) -> dict[Set, Common]:
    """What every two views share."""
    near = {S: examined.neighbors(S) for S in combinations(range(len(examined.arrays)), 2)}
    k = near[0, 1].shape[1]
    tests = {S: compared_of(examined.of(S), *examined.bases(S, k)) for S in near}
    p = _p_values([_unbounded(found) if against == "speeds" else found for _, found, against in tests.values()])
    ranks = np.zeros((len(examined.rows), 2), np.int64)
    return {
        S: common_of(chance_from(shifted, against, p_S, k), *at_landmarks(examined.of(S), near[S], ranks))
        for (S, (shifted, _, against)), p_S in zip(tests.items(), p, strict=True)
    }


def _unbounded(test: Compared) -> Compared:
    """Correlations after Fisher's transformation: near 1 they lie so close that their spread says little."""
    statistic, *surrogates = np.arctanh(np.minimum([test.statistic, *test.surrogates], 1 - 1e-12))
    return Compared(float(statistic), np.array(surrogates))


def _p_values(tests: Sequence[Compared]) -> list[float | None]:
    """Over all tests together; None where there were too few rows."""
    enough = [len(test.surrogates) >= FEWEST_SURROGATES for test in tests]
    found = iter(adjusted([*compress(tests, enough)]) if any(enough) else ())
    return [next(found) if is_enough else None for is_enough in enough]


def _add_sets(
    examined: _Examined, size: int, sets: dict[Set, int], p: dict[Set, float], pairs: dict[Set, Common]
) -> list[Set]:
    """Add the sets of one size that share something, of those whose subsets all do; return the undecided ones."""
    every = combinations(range(len(examined.arrays)), size)
    worth = [S for S in every if all(part in sets for part in combinations(S, size - 1))]
    # Views that repeat themselves are as much alike when shifted, and no other test is known for more than two.
    steady = [S for S in worth if any(pairs[pair].against != "shifted" for pair in combinations(S, 2))]
    tests: dict[Set, list[Compared]] = {}
    for S in (S for S in worth if S not in steady):  # each view against what the others share
        bases, places = examined.bases(S, examined.neighbors(S).shape[1])
        tests[S] = [rest_test(bases, places, size, v, no_room=BLIND) for v in range(size)]
    blind = [S for S, found in tests.items() if any(len(test.surrogates) < FEWEST_SURROGATES for test in found)]
    able = [S for S in tests if S not in blind]
    found = iter(_p_values([test for S in able for test in tests[S]]))
    samples = min(common.samples for common in pairs.values())
    for S in able:
        p[S] = max(next(found) or 0.0 for _ in S)
        if p[S] <= LEVEL:
            most = min(sets[part] for part in combinations(S, size - 1))
            decided = min(float((pairs[pair].count > 0).mean()) for pair in combinations(S, 2))
            if count := min(most, _dimensions(examined, S, samples, decided)):
                sets[S] = count
    return steady + blind


def _dimensions(examined: _Examined, S: Set, samples: float, decided: float) -> int:
    """At the typical landmark that has any.

    If pairs are significant at most landmarks (``decided`` is the share of these), a component that is significant at
    none of them does not exist. Otherwise there is at least one, known from all landmarks together.
    """
    count = in_common(examined.scores(S), samples, LEVEL).count
    some = count[count > 0]
    if decided >= 0.5 and len(some) <= LEVEL * len(count):
        return 0
    return max(1, int(np.median(some))) if len(some) else 1


def _held(scores: list[NDArray], bases: list[Basis], S: Set, c: int, e: int, samples: float) -> NDArray[np.float64]:
    """How much each view (K,) holds of the e components, of c, that the views of S share and others hold least of."""
    made = in_common([scores[v] for v in S], samples, LEVEL)
    has = np.flatnonzero(made.count > 0)
    if not len(has):
        return np.full(len(bases), np.nan)
    U = made.variates[has, :, :c]
    views = [Basis(view.columns[has], view.count[has]) for view in bases]
    outside = [view.columns for v, view in enumerate(views) if v not in S]
    if outside and c > e:
        seen = np.swapaxes(np.concatenate(outside, axis=2), 1, 2) @ U
        missing = (np.linalg.norm(U, axis=1) == 0).astype(float)  # of landmarks that show fewer: last in the order
        order = np.swapaxes(seen, 1, 2) @ seen + 10.0 * missing[:, :, None] * np.eye(U.shape[2])
        U = U @ np.linalg.eigh(order)[1][:, :, :e]
    there = np.linalg.norm(U, axis=1) > 0.5
    return np.array([float(np.clip(np.median(beyond_chance(U, view)[there]), 0, 1)) for view in views])


def _carried(examined: _Examined, model: LocalCCA, bases: list[Basis]) -> NDArray[np.float64]:
    """How much of each coordinate's change within the neighborhoods goes with each view: (q, K)."""
    near = examined.neighbors(tuple(range(len(examined.arrays))))
    E = model.model_.coordinates([X[near.ravel()] for X in examined.arrays]).reshape(*near.shape, -1)
    E = unit(E - E.mean(axis=1, keepdims=True))
    return np.column_stack([np.clip(np.median(beyond_chance(E, view), axis=0), 0, 1) for view in bases])


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


def beyond_chance(variates: Floats, view: Basis) -> Floats:
    """The same less its expectation by chance, from the variates of other landmarks, (m, r); may be below 0."""
    m = len(variates)
    by_chance = float(np.mean([carried(variates, view.moved(m * part // 5)).mean() for part in range(1, 5)]))
    return (carried(variates, view) - by_chance) / max(1 - by_chance, 1e-12)


def exactly(counts: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    r"""Components of exactly one set of views, from the numbers of components that all views of each set hold.

    :math:`e_S = \sum_{T \supseteq S} (-1)^{|T| - |S|} c_T`, at least 0; sets without any are left out.
    """
    made = {S: sum((-1) ** (len(T) - len(S)) * c for T, c in counts.items() if set(S) <= set(T)) for S in counts}
    return {S: e for S, e in made.items() if e > 0}


def _part_line(part: SharedPart, K: int) -> str:
    many = f"{part.n_components} component{'s' * (part.n_components != 1)}"
    if len(part.views) == K:
        return f"{many} common to all views."
    views = " and ".join(part.views)
    return f"{many} common to {views}{' only' if part.exact else '; not known whether to others too'}."


def _pair_line(pair: PairShares) -> str:
    one, other = pair.views
    if pair.p is None:
        return f"{one} and {other}: too few rows."
    if pair.shares is None:
        return f"{one} and {other}: not known whether they share anything, p = {pair.p:.3f}."
    what = f"share {pair.n_common} (strength {pair.strength:.2f})" if pair.shares else "share nothing significant"
    return f"{one} and {other} {what}, p = {pair.p:.3f}."

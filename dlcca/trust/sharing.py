"""What the views share: a test of the whole recording against surrogates, and a test at every landmark.

Two views are compared with shifted ones. Three and more views share something if each of them holds something of what
the *others* share (`surrogates.rest_test`); the p-value is the largest of these tests. The cost does not grow with the
recording: some tens of local decompositions for each of 38 surrogates, and one small test at each landmark.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.principal import Leading, leading
from dlcca.trust.components import Tested, all_steps, n_directions, n_significant, p_values
from dlcca.trust.quality import LEVEL, Chance, Common
from dlcca.trust.surrogates import Compared, Recording, adjusted, compared_of, rest_test

#: Entries of the neighborhoods that are gathered at a time.
BATCH_ENTRIES = 1 << 22
#: With fewer surrogates no p-value is below `LEVEL`.
FEWEST_SURROGATES = 19
#: Views of which all pairs are tested if there is nothing common to all; of more there would be too many.
MOST_VIEWS = 8


def chance_of(recording: Recording, k: int) -> Chance:
    """Test of two or more views in neighborhoods of k samples."""
    K = len(recording.arrays)
    bases, places = recording.bases(range(K), k)
    surrogates, found, against = compared_of(recording.arrays, bases, places)
    p = found.p if len(found.surrogates) >= FEWEST_SURROGATES else None
    pairs: list[list[int]] = []
    if p is not None and K > 2 and against == "shifted":
        # That not all of the views share one component: the largest p of each view against the rest.
        p = max(rest_test(bases, places, K, v).p for v in range(K))
        if p > LEVEL and K <= MOST_VIEWS:  # each pair in neighborhoods of its own; the family-wise error is `LEVEL`
            pairs = [[u, v] for u, v in combinations(range(K), 2)]
            tests = [compared_of(recording.of(pair), *recording.bases(pair, k))[0] for pair in pairs]
            pairs = [pair for pair, p_pair in zip(pairs, adjusted(tests), strict=True) if p_pair <= LEVEL]
    return chance_from(surrogates, against, p, k, pairs)


def chance_from(
    surrogates: Compared, against: str, p: float | None, k: int, pairs: list[list[int]] | None = None
) -> Chance:
    """The result, from the comparison with shifted views and the p-value, which may be that of another test."""
    # Steady oscillations are as similar when they are shifted: that is no measure of chance.
    by_chance = min(surrogates.by_chance, 1 - 1e-9) if against == "shifted" else 0.0
    return Chance(p, against, min(float(k), surrogates.samples), by_chance, pairs or [])


def at_landmarks(
    arrays: Sequence[NDArray], neighbors: NDArray[np.int64], ranks: NDArray, known: Sequence[Leading] | None = None
) -> tuple[Tested, NDArray[np.float64], NDArray[np.float64]]:
    """The sequential test at every landmark, and ``radius`` and ``condition`` (m, K) of its neighborhood: see `Common`.

    ``neighbors`` (m, k) are rows, ``ranks`` (m, K) those of the views; ``known`` the `leading` directions of each view
    there, if the metric has left them.
    """
    k, widest = neighbors.shape[1], sum(X.shape[1] for X in arrays)
    batch = max(1, BATCH_ENTRIES // (k * widest))
    parts, radius, condition = [], [], []
    for first in range(0, len(neighbors), batch):
        some = slice(first, first + batch)
        if known is None:
            views = [leading(X[neighbors[some]], n_directions(k)) for X in arrays]
        else:
            views = [Leading(view.scores[some], view.variances[some]) for view in known]
        parts.append(all_steps([view.scores for view in views]))
        radius.append(np.column_stack([np.sqrt(view.variances.sum(axis=1)) for view in views]))
        last = np.maximum(ranks[first : first + batch] - 1, 0)
        least = np.hstack([np.take_along_axis(X.variances, last[:, [v]], axis=1) for v, X in enumerate(views)])
        most = np.column_stack([view.variances[:, 0] for view in views])
        condition.append(np.divide(most, least, out=np.full(least.shape, np.inf), where=least > 0))
    test = Tested(*(np.concatenate(some, axis=1) for some in zip(*parts, strict=True)))
    return test, np.concatenate(radius), np.concatenate(condition)


def common_of(chance: Chance, test: Tested, radius: NDArray, condition: NDArray) -> Common:
    """What the views share, in the whole recording and at every landmark, from what `at_landmarks` returned."""
    p = p_values(test, chance.samples)
    strength = np.clip((test.top.min(axis=0) ** 2 - chance.by_chance) / (1 - chance.by_chance), 0, 1)
    found = {"count": n_significant(p, LEVEL), "p_values": p[:, 0], "strength": strength}
    return Common(**vars(chance), **found, radius=radius, condition=condition)


def strength_of_rows(
    n: int, neighborhoods: Iterable[NDArray], landmarks: NDArray[np.int64], strength: NDArray
) -> NDArray[np.float64]:
    """The mean strength (n,) of the neighborhoods that each row belongs to.

    For a row in none it is interpolated between the landmarks before and after it in time. ``neighborhoods`` are
    batches (m_i, k) of those of all ``landmarks`` (m,), in their order, and ``strength`` (m,) theirs.
    """
    total, times, done = np.zeros(n), np.zeros(n, np.int64), 0
    for rows in neighborhoods:
        total += np.bincount(rows.ravel(), np.repeat(strength[done : done + len(rows)], rows.shape[1]), minlength=n)
        times += np.bincount(rows.ravel(), minlength=n)
        done += len(rows)
    alone, order = np.flatnonzero(times == 0), np.argsort(landmarks)
    found = total / np.maximum(times, 1)
    found[alone] = np.interp(alone, landmarks[order], strength[order])
    return found

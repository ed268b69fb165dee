r"""How good coordinates are where no truth is known: do they come again, and does every view tell them?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.neighborhoods import smallest, squared_distances
from dlcca.trust.reproducibility import matched
from dlcca.trust.scores import at_unit_variance

Floats = NDArray[np.float64]


def come_again(A: NDArray, B: NDArray) -> Floats:
    r"""The share of each coordinate (q,) of two fits A and B (n, q) that the other one tells, from 0 to 1.

    :math:`1 - |a - P_B a|^2 / |a|^2` for a centred coordinate a of A, with :math:`P_B a` its best linear function of
    those of B; the mean of this and of the same with A and B exchanged.
    """
    A, B = at_unit_variance(A), at_unit_variance(B)
    return (_told(A, matched(A, B)) + _told(B, matched(B, A))) / 2


def seen_by_all(E: NDArray, near: Sequence[NDArray[np.int64]]) -> Floats:
    r"""The share of each coordinate (q,) of E (n, q) that the view which tells it least tells, from 0 to 1.

    The guess at a sample is the mean over samples that are near in one view, ``near`` (n, k) for each view:
    :math:`\min_v 1 - \sum_i (e_i - \hat e_i^v)^2 / \sum_i (e_i - \bar e)^2`.
    """
    E = at_unit_variance(E)
    return np.minimum.reduce([_told(E, E[rows].mean(axis=1)) for rows in near])


def near_held_out(X: NDArray, fold: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """For each of the n rows of a view (n, d) the k nearest of other folds, (n, k); ``fold`` (n,) numbers them."""
    D = squared_distances(X, X)
    D[fold[:, None] == fold] = np.inf
    return smallest(D, k)


def _told(E: Floats, guess: Floats) -> Floats:
    """R² of coordinates at unit variance (n, q); none of one that never changes."""
    changes = (E**2).sum(axis=0) > 0
    return np.where(changes, np.clip(1 - ((E - guess) ** 2).mean(axis=0), 0, 1), 0.0)

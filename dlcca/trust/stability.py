r"""Whether coordinates are reproduced by fits to other samples: fits to two halves, compared with the fit to all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.trust.scores import at_unit_variance, linear_prediction, linear_r2

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reproduced:
    """Stability of q coordinates of n rows."""

    reproducibility: Floats  # (q,) share of each coordinate that both halves reproduce, 0 to 1
    band: Floats  # (n, q) about one standard error of each row's coordinate


def reproduced(E: NDArray, splits: Sequence[tuple[NDArray, NDArray]]) -> Reproduced:
    r"""From the coordinates E (n, q) of a fit to all rows, and those of the fits to the two halves of each split.

    With :math:`\hat e_h = P_h e` the part of a centred coordinate e that is a linear function of the coordinates of
    half h, its reproducibility is :math:`\langle\hat e_1, \hat e_2\rangle / \langle e, e\rangle`: 1 if both halves
    predict all of it, and the product of the two R² if the predictions have nothing else in common. The mean over
    the splits.

    A fit to half of the rows has twice the variance of the fit to all, and the difference of two halves four times; so
    the band is the root of :math:`(\hat e_1 - \hat e_2)^2 / 4 + (e - (\hat e_1 + \hat e_2)/2)^2`, the mean over the
    splits; the second part is what neither half predicts.
    """
    E = np.asarray(E, np.float64)
    mean = E.mean(axis=0)
    total = ((E - mean) ** 2).sum(axis=0)
    shares, squares = [], np.zeros_like(E)
    for halves in splits:
        one, two = (linear_prediction(E, half) for half in halves)
        shares.append(((one - mean) * (two - mean)).sum(axis=0) / np.where(total > 0, total, 1))
        squares += (one - two) ** 2 / 4 + (E - (one + two) / 2) ** 2
    return Reproduced(np.clip(np.mean(shares, axis=0), 0, 1), np.sqrt(squares / len(splits)))


def agreement(A: NDArray, B: NDArray) -> Floats:
    r"""R² (q,), clipped to [0, 1], of each coordinate of one of two fits A and B (n, q) predicted by the other fit.

    :math:`1 - |a - P_B a|^2 / |a|^2` for a centred coordinate a of A, with :math:`P_B a` its best linear function of
    those of B; the mean of this and of the same with A and B exchanged.
    """
    A, B = at_unit_variance(A), at_unit_variance(B)
    return (np.clip(linear_r2(A, B), 0, 1) + np.clip(linear_r2(B, A), 0, 1)) / 2


def split_rows(
    n: int, n_blocks: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows of two halves, each of half of the contiguous blocks of n rows; and the block of every row (n,).

    Blocks, because consecutive rows are alike, and one half would predict the other through them.
    """
    block = np.arange(n) * n_blocks // n
    first = np.isin(block, rng.permutation(n_blocks)[: n_blocks // 2])
    return np.flatnonzero(first), np.flatnonzero(~first), block

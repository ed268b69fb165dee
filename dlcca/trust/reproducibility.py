r"""How well coordinates come again from other samples: two fits to the halves, held against the fit to all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reproduced:
    """Of q coordinates and n rows."""

    reproducibility: Floats  # (q,) share of each coordinate that both halves tell, 0 to 1
    band: Floats  # (n, q) about one standard error of each row's coordinate


def matched(E: NDArray, other: NDArray) -> Floats:
    """Coordinates E (n, q) as linear functions of those of another fit (n, p), which may turn and mix them."""
    A = np.column_stack([np.ones(len(other)), other])
    return np.asarray(A @ np.linalg.lstsq(A, np.asarray(E, np.float64), rcond=None)[0], np.float64)


def reproduced(E: NDArray, splits: Sequence[tuple[NDArray, NDArray]]) -> Reproduced:
    r"""From the coordinates E (n, q) of a fit to all rows, and those of the fits to the two halves of each split.

    With :math:`\hat e_h = P_h e` the part of a centred coordinate e that is a linear function of the coordinates of
    half h, its reproducibility is :math:`\langle\hat e_1, \hat e_2\rangle / \langle e, e\rangle`: 1 if both halves tell
    all of it, and the product of the two R² where what they tell has nothing else in common. The mean over the splits.

    A half has twice the variance of all rows, and the difference of two halves four times; so the band is the root of
    :math:`(\hat e_1 - \hat e_2)^2 / 4 + (e - (\hat e_1 + \hat e_2)/2)^2`, the mean over the splits; the second part
    is what the halves cannot tell.
    """
    E = np.asarray(E, np.float64)
    mean = E.mean(axis=0)
    total = ((E - mean) ** 2).sum(axis=0)
    shares, squares = [], np.zeros_like(E)
    for halves in splits:
        one, two = (matched(E, half) for half in halves)
        shares.append(((one - mean) * (two - mean)).sum(axis=0) / np.where(total > 0, total, 1))
        squares += (one - two) ** 2 / 4 + (E - (one + two) / 2) ** 2
    return Reproduced(np.clip(np.mean(shares, axis=0), 0, 1), np.sqrt(squares / len(splits)))


def split_rows(
    n: int, n_blocks: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows of two halves, each of half the blocks that n rows in a row are cut into; and every row's block (n,).

    Blocks, because rows that follow each other are alike, and would tell of each other.
    """
    block = np.arange(n) * n_blocks // n
    first = np.isin(block, rng.permutation(n_blocks)[: n_blocks // 2])
    return np.flatnonzero(first), np.flatnonzero(~first), block

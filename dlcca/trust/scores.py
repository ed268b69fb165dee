"""How well coordinates hold a variable: guesses from the nearest samples, always on samples that were held out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.neighborhoods import smallest, squared_distances

#: Neighbours that a guess is made of, and parts that are held out in turn.
NEIGHBORS, FOLDS = 15, 5
#: Distances that are held at a time: 64 MB of them.
_BLOCK = 1 << 23


def at_unit_variance(X: NDArray) -> NDArray[np.float64]:
    """Columns of X (n, d) without their mean, at unit variance; those that never change are zero."""
    X = np.asarray(X, np.float64)
    largest = np.abs(X).max(axis=0)
    X = X - X.mean(axis=0)
    scale = X.std(axis=0)
    varies = scale > 1e-12 * largest  # less is rounding of the mean
    return np.where(varies, X, 0) / np.where(varies, scale, 1)


def blocked_folds(n: int, folds: int = FOLDS) -> NDArray[np.int64]:
    """The fold of each of n rows, (n,): equal stretches in a row, so that a guess is never made from the moment before.

    Samples of a recording are alike from one to the next. Held out one by one, they are guessed from their neighbours
    in time, whatever the coordinates hold.
    """
    return np.arange(n) * folds // n


def stratified_folds(labels: NDArray, rng: np.random.Generator, folds: int = FOLDS) -> NDArray[np.int64]:
    """The fold of each row, (n,), at random, with an equal share of every label in each."""
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        fold[rows] = np.arange(len(rows)) % folds
    return fold


def variable_score(X: NDArray, z: NDArray, fold: NDArray, *, k: int = NEIGHBORS) -> float:
    r"""Held-out :math:`R^2` of variables by the mean of the k nearest samples; 1 is perfect, 0 no better than a mean.

    :math:`1 - \sum|z_i - \hat z_i|^2 / \sum|z_i - \bar z|^2`, each variable divided by its standard deviation, so that
    all count alike whatever their units.

    Parameters
    ----------
    X : (n, d) coordinates, usually `at_unit_variance`
    z : (n,) or (n, p) variables
    fold : (n,) which rows are held out together
    """
    Z = at_unit_variance(np.reshape(z, (len(X), -1)))
    if not Z.any():
        return float("nan")  # a constant can be neither known nor missed
    guess = np.empty_like(Z)
    for held_out, near in _neighbors(X, fold, k):
        guess[held_out] = Z[near].mean(axis=1)
    return float(1 - ((Z - guess) ** 2).sum() / (Z**2).sum())


def phase_score(X: NDArray, phase: NDArray, fold: NDArray, *, k: int = NEIGHBORS) -> float:
    r"""Length of the mean resultant of the phase errors, :math:`|\frac1n\sum e^{i(\hat\varphi_j - \varphi_j)}|`.

    The guess :math:`\hat\varphi_j` is the direction of the mean of :math:`e^{i\varphi}` over the k nearest samples that
    are not held out. 1 is perfect; chance is about :math:`1/\sqrt n`, more where phases crowd.

    Parameters
    ----------
    X : (n, d) coordinates, usually `at_unit_variance`
    phase : (n,) in radians
    fold : (n,) which rows are held out together
    """
    turn = np.exp(1j * np.asarray(phase, np.float64))
    guess = np.empty_like(turn)
    for held_out, near in _neighbors(X, fold, k):
        guess[held_out] = turn[near].mean(axis=1)
    return float(abs(np.mean(np.exp(1j * np.angle(guess)) * turn.conj())))


def label_score(X: NDArray, labels: NDArray, fold: NDArray, *, k: int = NEIGHBORS) -> float:
    """Balanced accuracy, the mean over labels of the share that is guessed, by a vote of the k nearest samples.

    Labels (n,) of any type; a tied vote goes to the first in order. Chance is one over the number of labels.
    """
    kinds, number = np.unique(labels, return_inverse=True)
    right = np.empty(len(labels), bool)
    for held_out, near in _neighbors(X, fold, k):
        votes = (number[near][:, :, None] == np.arange(len(kinds))).sum(axis=1)
        right[held_out] = votes.argmax(axis=1) == number[held_out]
    return float(np.mean([right[number == i].mean() for i in range(len(kinds))]))


def _neighbors(X: NDArray, fold: NDArray, k: int) -> Iterator[tuple[NDArray, NDArray]]:
    """Some rows of a fold, (b,), and the rows of other folds nearest to each, (b, k), until all had their turn."""
    for number in np.unique(fold):
        known = np.flatnonzero(fold != number)
        held_out = np.flatnonzero(fold == number)
        step = max(1, _BLOCK // max(1, len(known)))
        for rows in (held_out[i : i + step] for i in range(0, len(held_out), step)):
            near = smallest(squared_distances(X[rows], X[known]), min(k, len(known)))
            yield rows, known[near]

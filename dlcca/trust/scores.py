r"""R² and other scores of coordinates: how well they predict a variable, and are predicted by other fits or a view.

Predictions by nearest neighbours and by filters are made on held-out rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.distances import squared_distances
from dlcca.numerics.topk import smallest

Floats = NDArray[np.float64]

#: Neighbours of a prediction, and folds of the cross-validation.
NEIGHBORS, FOLDS = 15, 5
#: Entries of the distances that are held at a time: 64 MB.
_BLOCK = 1 << 23
#: Largest delay of a filter to either side, in rows, and the number of delays.
SPAN, DELAYS = 16, 9
#: Leading components of a view that a filter uses, and its ridge as a share of the largest variance.
COMPONENTS, RIDGE = 12, 1e-3
#: With fewer rows than this no filter is fitted.
FEWEST_ROWS = 64


def at_unit_variance(X: NDArray) -> Floats:
    """Columns of X (n, d) without their mean, at unit variance; constant columns are zero."""
    X = np.asarray(X, np.float64)
    largest = np.abs(X).max(axis=0)
    X = X - X.mean(axis=0)
    scale = X.std(axis=0)
    varies = scale > 1e-12 * largest  # less is rounding of the mean
    return np.where(varies, X, 0) / np.where(varies, scale, 1)


def blocked_folds(n: int, folds: int = FOLDS) -> NDArray[np.int64]:
    """The fold of each of n rows, (n,): contiguous blocks of equal length.

    Consecutive samples of a recording are alike. If single samples were held out, they would be predicted from their
    neighbours in time, whatever the coordinates.
    """
    return np.arange(n) * folds // n


def stratified_folds(labels: NDArray, rng: np.random.Generator, folds: int = FOLDS) -> NDArray[np.int64]:
    """The fold of each row, (n,), at random, with an equal share of every label in each."""
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        fold[rows] = np.arange(len(rows)) % folds
    return fold


# How well coordinates predict a variable: k nearest neighbours, cross-validated.


def variable_score(X: NDArray, z: NDArray, fold: NDArray, *, k: int = NEIGHBORS) -> float:
    r"""Cross-validated :math:`R^2` of variables z (n,) or (n, p), predicted by the mean of the k nearest samples.

    :math:`1 - \sum|z_i - \hat z_i|^2 / \sum|z_i - \bar z|^2`, each variable divided by its standard deviation. NaN if
    the variables are constant. Samples are near by their coordinates X (n, d), usually `at_unit_variance`; rows of one
    ``fold`` (n,) are held out together.
    """
    each = variable_scores(X, z, fold, k=k)
    return float(each[np.isfinite(each)].mean()) if np.isfinite(each).any() else float("nan")


def variable_scores(X: NDArray, z: NDArray, fold: NDArray, *, k: int = NEIGHBORS) -> Floats:
    """The same of each variable, (p,); NaN of one that is constant."""
    Z = at_unit_variance(np.reshape(z, (len(X), -1)))
    guess = Z[held_out_neighbors(X, fold, k)].mean(axis=1)
    errors, total = ((Z - guess) ** 2).sum(axis=0), (Z**2).sum(axis=0)
    return 1 - np.divide(errors, total, out=np.full(len(total), np.nan), where=total > 0)


def phase_score(X: NDArray, phase: NDArray, fold: NDArray, *, k: int = NEIGHBORS) -> float:
    r"""Length of the mean resultant of the phase errors, :math:`|\frac1n\sum e^{i(\hat\varphi_j - \varphi_j)}|`.

    The prediction :math:`\hat\varphi_j` is the direction of the mean of :math:`e^{i\varphi}` over the k nearest samples
    of other folds (X and ``fold`` as in `variable_score`); ``phase`` (n,) is in radians. 1 is perfect; chance is about
    :math:`1/\sqrt n`, more if the phases are not uniform.
    """
    turn = np.exp(1j * np.asarray(phase, np.float64))
    guess = turn[held_out_neighbors(X, fold, k)].mean(axis=1)
    return float(abs(np.mean(np.exp(1j * np.angle(guess)) * turn.conj())))


def label_score(X: NDArray, labels: NDArray, fold: NDArray, *, k: int = NEIGHBORS) -> float:
    """Balanced accuracy of labels (n,) predicted by a vote of the k nearest samples.

    A tied vote is for the label that sorts first. Chance is one over the number of labels.
    """
    kinds, number = np.unique(labels, return_inverse=True)
    near = number[held_out_neighbors(X, fold, k)]
    votes = np.stack([(near == i).sum(axis=1) for i in range(len(kinds))], axis=1)
    right = votes.argmax(axis=1) == number
    return float(np.mean([right[number == i].mean() for i in range(len(kinds))]))


def held_out_neighbors(X: NDArray, fold: NDArray, k: int) -> NDArray[np.int64]:
    """The k nearest rows of other folds, (n, k), for each row of X (n, d); fewer if another fold has fewer.

    ``fold`` is (n,). Distances are computed in batches.
    """
    k = min(k, len(fold) - int(np.unique(fold, return_counts=True)[1].max()))
    near = np.empty((len(X), k), np.int64)
    for number in np.unique(fold):
        known, held_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        step = max(1, _BLOCK // max(1, len(known)))
        for rows in (held_out[first : first + step] for first in range(0, len(held_out), step)):
            near[rows] = known[smallest(squared_distances(X[rows], X[known]), k)]
    return near


# How well coordinates are predicted by one view, or by other coordinates.


def r2(E: NDArray, guess: NDArray) -> Floats:
    """R² (q,) of the prediction of coordinates E (n, q); 0 for a constant coordinate."""
    total = ((E - E.mean(axis=0)) ** 2).sum(axis=0)
    return np.where(total > 0, 1 - ((E - guess) ** 2).sum(axis=0) / np.where(total > 0, total, 1), 0.0)


def linear_prediction(E: NDArray, other: NDArray) -> Floats:
    """Coordinates E (n, q) predicted by a linear function of others (n, p), by least squares."""
    A = np.column_stack([np.ones(len(other)), other])
    return A @ np.linalg.lstsq(A, np.asarray(E, np.float64), rcond=None)[0]


def linear_r2(E: NDArray, other: NDArray) -> Floats:
    """R² (q,) of each coordinate of E (n, q) as a linear function of others (n, p)."""
    return r2(np.asarray(E, np.float64), linear_prediction(E, other))


def min_view_r2(E: NDArray, near: Sequence[NDArray[np.int64]]) -> Floats:
    r"""R² (q,), clipped to [0, 1], of each coordinate of E (n, q) predicted from the view that predicts it worst.

    The prediction is the mean over samples that are near in one view, ``near`` (n, k) for each view:
    :math:`\min_v 1 - \sum_i (e_i - \hat e_i^v)^2 / \sum_i (e_i - \bar e)^2`.
    """
    E = at_unit_variance(E)
    return np.minimum.reduce([np.clip(r2(E, E[rows].mean(axis=1)), 0, 1) for rows in near])


def filter_r2(Z: Floats, y: Floats, segments: NDArray) -> float:
    r"""R² of a series predicted by a linear filter of one view, each half of the rows by the filter of the other half.

    With :math:`h_t = (z_{t-16}, z_{t-12}, \dots, z_{t+16})` and :math:`H` its centred rows in one half, the filter is
    :math:`b = (H^T H + r \lambda_{\max} I)^{-1} H^T y`. A filter creates no frequency that the view does not have, but
    shifts phases: views may move together without being functions of each other.

    From the components Z (n, p) of a view, the largest first, the series y (n,), and ``segments`` (n,), the numbers of
    contiguous segments, which delays do not cross. At most 1; -inf if there are too few rows, or y is constant.
    """
    rows = np.arange(SPAN, len(Z) - SPAN)
    rows = rows[segments[rows - SPAN] == segments[rows + SPAN]]  # all their delayed values are in their segment
    delays = np.linspace(-SPAN, SPAN, DELAYS).astype(np.int64)
    H = np.hstack([Z[rows + delay, :COMPONENTS] for delay in delays])
    n, y = len(rows), y[rows]
    total = float(((y - y.mean()) ** 2).sum()) if n >= FEWEST_ROWS else 0.0
    if not total > 0:
        return -np.inf
    missed, first = 0.0, np.arange(n) < n // 2
    for half in (first, ~first):
        middle, mean = H[half].mean(axis=0), y[half].mean()
        b = ridge_coefficients(H[half] - middle, y[half] - mean, RIDGE)
        missed += float(((y[~half] - mean - (H[~half] - middle) @ b) ** 2).sum())
    return 1 - missed / total


def ridge_coefficients(H: Floats, Y: Floats, ridge: float) -> Floats:
    r"""Of Y (n,) or (n, q) regressed on H (n, p), :math:`(H^T H + r \lambda_{\max} I)^{-1} H^T Y`; zero if H is."""
    U, s, Vt = np.linalg.svd(H, full_matrices=False)
    return Vt.T * (s / np.maximum(s**2 + ridge * s[0] ** 2, np.finfo(float).tiny)) @ (U.T @ Y)


# How well coordinates are reproduced by fits to other samples: those of two halves.


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
    block = blocked_folds(n, n_blocks)
    first = np.isin(block, rng.permutation(n_blocks)[: n_blocks // 2])
    return np.flatnonzero(first), np.flatnonzero(~first), block

"""Whether and how much two views share, one neighborhood and one shift at a time (no part of the paper).

Bartlett's test of canonical correlations, taken step by step; false discoveries after Benjamini and Hochberg; and the
circular shift of one view against the other, which needs no formula for what chance gives.
"""

import numpy as np
from scipy.linalg import eigh
from scipy.stats import chi2

from tests.reference.cca import cca


def leading_directions(X, most, floor):
    """Scores (k, p) of one neighborhood (k, d) along its principal directions, at most `most`, above the floor."""
    X = X - X.mean(axis=0)
    variances, directions = eigh(X.T @ X)
    kept = [a for a in np.argsort(-variances)[:most] if variances[a] > floor * variances.max()]
    return X @ directions[:, kept]


def above(A, least):
    """Scores along the principal directions of A whose sum of squares is above `least`."""
    sizes, directions = eigh(A.T @ A)
    return A @ directions[:, sizes > least]


def steps(X, Y, most, floor):
    """Statistic, freedom and penalty of each step for one pair of neighborhoods, and the variates found.

    Each step takes the two leading canonical variates out of both views, and the squares and products of all sums of
    such pairs so far, by least squares.
    """
    k = len(X)
    A, B = (leading_directions(Z, most, 0.0) for Z in (X, Y))
    least = [floor * eigh(Z.T @ Z, eigvals_only=True)[-1] for Z in (A, B)]
    gone, sums, found = [np.ones(k)], [], []
    for _ in range(min(A.shape[1], B.shape[1])):
        U, V = above(A, least[0]), above(B, least[1])
        p, q = U.shape[1], V.shape[1]
        if p == 0 or q == 0:
            found.append((0.0, 0, len(gone) + (p + q + 1) / 2, np.zeros(1)))
            break
        P_x, P_y, rho = cca(U, V)
        found.append((-np.log(1 - np.minimum(rho**2, 1 - 1e-12)).sum(), p * q, len(gone) + (p + q + 1) / 2, rho))
        a, b = U @ P_x[:, 0], V @ P_y[:, 0]
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
        b = b if a @ b > 0 else -b
        sums.append(a + b)
        gone += [a, b, *(sums[-1] * s for s in sums)]
        A, B = (without(Z, np.column_stack(gone)) for Z in (A, B))
    return found


def without(Z, functions):
    """What least squares leaves of the columns of Z."""
    return Z - functions @ np.linalg.lstsq(functions, Z, rcond=None)[0]


def chance(statistic, freedom, penalty, samples):
    """Bartlett: (N - penalty) times the statistic is chi-squared where nothing is common."""
    if freedom == 0:
        return 1.0
    return chi2.sf(max(samples - penalty, 0) * statistic, freedom)


def discoveries(p, level):
    """Benjamini and Hochberg: reject the i smallest, i the largest with p_(i) <= level i / m."""
    order = np.argsort(p)
    largest = 0
    for i, at in enumerate(order, start=1):
        if p[at] <= level * i / len(p):
            largest = i
    rejected = np.zeros(len(p), bool)
    rejected[order[:largest]] = True
    return rejected


def shared(X, Y, most, floor):
    """Σ ρ² of one pair of neighborhoods."""
    A, B = (leading_directions(Z, most, floor) for Z in (X, Y))
    return float((cca(A, B)[2] ** 2).sum()) if A.shape[1] and B.shape[1] else 0.0


def window_p_value(X, Y, window, shifts, most, floor):
    """p of one window of rows: how many circular shifts of Y share as much with it there as Y as it is."""
    found = shared(X[window], Y[window], most, floor)
    others = [shared(X[window], np.roll(Y, s, axis=0)[window], most, floor) for s in shifts]
    return (1 + sum(other >= found for other in others)) / (1 + len(others))


def joint_statistic(X, Y, at, k, most, floor):
    """The mean of Σ ρ² over the neighborhoods of some rows: the k rows nearest in both views at once."""
    total = 0.0
    for i in at:
        apart = np.maximum(((X - X[i]) ** 2).sum(axis=1), ((Y - Y[i]) ** 2).sum(axis=1))
        near = np.argsort(apart)[:k]
        total += shared(X[near], Y[near], most, floor)
    return total / len(at)

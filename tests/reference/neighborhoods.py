"""Neighborhoods in the joint space of the views (Algorithm 2 step 2a)."""

import numpy as np


def spread(X):
    """Root of the total variance: sqrt of the sum over channels of the variance (division by n)."""
    X = np.asarray(X, dtype=float)
    n, d = X.shape
    total = 0.0
    for c in range(d):
        mean = sum(X[i, c] for i in range(n)) / n
        total += sum((X[i, c] - mean) ** 2 for i in range(n)) / n
    return np.sqrt(total)


def joint_squared_distance(views, spreads, i, j):
    """Squared distance of rows i and j: the largest over the views, each divided by its spread.

    A view without any spread (constant) tells no row from another: its distance is 0.
    """
    per_view = []
    for X, s in zip(views, spreads, strict=True):
        squared = 0.0
        if s > 0:
            for c in range(X.shape[1]):
                squared += (X[i, c] / s - X[j, c] / s) ** 2
        per_view.append(squared)
    return max(per_view)


def joint_neighbors(views, i, k):
    """Algorithm 2 step 2a: the k rows nearest to row i, itself first, then by distance, ties by lower row.

    "x_j is in the neighborhood of x_i and y_j is in the neighborhood of y_i": a ball in the joint space.
    """
    views = [np.asarray(X, dtype=float) for X in views]
    n = views[0].shape[0]
    assert 1 <= k <= n
    spreads = [spread(X) for X in views]
    ranked = []
    for j in range(n):
        if j != i:
            ranked.append((joint_squared_distance(views, spreads, i, j), j))
    ranked.sort()
    return np.array([i, *(j for _, j in ranked[: k - 1])])

"""The subset X_L of L samples (Algorithm 2 step 1)."""

import math

import numpy as np


def evenly(n, L):
    """Algorithm 2 step 1: rows floor((i + 0.5) * n / L), i = 0 ... L-1."""
    rows = []
    for i in range(L):
        rows.append(math.floor((i + 0.5) * n / L))
    return np.array(rows)


def farthest_points(X, L, start):
    """Algorithm 2 step 1, greedily: from `start`, always the row farthest from all those chosen so far.

    Euclidean distance; ties by the lower row; a row is chosen once. Returned in the order of choice.
    """
    X = np.asarray(X, dtype=float)
    assert 1 <= L <= len(X)
    chosen = [start]
    while len(chosen) < L:
        farthest, farthest_squared = None, -1.0
        for i in range(len(X)):
            if i in chosen:
                continue
            nearest = min(sum((X[i, c] - X[j, c]) ** 2 for c in range(X.shape[1])) for j in chosen)
            if nearest > farthest_squared:
                farthest, farthest_squared = i, nearest
        chosen.append(farthest)
    return np.array(chosen)

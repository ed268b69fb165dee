"""The affinity metric (Definition 3; Algorithm 1 step 1e; Algorithm 2 step 3; Section VII-A)."""

import numpy as np


def landmark_distance(x_i, x_j, A_i):
    """Algorithm 2 step 3: D_ij = (x_i - x_j)^T A(x_i) (x_i - x_j), A taken at the landmark x_i."""
    delta = np.asarray(x_i, dtype=float) - np.asarray(x_j, dtype=float)
    return delta @ A_i @ delta


def landmark_distances(X, landmarks, A):
    """Algorithm 2 step 3 for all pairs, transposed: (n, L), a row per sample, a column per landmark.

    `landmarks` holds the L row numbers, A (L, d, d) the matrix at each.
    """
    D = np.zeros((len(X), len(landmarks)))
    for j in range(len(X)):
        for i in range(len(landmarks)):
            D[j, i] = landmark_distance(X[landmarks[i]], X[j], A[i])
    return D


def middle_distances(X, metric_at):
    """Algorithm 1 step 1e: D_ij with A at the middle point (x_i + x_j) / 2; metric_at(point) gives A."""
    X = np.asarray(X, dtype=float)
    n = len(X)
    D = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            middle = (X[i] + X[j]) / 2
            delta = X[i] - X[j]
            D[i, j] = delta @ metric_at(middle) @ delta
            D[j, i] = D[i, j]
    return D


def end_distances(X, A):
    """Section VII-A: Q_ij = 1/2 (x_i - x_j)^T [A(x_i) + A(x_j)] (x_i - x_j), A (n, d, d) at every sample."""
    X = np.asarray(X, dtype=float)
    n = len(X)
    Q = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            delta = X[i] - X[j]
            Q[i, j] = 0.5 * (delta @ (A[i] + A[j]) @ delta)
    return Q

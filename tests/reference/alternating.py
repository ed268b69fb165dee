"""Alternating diffusion of K views (the comparison of Section VII-B, Lederman & Talmon) through landmarks."""

import numpy as np

from tests.reference.signs import column_signs


def view_operator(W):
    """K_v = R C^-1 R^T (n x n): R the rows of W over their sums, C the column sums of R (empty ones out)."""
    W = np.asarray(W, dtype=float)
    n, L = W.shape
    R = np.zeros((n, L))
    for i in range(n):
        assert np.sum(W[i]) > 0, "a sample without any link"
        R[i] = W[i] / np.sum(W[i])
    K = np.zeros((n, n))
    for j in range(L):
        column_sum = np.sum(R[:, j])
        if column_sum > 0:
            K = K + np.outer(R[:, j], R[:, j]) / column_sum
    assert np.allclose(K, K.T, rtol=0, atol=1e-12), "symmetric"
    assert np.all(K >= 0)
    assert np.allclose(K.sum(axis=1), 1, rtol=0, atol=1e-10), "doubly stochastic"
    return K


def root_mean_square(column):
    """The root of the mean over the n rows of the squares."""
    return np.sqrt(sum(column**2) / len(column))


def alternating(Ws, q):
    """T = K_1 K_2 ... K_K = Psi S Phi^T, the SVD.

    Returns S[0..q] (q+1,), S_0 = 1; the list over views of the readings K_v psi_l, l = 1..q (n, q), each at
    root mean square 1; and the coordinates (n, q), the mean of the readings over the views, at the same
    scale. The sign rule is applied to the coordinates; the readings take the same sign.
    """
    operators = [view_operator(W) for W in Ws]
    n, K = operators[0].shape[0], len(operators)
    assert K >= 2
    T = np.eye(n)
    for K_v in operators:
        T = T @ K_v
    Psi, S, _ = np.linalg.svd(T)
    assert abs(S[0] - 1) < 1e-9, "the leading singular value is 1"
    assert np.ptp(Psi[:, 0]) < 1e-6, "its vector is constant: is the graph in one piece?"

    readings = [np.zeros((n, q)) for _ in operators]
    coordinates = np.zeros((n, q))
    for ell in range(1, q + 1):
        for v in range(K):
            g = operators[v] @ Psi[:, ell]
            readings[v][:, ell - 1] = g / root_mean_square(g)
        mean = sum(readings[v][:, ell - 1] for v in range(K)) / K
        coordinates[:, ell - 1] = mean / root_mean_square(mean)
    signs = column_signs(coordinates)
    return S[: q + 1], [g * signs for g in readings], coordinates * signs

"""Covariance matrices of one neighborhood, and their inverses (Section III of the paper)."""

import numpy as np
from scipy.linalg import eigh


def centred(X):
    """Section III, "zero mean random vectors": the k samples less their mean.

    Measured from the first sample before, so that a constant channel is zero and not the rounding of its mean.
    """
    X = np.asarray(X, dtype=float)
    X = X - X[0]
    k = X.shape[0]
    assert k >= 2, "a covariance needs at least two samples"
    mean = np.zeros(X.shape[1])
    for i in range(k):
        mean = mean + X[i] / k
    out = np.zeros_like(X)
    for i in range(k):
        out[i] = X[i] - mean
    return out


def cross_covariance(X, Y):
    """Sigma_xy = E[x y^T] (Section II), the mean taken over the k samples with division by k - 1."""
    X, Y = centred(X), centred(Y)
    k = X.shape[0]
    assert Y.shape[0] == k, "the views of a neighborhood hold the same samples"
    S = np.zeros((X.shape[1], Y.shape[1]))
    for i in range(k):
        S = S + np.outer(X[i], Y[i])
    return S / (k - 1)


def covariance(X):
    """Sigma_xx = E[x x^T] (Section II)."""
    S = cross_covariance(X, X)
    return (S + S.T) / 2


def regularised(S, ridge=0.0):
    """What stands for Sigma_vv wherever the paper inverts it: Sigma_vv + ridge * lambda_max(Sigma_vv) * I."""
    largest = max(eigh(S, eigvals_only=True)[-1], 0.0)
    return S + ridge * largest * np.eye(S.shape[0])


def range_basis(S, tol=1e-10):
    """Variances (rank,) and orthonormal directions (d, rank) of the range of S, largest variance first.

    An eigenvalue counts when it is above tol times the largest one.
    """
    values, vectors = eigh(S)
    kept_values, kept_vectors = [], []
    for a in range(len(values) - 1, -1, -1):
        if values[a] > 0 and values[a] > tol * values[-1]:
            kept_values.append(values[a])
            kept_vectors.append(vectors[:, a])
    if not kept_values:
        return np.zeros(0), np.zeros((S.shape[0], 0))
    return np.array(kept_values), np.array(kept_vectors).T


def rank(S, tol=1e-10):
    """rank(Sigma_vv) of Section III, up to tol."""
    return len(range_basis(S, tol)[0])


def inverse_power(S, power, tol=1e-10):
    """S^-power on the range of S and zero elsewhere: Sigma^-1 (power 1), Sigma^-1/2 (power 1/2)."""
    values, vectors = range_basis(S, tol)
    out = np.zeros(S.shape)
    for a in range(len(values)):
        out = out + np.outer(vectors[:, a], vectors[:, a]) / values[a] ** power
    return out

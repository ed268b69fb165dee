"""Which functions of a view keep their value along what is common: the energies of one neighborhood after another."""

import numpy as np
from scipy.linalg import eigh


def common_energy(f, neighborhoods, variates, weights):
    """Sum over neighborhoods of |f - mean|^2 less, for each variate, (1 - w) (sum over rows of a (f - mean))^2."""
    total = 0.0
    for rows, a, w in zip(neighborhoods, variates, weights, strict=True):
        mean = sum(f[row] for row in rows) / len(rows)
        total += sum((f[row] - mean) ** 2 for row in rows)
        for p in range(len(w)):
            total -= (1 - w[p]) * sum(a[i, p] * (f[row] - mean) for i, row in enumerate(rows)) ** 2
    return total


def energy_matrix(Phi, neighborhoods, variates, weights):
    """The quadratic form of the energy on combinations of the columns of Phi, entry by entry (polarisation)."""
    b = Phi.shape[1]
    own = [common_energy(Phi[:, i], neighborhoods, variates, weights) for i in range(b)]
    M = np.diag(own)
    for i in range(b):
        for j in range(i):
            both = common_energy(Phi[:, i] + Phi[:, j], neighborhoods, variates, weights)
            M[i, j] = M[j, i] = (both - own[i] - own[j]) / 2
    return M


def least_energy(Phi, neighborhoods, variates, weights, smoothness):
    """The least value of (common energy + smoothness * energy with all weights one) over functions of unit variance."""
    ones = [np.ones(len(w)) for w in weights]
    M = energy_matrix(Phi, neighborhoods, variates, weights)
    M = M + smoothness * energy_matrix(Phi, neighborhoods, variates, ones)
    return eigh(M, np.cov(Phi, rowvar=False), eigvals_only=True)[0]


def standard(E, Z, z, k):
    """Mean of the k rows of E whose Z lies nearest to z, and the inverse symmetric root of their covariance."""
    near = sorted(range(len(Z)), key=lambda i: float(((Z[i] - z) ** 2).sum()))[:k]
    mean = sum(E[i] for i in near) / k
    covariance = sum(np.outer(E[i] - mean, E[i] - mean) for i in near) / k
    variances, axes = eigh(covariance)
    return mean, sum(np.outer(u, u) / np.sqrt(v) for v, u in zip(variances, axes.T, strict=True))

"""The baselines of Section VII-B, and linear CCA, from their definitions: explicit loops and n x n matrices."""

import numpy as np
from scipy.linalg import block_diag, eig, eigh

from tests.reference.bandwidth import median_rule
from tests.reference.cca import cca
from tests.reference.covariance import centred, range_basis
from tests.reference.kernel import kernel
from tests.reference.maxvar import maxvar
from tests.reference.signs import fix_sign


def squared_distances(X):
    """|x_i - x_j|^2 of all pairs."""
    X = np.asarray(X, dtype=float)
    D = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        for j in range(len(X)):
            D[i, j] = sum((X[i, c] - X[j, c]) ** 2 for c in range(X.shape[1]))
    return D


def gaussian(X, sigma=None):
    """exp(-|x_i - x_j|^2 / sigma), sigma the median of all |x_i - x_j|^2 unless given."""
    D = squared_distances(X)
    return kernel(D, median_rule(D) if sigma is None else sigma)


def row_stochastic(W):
    """Each row divided by its sum: the transition probabilities of a random walk."""
    P = np.zeros(W.shape)
    for i in range(len(W)):
        P[i] = W[i] / sum(W[i])
    return P


def diffusion_maps(X, q, sigma=None, alpha=0.0):
    """Coifman & Lafon: q_eps(i) = sum_j k_ij, k_alpha = k / (q_eps(i) q_eps(j))^alpha, P its Markov matrix.

    Eigenvalues (q,) and right eigenvectors (n, q) of P after the constant one, at mean square 1 under the
    stationary distribution, which is proportional to the row sums of k_alpha.
    """
    W = gaussian(X, sigma)
    n = len(W)
    density = [sum(W[i]) for i in range(n)]
    for i in range(n):
        for j in range(n):
            W[i, j] = W[i, j] / (density[i] * density[j]) ** alpha
    stationary = np.array([sum(W[i]) for i in range(n)])
    stationary = stationary / sum(stationary)
    values, vectors = eig(row_stochastic(W))
    order = np.argsort(-values.real)
    assert abs(values[order[0]] - 1) < 1e-9, "the leading eigenvalue is 1"
    assert max(abs(values.imag)) < 1e-9, "a walk that is reversible has real eigenvalues"
    coordinates = np.zeros((n, q))
    for ell in range(q):
        c = vectors[:, order[ell + 1]].real
        coordinates[:, ell] = c / np.sqrt(sum(stationary * c**2))
    return values[order[1 : q + 1]].real, fix_sign(coordinates)


def alternating_diffusion(views, q, sigma=None):
    """Lederman & Talmon with rows for columns: K = K_1 K_2 ... , the eigenvectors of K after the constant one.

    Moduli of the eigenvalues (q,), and coordinates (n, q) of mean 0 and mean square 1. A conjugate pair gives
    the real and then the imaginary part of c, at the phase where the sum of c^2 is real and positive.
    """
    n = len(views[0])
    K = np.eye(n)
    for X in views:
        K = K @ row_stochastic(gaussian(X, sigma))
    values, vectors = eig(K)
    order = sorted(range(n), key=lambda a: (-abs(values[a]), -values[a].imag))
    assert abs(values[order[0]] - 1) < 1e-9, "the leading eigenvalue is 1"
    coordinates = np.zeros((n, q))
    for ell in range(q):
        value, c = values[order[ell + 1]], vectors[:, order[ell + 1]].astype(complex)
        c = c - sum(c) / n
        c = c / np.sqrt(sum(c**2))
        part = c.imag if value.imag < 0 else c.real
        coordinates[:, ell] = part / np.sqrt(sum(part**2) / n)
    return abs(values[order[1 : q + 1]]), fix_sign(coordinates)


def centred_kernel(W):
    """H W H with H = I - 11^T/n: the inner products of the mapped samples less their mean."""
    n = len(W)
    H = np.eye(n) - np.ones((n, n)) / n
    return H @ W @ H


def kernel_cca(views, q, ridge, sigma=None, tol=1e-13):
    """Hardoon et al. (2004), the dual of regularised CCA: A a = (w - 1) B a over a = (a_1, a_2, ...).

    A has the blocks K_u K_v off its diagonal, B the blocks K_v^2 + kappa_v K_v on it, kappa_v = ridge *
    lambda_max(K_v), K_v centred and a_v in the range of K_v. Scaled so that a^T B a = (n - 1) * number of
    views. Returns the correlations (w - 1) / (views - 1) (q,) and the first view's variates K_1 a_1 (n, q).
    """
    n, count = len(views[0]), len(views)
    kernels, bases, B = [], [], []
    for X in views:
        K = centred_kernel(gaussian(X, sigma))
        eigenvalues, E = range_basis((K + K.T) / 2, tol)
        kernels.append(K)
        bases.append(E)
        B.append(E.T @ (K @ K + ridge * eigenvalues[0] * K) @ E)
    A = []
    for u in range(count):
        row = []
        for v in range(count):
            block = bases[u].T @ kernels[u] @ kernels[v] @ bases[v]
            row.append(np.zeros(block.shape) if u == v else block)
        A.append(row)
    A, B = np.block(A), block_diag(*B)
    values, vectors = eigh((A + A.T) / 2, (B + B.T) / 2)
    variates = np.zeros((n, q))
    for ell in range(q):
        a = vectors[:, -1 - ell]
        a = a * np.sqrt(count * (n - 1) / (a @ B @ a))
        variates[:, ell] = kernels[0] @ bases[0] @ a[: bases[0].shape[1]]
    return values[::-1][:q] / (count - 1), fix_sign(variates)


def linear_cca(views, q, ridge=0.0):
    """CCA for two views, MAXVAR for more, on whole recordings: correlations (q,) and the mean of the variates."""
    if len(views) == 2:
        *P, correlations = cca(views[0], views[1], ridge)
    else:
        P, w = maxvar(views, ridge)
        correlations = (w - 1) / (len(views) - 1)
    mean = np.zeros((len(views[0]), q))
    for X, P_v in zip(views, P, strict=True):
        mean = mean + centred(X) @ P_v[:, :q] / len(views)
    return correlations[:q], fix_sign(mean)

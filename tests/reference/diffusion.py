"""Diffusion Maps with the full N x N matrix (Algorithm 1 step 2; Algorithm 2 steps 4 and 5)."""

import numpy as np
from scipy.linalg import eig, eigh

from tests.reference.bandwidth import median_rule
from tests.reference.kernel import kernel
from tests.reference.signs import column_signs, fix_sign


def eigenvectors(W, q):
    """Algorithm 2 steps 4b, 4c: M = Omega^-1/2 W W^T Omega^-1/2, Omega_ii = sum_j (W W^T)_ij.

    W is (n, L), the paper's W transposed. Returns Omega (n,), the q+1 largest eigenvalues of M and their unit
    eigenvectors Psi (n, q+1), psi_0 > 0, the others signed by `column_signs` of psi_l / psi_0.
    """
    W = np.asarray(W, dtype=float)
    n = W.shape[0]
    G = W @ W.T
    Omega = np.zeros(n)
    for i in range(n):
        for j in range(n):
            Omega[i] += G[i, j]
    M = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            M[i, j] = G[i, j] / np.sqrt(Omega[i] * Omega[j])
    values, vectors = eigh((M + M.T) / 2)
    values, Psi = values[::-1][: q + 1], vectors[:, ::-1][:, : q + 1].copy()

    Psi[:, 0] = Psi[:, 0] * np.sign(np.sum(Psi[:, 0]))
    trivial = np.sqrt(Omega / np.sum(Omega))
    assert abs(values[0] - 1) < 1e-9, "the leading eigenvalue is 1"
    assert np.max(np.abs(Psi[:, 0] - trivial)) < 1e-6, "psi_0 = sqrt(Omega): is the graph in one piece?"
    if q > 0:
        Psi[:, 1:] = Psi[:, 1:] * column_signs(Psi[:, 1:] / Psi[:, :1])
    return Omega, values, Psi


def spectrum(W, q):
    """Algorithm 2 steps 4, 5: eigenvalues (q+1,), the leading one 1, and coordinates psi_l / psi_0 (n, q).

    The psi are unit vectors, so that sum_i Omega_i c_l(i)^2 = sum_i Omega_i.
    """
    _, values, Psi = eigenvectors(W, q)
    coordinates = np.zeros((Psi.shape[0], q))
    for ell in range(1, q + 1):
        for i in range(Psi.shape[0]):
            coordinates[i, ell - 1] = Psi[i, ell] / Psi[i, 0]
    return values, coordinates


def algorithm_1_spectrum(D, q, sigma=None):
    """Algorithm 1 steps 2, 3: W = exp(-D / sigma), sigma the median of D, M = Omega^-1 W, M = Psi S Psi^-1.

    Right eigenvectors, psi_0 constant: returns eigenvalues (q+1,) and psi_l / psi_0 (n, q), on the scale of
    `spectrum`, sum_i Omega_i c_l(i)^2 = sum_i Omega_i.
    """
    W = kernel(D, median_rule(D) if sigma is None else sigma)
    n = W.shape[0]
    Omega = np.zeros(n)
    M = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            Omega[i] += W[i, j]
        for j in range(n):
            M[i, j] = W[i, j] / Omega[i]
    values, vectors = eig(M)
    order = np.argsort(-values.real, kind="stable")[: q + 1]
    values, Psi = values[order], vectors[:, order]
    assert np.max(np.abs(values.imag)) < 1e-9, "a symmetric W has real eigenvalues"
    coordinates = np.zeros((n, q))
    for ell in range(1, q + 1):
        c = (Psi[:, ell] / Psi[:, 0]).real
        coordinates[:, ell - 1] = c * np.sqrt(np.sum(Omega) / np.sum(Omega * c**2))
    return values.real, fix_sign(coordinates)


def extend(w_row, W, q):
    """Coordinates (q,) of ONE new sample from its kernel row: the Nystrom formula on Algorithm 2 step 4c.

    M_new,j = (w_row . W_j) / sqrt(Omega_new Omega_j), psi_l(new) = sum_j M_new,j psi_l(j) / lambda_l.
    """
    w_row, W = np.asarray(w_row, dtype=float), np.asarray(W, dtype=float)
    Omega, values, Psi = eigenvectors(W, q)
    n = W.shape[0]
    total = np.zeros(W.shape[1])
    for j in range(n):
        total = total + W[j]
    Omega_new = w_row @ total
    psi_new = np.zeros(q + 1)
    for ell in range(q + 1):
        for j in range(n):
            psi_new[ell] += (w_row @ W[j]) / np.sqrt(Omega_new * Omega[j]) * Psi[j, ell] / values[ell]
    return psi_new[1:] / psi_new[0]

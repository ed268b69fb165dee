"""CCA of one neighborhood, and the metric it gives (Section III; Algorithm 2 steps 2b and 2c)."""

import numpy as np
from scipy.linalg import eigh

from tests.reference.covariance import covariance, cross_covariance, inverse_power, range_basis, rank, regularised


def cca(X, Y, ridge=0.0, tol=1e-10, zero=1e-6):
    """Eq. (cca_evd): Gamma p_x = lambda^2 p_x, Gamma = Sigma_xx^-1 Sigma_xy Sigma_yy^-1 Sigma_yx.

    Returns P_x (dx, d), P_y (dy, d) and rho (d,) = lambda, descending, d = min(rank Sigma_xx, rank Sigma_yy).
    The inverted covariances are the regularised ones, B_x and B_y; p^T B p = 1 in both views.

    Gamma is not symmetric, so the problem is stated as B_x Gamma p = lambda^2 B_x p, both sides symmetric, on
    the range of B_x: it has the same solutions, and those of equal lambda come out uncorrelated as CCA wants.
    p_y = B_y^-1 Sigma_yx p_x / lambda; where lambda is zero (below `zero`) any direction uncorrelated with
    the earlier ones will do.
    """
    S_xx, S_yy, S_xy = covariance(X), covariance(Y), cross_covariance(X, Y)
    B_x, B_y = regularised(S_xx, ridge), regularised(S_yy, ridge)
    d = min(rank(S_xx, tol), rank(S_yy, tol))
    if d == 0:
        return np.zeros((B_x.shape[0], 0)), np.zeros((B_y.shape[0], 0)), np.zeros(0)
    B_y_inverse = inverse_power(B_y, 1, tol)

    variances, E = range_basis(B_x, tol)
    left = E.T @ (S_xy @ B_y_inverse @ S_xy.T) @ E
    squares, vectors = eigh((left + left.T) / 2, np.diag(variances))
    order = np.argsort(-squares, kind="stable")[:d]

    P_x, P_y, rho = [], [], []
    for a in order:
        p_x = E @ vectors[:, a]
        p_x = p_x / np.sqrt(p_x @ B_x @ p_x)
        correlation = np.sqrt(max(squares[a], 0.0))
        if correlation > zero:
            p_y = B_y_inverse @ S_xy.T @ p_x / correlation
        else:
            p_y = uncorrelated_direction(B_y, P_y, tol)
        p_y = p_y / np.sqrt(p_y @ B_y @ p_y)
        P_x.append(p_x)
        P_y.append(p_y)
        rho.append(correlation)
    return np.array(P_x).T, np.array(P_y).T, np.array(rho)


def uncorrelated_direction(B, earlier, tol):
    """A direction in the range of B whose projection is orthogonal to those on the earlier ones."""
    best, best_variance = None, -1.0
    variances, E = range_basis(B, tol)
    for a in range(len(variances)):
        p = E[:, a] / np.sqrt(variances[a])
        for _ in range(2):
            for earlier_p in earlier:
                p = p - (earlier_p @ B @ p) * earlier_p
        if p @ B @ p > best_variance:
            best, best_variance = p, p @ B @ p
    return best


def metric(P, rho):
    """Algorithm 2 step 2c, A = P Lambda P^T with Lambda = diag(rho^2)."""
    A = np.zeros((P.shape[0], P.shape[0]))
    for a in range(len(rho)):
        A = A + rho[a] ** 2 * np.outer(P[:, a], P[:, a])
    return A

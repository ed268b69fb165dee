"""MAXVAR: CCA of K views by one eigenproblem (another answer to the question of Section VI; K = 2 is CCA)."""

import numpy as np
from scipy.linalg import eigh

from tests.reference.covariance import covariance, cross_covariance, range_basis, regularised


def maxvar(views, ridge=0.0, tol=1e-10, floor=1e-9):
    """R p = w B p: B the block-diagonal of the regularised Sigma_vv, R = Sigma with the diagonal blocks of B.

    p is the concatenation of the views' directions, scaled so that p^T B p = K. Components with w > 1 + floor
    are kept, largest first. Each view is restricted to the range of its (regularised) covariance.
    Returns the list of P_v (d_v, r) and w (r,).
    """
    K = len(views)
    assert K >= 2
    blocks, bases, ranks = [], [], []
    for X in views:
        B_v = regularised(covariance(X), ridge)
        variances, E = range_basis(B_v, tol)
        blocks.append(np.diag(variances))
        bases.append(E)
        ranks.append(len(variances))
    first = [sum(ranks[:v]) for v in range(K)]
    total = sum(ranks)

    B, R = np.zeros((total, total)), np.zeros((total, total))
    for u in range(K):
        for v in range(K):
            rows, columns = slice(first[u], first[u] + ranks[u]), slice(first[v], first[v] + ranks[v])
            if u == v:
                B[rows, columns] = blocks[v]
                R[rows, columns] = blocks[v]
            else:
                R[rows, columns] = bases[u].T @ cross_covariance(views[u], views[v]) @ bases[v]

    directions, w = [[] for _ in views], []
    if total > 0:
        values, vectors = eigh((R + R.T) / 2, B)
        for a in np.argsort(-values, kind="stable"):
            if values[a] > 1 + floor:
                p = vectors[:, a] * np.sqrt(K / (vectors[:, a] @ B @ vectors[:, a]))
                for v in range(K):
                    directions[v].append(bases[v] @ p[first[v] : first[v] + ranks[v]])
                w.append(values[a])
    P = [np.array(directions[v]).reshape(len(w), np.shape(views[v])[1]).T for v in range(K)]
    return P, np.array(w)


def maxvar_metric(P_v, w, K):
    """A_v = P_v diag(((w - 1) / (K - 1))^2) P_v^T: Algorithm 2 step 2c, where for K = 2 w = 1 + rho."""
    A = np.zeros((P_v.shape[0], P_v.shape[0]))
    for a in range(len(w)):
        A = A + ((w[a] - 1) / (K - 1)) ** 2 * np.outer(P_v[:, a], P_v[:, a])
    return A

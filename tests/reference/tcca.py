"""Linear tensor CCA of one neighborhood (Section VI, Algorithm 3)."""

import numpy as np

from tests.reference.covariance import centred, covariance, inverse_power, regularised


def covariance_tensor(views):
    """Algorithm 3 step 2: C = 1/(k-1) sum_i x_i^(1) (x) x_i^(2) (x) ... (x) x_i^(K), samples centred."""
    views = [centred(X) for X in views]
    k = views[0].shape[0]
    C = np.zeros([X.shape[1] for X in views])
    for i in range(k):
        product = views[0][i]
        for X in views[1:]:
            product = np.multiply.outer(product, X[i])
        C = C + product
    return C / (k - 1)


def mode_product(T, M, mode):
    """Section VI, first definition: T x_mode M, the sum over m of T(..., m, ...) M(m, n), n in m's place."""
    slices = []
    for n in range(M.shape[1]):
        total = np.zeros(T.shape[:mode] + T.shape[mode + 1 :])
        for m in range(M.shape[0]):
            total = total + np.take(T, m, axis=mode) * M[m, n]
        slices.append(total)
    return np.stack(slices, axis=mode)


def contract_all_but(T, vectors, mode):
    """T multiplied in every mode but one by that mode's vector: what ALS sets the mode's vector to."""
    for other in range(T.ndim):
        if other != mode:
            T = mode_product(T, vectors[other].reshape(-1, 1), other)
    return T.reshape(-1)


def unit(vector):
    """The vector at length one (a zero vector is left as it is)."""
    length = np.sqrt(np.sum(vector**2))
    return vector / length if length > 0 else vector


def hosvd_start(T):
    """The leading left singular vector of every unfolding of T."""
    vectors = []
    for mode in range(T.ndim):
        unfolding = np.moveaxis(T, mode, 0).reshape(T.shape[mode], -1)
        vectors.append(np.linalg.svd(unfolding, full_matrices=False)[0][:, 0])
    return vectors


def als(T, vectors, sweeps=5000, tol=1e-13):
    """Alternating least squares for rank one: each vector in turn at its best, the others held."""
    vectors, rho = list(vectors), 0.0
    for _ in range(sweeps):
        change = 0.0
        for mode in range(T.ndim):
            contracted = contract_all_but(T, vectors, mode)
            rho = np.sqrt(np.sum(contracted**2))
            if rho == 0:
                return vectors, 0.0
            change = max(change, np.max(np.abs(contracted / rho - vectors[mode])))
            vectors[mode] = contracted / rho
        if change < tol:
            break
    return vectors, rho


def rank_one(T, restarts=10, rng=None):
    """Algorithm 3 step 4: unit u^(v) and rho >= 0 minimising ||T - rho u^(1) (x) ... (x) u^(K)||_F.

    ALS from the HOSVD and from `restarts` random starts; the largest rho (the smallest residual) is kept.
    """
    T = np.asarray(T, dtype=float)
    rng = np.random.default_rng(0) if rng is None else rng
    best, best_rho = als(T, hosvd_start(T))
    for _ in range(restarts):
        start = [unit(rng.standard_normal(d)) for d in T.shape]
        vectors, rho = als(T, start)
        if rho > best_rho:
            best, best_rho = vectors, rho
    return best, best_rho


def tcca(views, ridge=0.0, restarts=10, rng=None, tol=1e-10):
    """Algorithm 3: the directions p^(v) = Sigma_vv^-1/2 u^(v), one vector per view, and rho >= 0."""
    assert len(views) >= 2
    roots = []
    for X in views:  # step 1
        roots.append(inverse_power(regularised(covariance(X), ridge), 0.5, tol))
    T = covariance_tensor(views)  # step 2
    for v in range(len(views)):  # step 3
        T = mode_product(T, roots[v], v)
    vectors, rho = rank_one(T, restarts, rng)  # step 4
    return [roots[v] @ vectors[v] for v in range(len(views))], rho


def tcca_metric(p):
    """Algorithm 4 step 2 (and Corollary 7): A = p p^T, with no weight."""
    return np.outer(p, p)

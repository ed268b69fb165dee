"""Potential coordinates of K views by walks between all n samples."""

import numpy as np

from tests.reference.alternating import view_operator


def stochastic_rows(W):
    """R: the rows of W over their sums."""
    W = np.asarray(W, dtype=float)
    return np.array([row / np.sum(row) for row in W])


def circle(Ws, v):
    """The views from v on, each once; a single view twice."""
    K = len(Ws)
    return [(v + step) % K for step in range(K)] if K > 1 else [0, 0]


def walked(Ws, views):
    """The product of the n x n operators of some views, in their order."""
    product = np.eye(len(Ws[0]))
    for v in views:
        product = product @ view_operator(Ws[v])
    return product


def probabilities(Ws, v, t):
    """p(i, j): from sample i t - 1 times around all views, then through all but the last, to landmark j of the last."""
    order = circle(Ws, v)
    p = stochastic_rows(Ws[order[-1]])
    p = walked(Ws, order[:-1]) @ p
    for _ in range(t - 1):
        p = walked(Ws, order) @ p
    assert np.all(p >= -1e-15)
    assert np.allclose(p.sum(axis=1), 1, rtol=0, atol=1e-10), "probabilities"
    return p


def number_of_states(Ws, t):
    """Return probability of the first view's landmarks after t rounds over their share of all links, the median."""
    R, step, others = stochastic_rows(Ws[0]), view_operator(Ws[0]), walked(Ws, circle(Ws, 0)[1:])
    n, m = R.shape
    between = others
    for _ in range(t - 1):
        between = between @ step @ others
    ratios = []
    for i in range(m):
        links = sum(R[:, i])
        start = R[:, i] / links  # the samples to which the walk may go from landmark i
        ratios.append((start @ between @ R[:, i]) / (links / n))
    return np.median(ratios)


def diffusion_time(Ws):
    """The first power of two with at most 3.5 states, if it is above 4; else 1."""
    t = 4
    while number_of_states(Ws, t) > 3.5 and t < 1024:
        t = 2 * t
    return t if t > 4 else 1


def features(Ws, v, t, anchors):
    """The fourth roots of the probabilities at the anchors, each row less its mean."""
    roots = probabilities(Ws, v, t)[:, anchors] ** (1 / 4)
    return np.array([row - np.mean(row) for row in roots])


def coordinates(Ws, q, t, anchors, sample):
    """The coordinates (n, q), their variances over the sample, and what each view alone predicts of them.

    All views' features side by side, less their means over the sample, times the leading q eigenvectors of the
    covariance of the sample. Signs are those of the eigenvectors.
    """
    parts = [features(Ws, v, t, anchors) for v in range(len(Ws))]
    parts = [f - np.mean(f[sample], axis=0) for f in parts]
    joined = np.hstack(parts)
    covariance = sum(np.outer(row, row) for row in joined[sample]) / len(sample)
    lam, V = np.linalg.eigh(covariance)
    lam, V = lam[::-1][:q], V[:, ::-1][:, :q]
    whole, alone, first = joined @ V, [], 0
    for f in parts:
        part = f @ V[first : first + f.shape[1]]
        first += f.shape[1]
        slope = [part[sample, c] @ whole[sample, c] / (part[sample, c] @ part[sample, c]) for c in range(q)]
        alone.append(part * np.array(slope))
    return whole, lam, alone

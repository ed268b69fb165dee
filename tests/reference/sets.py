"""What sets of views share, one neighborhood and one set after another."""

from itertools import combinations

import numpy as np
from scipy.linalg import eigh


def projected(u, X):
    """The part of u (k,) that is a linear function of the centred samples X (k, d)."""
    X = X - X.mean(axis=0)
    return X @ np.linalg.solve(X.T @ X, X.T @ u)


def held(u, X):
    """How much of u, of length one, a view holds."""
    return float((projected(u, X) ** 2).sum())


def agreed(views):
    """MAXVAR of one neighborhood: a variate of length one and its least correlation, for each of as many as it has.

    The generalised problem of the joint covariance against its diagonal blocks.
    """
    centred = [X - X.mean(axis=0) for X in views]
    joint = np.hstack(centred)
    own = np.zeros((joint.shape[1], joint.shape[1]))
    at = np.cumsum([0, *(X.shape[1] for X in views)])
    for v, X in enumerate(centred):
        own[at[v] : at[v + 1], at[v] : at[v + 1]] = X.T @ X
    vectors = eigh(joint.T @ joint, own)[1][:, ::-1]
    found = []
    for i in range(min(X.shape[1] for X in views)):
        parts = [X @ vectors[at[v] : at[v + 1], i] for v, X in enumerate(centred)]
        parts = [part / np.sqrt((part**2).sum()) for part in parts]
        whole = sum(parts)
        least = min(float(a @ b) for a, b in combinations(parts, 2))
        found.append((whole / np.sqrt((whole**2).sum()), max(0.0, least)))
    return found


def rest_statistic(view, others, edge):
    """Mean over neighborhoods of the sum over components of max(0, t^2 - t0^2) times what the view holds."""
    total = 0.0
    for i in range(len(view)):
        for u, t in agreed([X[i] for X in others]):
            total += max(0.0, t**2 - edge) * held(u, view[i])
    return total / len(view)


def adjusted(statistics, surrogates):
    """Westfall and Young: the largest of all tests in each round of surrogates, each test in its own units."""
    rounds = len(surrogates[0])
    largest = []
    for b in range(rounds):
        scaled = []
        for x in surrogates:
            others = [x[c] for c in range(rounds) if c != b]
            scaled.append((x[b] - np.mean(others)) / np.std(others, ddof=1))
        largest.append(max(scaled))
    found = []
    for statistic, x in zip(statistics, surrogates, strict=True):
        above = (statistic - np.mean(x)) / np.std(x, ddof=1)
        found.append((1 + sum(value >= above for value in largest)) / (1 + rounds))
    return found


def in_all_of(components, S):
    """Components, each the set of views that hold it, that all views of S hold."""
    return sum(set(S) <= set(views) for views in components)

"""`agreement`, `min_view_r2` and `held_out_neighbors` of `dlcca.trust`, one sample and one coordinate at a time."""

import numpy as np


def agreement(A, B):
    return [(_by_regression(A[:, c], B) + _by_regression(B[:, c], A)) / 2 for c in range(A.shape[1])]


def _by_regression(a, other):
    columns = np.column_stack([np.ones(len(a)), other])
    guess = columns @ np.linalg.pinv(columns) @ a
    return 1 - ((a - guess) ** 2).sum() / ((a - a.mean()) ** 2).sum()


def min_view_r2(E, near):
    found = []
    for e in E.T:
        shares = []
        for rows in near:
            guess = np.array([np.mean([e[j] for j in rows[i]]) for i in range(len(e))])
            shares.append(1 - ((e - guess) ** 2).sum() / ((e - e.mean()) ** 2).sum())
        found.append(min(max(0.0, share) for share in shares))
    return found


def held_out_neighbors(X, fold, k):
    found = []
    for i in range(len(X)):
        others = [j for j in range(len(X)) if fold[j] != fold[i]]
        found.append(sorted(sorted(others, key=lambda j: np.linalg.norm(X[i] - X[j]))[:k]))
    return found

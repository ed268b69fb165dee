"""The strength of a lag, its chance and the phase of a delay, written out sum by sum."""

import numpy as np


def strength(H_x, H_y, lag):
    """The squared entries of the mean over t of H_x(t) H_y(t + lag)^T, added up."""
    n, total, count = len(H_x), np.zeros((H_x.shape[1], H_y.shape[1])), 0
    for t in range(n):
        if 0 <= t + lag < n:
            total += np.outer(H_x[t], H_y[t + lag])
            count += 1
    return float(((total / count) ** 2).sum())


def turned_strength(H_x, H_y, shift):
    """The same with the second view turned around: its row t + shift, counted from the start again after the end."""
    n, total = len(H_x), np.zeros((H_x.shape[1], H_y.shape[1]))
    for t in range(n):
        total += np.outer(H_x[t], H_y[(t + shift) % n])
    return float(((total / n) ** 2).sum())


def lag_of(H_x, H_y, most):
    """The whole number of rows with the greatest strength."""
    return max(range(-most, most + 1), key=lambda lag: strength(H_x, H_y, lag))

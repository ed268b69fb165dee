"""What a report draws, by loops over rows: slow, literal, and for tests alone."""

import itertools

import numpy as np


def extremes(E, edges):
    """Smallest and largest value of each coordinate in each stretch of rows; NaN where there is none."""
    low, high = [], []
    for first, last in itertools.pairwise(edges):
        part = E[first:last]
        rows = [row for row in part if not np.isnan(row[0])]
        nothing = [np.nan] * E.shape[1]
        low.append([min(row[j] for row in rows) for j in range(E.shape[1])] if rows else nothing)
        high.append([max(row[j] for row in rows) for j in range(E.shape[1])] if rows else nothing)
    return np.array(low), np.array(high)


def explained(E, x, fold, k):
    """R² of one channel (l,) by the mean of the k nearest rows of E (l, q) that are not of the same fold."""
    E = (E - E.mean(axis=0)) / E.std(axis=0)
    guesses = []
    for i in range(len(E)):
        others = [j for j in range(len(E)) if fold[j] != fold[i]]
        others.sort(key=lambda j: sum((E[i] - E[j]) ** 2))
        guesses.append(np.mean([x[j] for j in others[:k]]))
    left = sum((x[i] - guesses[i]) ** 2 for i in range(len(x)))
    return max(0.0, 1 - left / sum((x - x.mean()) ** 2))


def amplitude(y, frequency, step):
    """Amplitude of an oscillation in y (n,) under a Hann window."""
    n = len(y)
    total, weight = 0j, 0.0
    for t in range(n):
        w = 0.5 - 0.5 * np.cos(2 * np.pi * t / (n - 1))
        total += w * (y[t] - y.mean()) * np.exp(-2j * np.pi * frequency * t * step)
        weight += w
    return 2 * abs(total) / weight

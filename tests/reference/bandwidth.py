"""The kernel scale sigma (Algorithm 2 step 4a, and other rules)."""

import numpy as np


def median_rule(D):
    """Algorithm 2 step 4a: the median of D_ij over all i, j (zeros of samples to themselves too)."""
    entries = sorted(float(d) for row in D for d in row)
    m = len(entries)
    if m % 2 == 1:
        return entries[m // 2]
    return (entries[m // 2 - 1] + entries[m // 2]) / 2


def quantile_rule(D, q):
    """The q-quantile of D_ij over all i, j, linear between neighboring entries (q = 1/2: the median rule)."""
    entries = sorted(float(d) for row in D for d in row)
    position = q * (len(entries) - 1)
    below = int(np.floor(position))
    above = min(below + 1, len(entries) - 1)
    return entries[below] + (position - below) * (entries[above] - entries[below])


def kth_neighbor_rule(D, k):
    """The median over rows of the k-th smallest D of the row; k = 1 is the smallest, be it the row itself."""
    return float(np.median([sorted(row)[k - 1] for row in D]))


def slope_rule(D, sigmas):
    """The sigma of the grid where d log sum_ij exp(-D_ij / sigma) / d log sigma is largest (first such)."""
    smallest = np.min(D)
    log_sums = []
    for sigma in sigmas:
        total = 0.0
        for row in D:
            for d in row:
                total += np.exp(-(d - smallest) / sigma)
        log_sums.append(np.log(total) - smallest / sigma)
    slopes = np.gradient(np.array(log_sums), np.log(np.asarray(sigmas, dtype=float)))
    return float(sigmas[int(np.argmax(slopes))])

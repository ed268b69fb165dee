"""Which coordinates tell something new: a function of one other coordinate does not."""

import numpy as np


def left_by_a_line(a, e, count):
    """The share of the variance of e that is left when, at every sample, a straight line through the ``count`` samples
    nearest in a (without itself) says what e should be."""
    n = len(e)
    left = 0.0
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: abs(a[j] - a[i]))[:count]
        _slope, height = np.polyfit(a[others] - a[i], e[others], 1)
        left += (e[i] - height) ** 2
    return left / sum((e - np.mean(e)) ** 2)

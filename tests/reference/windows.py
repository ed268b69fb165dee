"""Neighborhoods in time (Section VII-B: X_i = {x_j}, j = i-3 ... i+4)."""

import numpy as np


def time_window(i, n, width):
    """Rows i-(width-1)//2 ... i+width//2, the whole window shifted inwards at the ends of 0 ... n-1.

    Section VII-B, Case I: with width 8 these are the 8 adjacent frames i-3 ... i+4.
    """
    assert 0 <= i < n
    assert 1 <= width <= n
    first = i - (width - 1) // 2
    last = i + width // 2
    while first < 0:
        first, last = first + 1, last + 1
    while last > n - 1:
        first, last = first - 1, last - 1
    rows = []
    for j in range(first, last + 1):
        rows.append(j)
    return np.array(rows)

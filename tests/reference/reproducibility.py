"""What two halves of the rows tell of a coordinate, coordinate by coordinate and row by row."""

import numpy as np


def told(e, other):
    """The part of coordinate e (n,) that is a linear function of others (n, p): the normal equations, with a mean."""
    A = np.column_stack([np.ones(len(e)), other])
    weights = np.linalg.solve(A.T @ A, A.T @ e)
    return np.array([sum(A[i, j] * weights[j] for j in range(A.shape[1])) for i in range(len(e))])


def reproducibility(E, splits):
    """<e1 - mean, e2 - mean> / <e - mean, e - mean> of each coordinate, the mean over the splits."""
    found = []
    for e in E.T:
        shares = []
        for one, two in splits:
            a, b = told(e, one) - e.mean(), told(e, two) - e.mean()
            shares.append(sum(x * y for x, y in zip(a, b, strict=True)) / sum((x - e.mean()) ** 2 for x in e))
        found.append(min(1.0, max(0.0, sum(shares) / len(shares))))
    return np.array(found)


def band(E, splits):
    """Root mean square of half the difference of the halves and of how far their mean is from the coordinate."""
    found = np.zeros(E.shape)
    for c, e in enumerate(E.T):
        parts = [(told(e, one), told(e, two)) for one, two in splits]
        for i in range(len(e)):
            squares = [((a[i] - b[i]) / 2) ** 2 + (e[i] - (a[i] + b[i]) / 2) ** 2 for a, b in parts]
            found[i, c] = (sum(squares) / len(squares)) ** 0.5
    return found

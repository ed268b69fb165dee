"""`trust.scores.filter_r2`, by the normal equations, row by row."""

import numpy as np


def filter_r2(Z, y, segments, *, delays, ridge):
    """R² of a series (n,) from delayed values of a view (n, p), each half predicted by the filter of the other half."""
    n, rows, made = len(Z), [], []
    for t in range(n):
        if all(0 <= t + d < n and segments[t + d] == segments[t] for d in delays):
            rows.append(t)
            made.append(np.concatenate([Z[t + d] for d in delays]))
    H, y = np.array(made), np.array([y[t] for t in rows])
    half = len(rows) // 2
    missed = 0.0
    for known, asked in ((range(half), range(half, len(rows))), (range(half, len(rows)), range(half))):
        middle, mean = H[known].mean(axis=0), y[known].mean()
        C = sum(np.outer(H[t] - middle, H[t] - middle) for t in known)
        c = sum((H[t] - middle) * (y[t] - mean) for t in known)
        b = np.linalg.solve(C + ridge * np.linalg.eigvalsh(C)[-1] * np.eye(len(C)), c)
        missed += sum((y[t] - mean - (H[t] - middle) @ b) ** 2 for t in asked)
    return 1 - missed / sum((value - y.mean()) ** 2 for value in y)

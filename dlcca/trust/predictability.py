r"""How well a view alone tells a coordinate: what all views share, each of them knows.

A coordinate that follows something private to one view cannot be made of the others. Those are asked by linear filters,
sums of delayed channels: a filter makes no frequency that a view does not have, and one that turns phases is enough
where views move together without being functions of each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Delays to either side, in rows, and how many of them are taken.
SPAN, DELAYS = 16, 9
#: Leading components of a view that are asked, and the ridge of the filter as a share of its largest variance.
COMPONENTS, RIDGE = 12, 1e-3
#: Fewer rows than this are no evidence.
FEWEST_ROWS = 64

Floats = NDArray[np.float64]


def told_alone(Z: Floats, y: Floats, segments: NDArray) -> float:
    r"""R² of a series from the leading components of a view, each half of the rows foretold by what the other taught.

    With :math:`h_t = (z_{t-16}, z_{t-12}, \dots, z_{t+16})` and :math:`H` its centred rows in one half, the filter is
    :math:`b = (H^T H + r \lambda_{\max} I)^{-1} H^T y`.

    Parameters
    ----------
    Z : (n, p) components of a view, the largest first
    y : (n,) the series
    segments : (n,) number of the unbroken stretch of a row; delays do not cross

    Returns
    -------
    At most 1; below 0 if the mean would have been the better guess; -inf if there are too few rows to tell
    """
    H, rows = delayed(Z[:, :COMPONENTS], segments)
    n, y = len(rows), y[rows]
    total = float(((y - y.mean()) ** 2).sum()) if n >= FEWEST_ROWS else 0.0
    if not total > 0:
        return -np.inf
    halves = np.arange(n) < n // 2
    missed = sum(float(((y[~some] - _foretold(H[some], y[some], H[~some])) ** 2).sum()) for some in (halves, ~halves))
    return 1 - missed / total


def delayed(Z: Floats, segments: NDArray) -> tuple[Floats, NDArray[np.int64]]:
    """Values with those before and after, side by side, and the rows that have them all in their stretch."""
    n = len(Z)
    rows = np.arange(SPAN, n - SPAN)
    rows = rows[segments[rows - SPAN] == segments[rows + SPAN]]
    delays = np.linspace(-SPAN, SPAN, DELAYS).astype(np.int64)
    return np.hstack([Z[rows + delay] for delay in delays]), rows


def _foretold(known: Floats, y: Floats, asked: Floats) -> Floats:
    middle, mean = known.mean(axis=0), y.mean()
    U, s, Vt = np.linalg.svd(known - middle, full_matrices=False)
    if not s[0] > 0:
        return np.full(len(asked), mean)
    b = Vt.T @ (s / (s**2 + RIDGE * s[0] ** 2) * (U.T @ (y - mean)))
    return np.asarray(mean + (asked - middle) @ b)

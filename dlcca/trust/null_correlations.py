"""How large correlations get when there is nothing to find."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def null_edge(effective: NDArray, k: int) -> NDArray[np.float64]:
    r"""Where the largest canonical correlation of independent views tends to, in neighborhoods of k samples.

    The Wachter edge :math:`\sqrt{c_1(1-c_2)} + \sqrt{c_2(1-c_1)}` with :math:`c_v = d_v/(k-1)`, with the effective
    ranks that the ridge leaves in place of the numbers of channels. For more than two views: the largest over pairs.

    Parameters
    ----------
    effective : (m, K) effective rank of each view at each landmark
    k : samples in a neighborhood

    Returns
    -------
    edge : (m,), at most 1
    """
    c = np.clip(np.asarray(effective, np.float64) / (k - 1), 0, 1)
    if c.shape[1] == 1:
        return np.zeros(len(c))
    top = np.sort(c, axis=1)[:, -2:]  # the edge rises with both: the two largest make the largest
    edge = np.sqrt(top[:, 0] * (1 - top[:, 1])) + np.sqrt(top[:, 1] * (1 - top[:, 0]))
    return np.where(top.sum(axis=1) >= 1, 1.0, np.minimum(edge, 1.0))

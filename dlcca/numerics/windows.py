"""Neighborhoods of consecutive samples: a window of time around each landmark."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def time_windows(n: int, landmarks: Rows, width: int) -> Rows:
    """Rows of the window of ``width`` consecutive samples around each landmark.

    A window of 8 reaches from i-3 to i+4, as in Section VII-B of the paper. At the ends of the recording it is
    shifted inwards, so that every landmark has ``width`` different rows.

    Parameters
    ----------
    n : samples in the recording
    landmarks : (m,) row numbers
    width : samples in a window, at most n

    Returns
    -------
    rows : (m, width)
    """
    if not 1 <= width <= n:
        raise ValueError(f"a window of {width} samples does not fit a recording of {n}")
    first = np.clip(np.asarray(landmarks) - (width - 1) // 2, 0, n - width)
    return first[:, None] + np.arange(width)

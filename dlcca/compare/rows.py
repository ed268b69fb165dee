"""Which rows are compared: few enough for n x n matrices, spread over the recording, and the control of the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def shifted(rows: Rows, n: int, views: int) -> list[Rows]:
    """The rows of each view in the control: view v is n v / K rows ahead, so that no two are of one moment.

    Of two views, the second is shifted by half the recording; what leaves at its end comes in at its beginning.
    """
    return [(rows + v * n // views) % n for v in range(views)]


def shuffled(rows: Rows, views: int) -> list[Rows]:
    """The rows of each view in the control where their order means nothing: the first as it is, others at random.

    Rows that are sorted, as by a label, would be in step again after a shift: one label with always the same other.
    """
    rng = np.random.default_rng(0)
    return [rows, *(rng.permutation(rows) for _ in range(views - 1))]

"""What `fusion="auto"` asks of the data: how large a correlation a neighborhood shows when nothing is common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.landmarks import evenly
from dlcca.numerics.metrics.cca import whiten
from dlcca.numerics.neighbors import joint_neighbors
from dlcca.settings.fit import Settings
from dlcca.trust.significance import null_edge
from dlcca.views import in_range

#: Rows that are looked at, spread evenly over all, and the neighborhoods among them.
ROWS, LANDMARKS = 4096, 100

#: Some rows, by their numbers in rising order, of every view: (b, d_v) each.
Read = Callable[[NDArray[np.int64]], list[NDArray]]


def by_chance(read: Read, n: int, settings: Settings) -> float:
    """The correlation that independent views reach in the typical neighborhood of n samples, between 0 and 1.

    It follows from how many directions the neighborhoods fill, and not from what the views share. 0 if there is nothing
    to look at: fewer samples than neighbours, or values that are no numbers, which the fit refuses in its own words.
    """
    k = int(settings.neighborhoods.n_neighbors)
    if n < k:
        return 0.0
    arrays = [np.asarray(X, np.float64) for X in read(evenly(n, min(n, max(ROWS, k))))]
    if not all(in_range(X) for X in arrays):
        return 0.0
    some = evenly(len(arrays[0]), min(len(arrays[0]), LANDMARKS))
    near = joint_neighbors(arrays, some, k)
    effective = [whiten(X[near], ridge=float(settings.metric.ridge)).effective for X in arrays]
    return float(np.median(null_edge(np.stack(effective, axis=1), k)))

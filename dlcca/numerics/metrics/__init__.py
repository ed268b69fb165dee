"""The local metrics that can be named in settings: for how many views each is, and how it is computed.

A metric is a function, in `cca` or in a file of its own, and a line of `METRICS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.metrics.cca import LocalMetric, cca_metric, mahalanobis_metric, maxvar_metric
from dlcca.numerics.metrics.tcca import tcca_metric


def shared_directions(sizes: Sequence[int]) -> int:
    """Directions that more than one view can hold, of neighborhoods with so many in each view; all of a single view."""
    return sizes[0] if len(sizes) == 1 else sum(sizes) - max(sizes)


@dataclass(frozen=True)
class Metric:
    """A local metric."""

    compute: Callable[[list[NDArray], float, int], LocalMetric]
    """From the neighborhoods of each view (m, k, d_v), the ridge, and the directions that are kept."""
    fewest_views: int = 2
    most_views: int | None = None
    directions: Callable[[Sequence[int]], int] = shared_directions
    """How many directions it gives, from min(k, d_v) of each view."""


#: By the name in settings.
METRICS = {
    "cca": Metric(lambda views, ridge, rank: cca_metric(*views, ridge=ridge), most_views=2),
    "maxvar": Metric(lambda views, ridge, rank: maxvar_metric(views, ridge=ridge, rank=rank)),
    "tcca": Metric(
        lambda views, ridge, rank: tcca_metric(views, ridge=ridge, rng=np.random.default_rng(0))[0],
        directions=lambda sizes: 1,
    ),
    "mahalanobis": Metric(
        lambda views, ridge, rank: mahalanobis_metric(views[0], ridge=ridge), fewest_views=1, most_views=1
    ),
}

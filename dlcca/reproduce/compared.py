"""The baselines of the paper, and linear CCA, under the names that the table and the figures give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca import baselines

MAPS, KERNEL, ALTERNATING = "diffusion maps of movie 1", "kernel CCA", "alternating diffusion"
# Without a ridge, 200 channels a view and 300 or 400 frames leave nothing to find: everything correlates.
LINEAR = "linear CCA (ridge 0.03)"

METHODS: dict[str, Callable[[list[NDArray]], Any]] = {
    MAPS: lambda views: baselines.diffusion_maps(views, n_components=2, view=0),
    KERNEL: lambda views: baselines.kernel_cca(views, n_components=2),
    ALTERNATING: lambda views: baselines.alternating_diffusion(views, n_components=2),
    LINEAR: lambda views: baselines.linear_cca(views, n_components=2, ridge=0.03),
}


def first_coordinate(method: str, views: list[NDArray]) -> NDArray:
    """The first coordinate (n,) that a baseline finds."""
    return np.asarray(METHODS[method](views).embedding)[:, 0]

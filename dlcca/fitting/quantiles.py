"""Quantiles of the distances of all samples to the landmarks, by passes over the blocks that count digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, collect
from dlcca.errors import DataError
from dlcca.fitting import landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.kernels import beyond_rounding
from dlcca.numerics.streaming import Digits, Prefix, Search, added, count_digits, levels

#: Dense distances up to this many get an exact quantile; of more, the last passes are left out (error below 2^-8).
EXACT_ENTRIES = 1 << 28

#: The distances of a block, some rows at a time, each with the number of what it belongs to. A function of a module.
Distances = Callable[[Job, int], Iterator[tuple[int, NDArray]]]


def passes(job: Job, *, dense: bool) -> int:
    """Passes over all blocks that a quantile takes."""
    exact = levels(np.dtype(job.dtype))
    return exact if not dense or job.n * landmarks.count(job) <= EXACT_ENTRIES else max(1, exact // 2)


def quantiles(
    job: Job, distances: Distances, many: int, share: float, client: Any, tell: Tell | None, *, dense: bool
) -> list[float]:
    """The quantile of each of ``many`` sets of distances; all of them from the same passes."""
    searches = [Search(share, np.dtype(job.dtype), passes(job, dense=dense)) for _ in range(many)]
    while not all(search.is_over for search in searches):
        wanted = {which: (search.level, search.prefixes) for which, search in enumerate(searches) if not search.is_over}
        parts = collect(count, job, job.n_blocks, client, tell, (distances, wanted), name="bandwidth")
        total = added(parts)
        for which in wanted:
            searches[which].narrow({prefix: total[which, prefix] for prefix in wanted[which][1]})
    return [search.result for search in searches]


def count(
    job: Job, block: int, distances: Distances, wanted: dict[int, tuple[int, list[Prefix]]]
) -> dict[tuple[int, Prefix], Digits]:
    """The digits of a block's distances that are wanted: by the set of distances, and by their first digits."""
    return added(
        {(which, prefix): found for prefix, found in count_digits(beyond_rounding(D), *wanted[which]).items()}
        for which, D in distances(job, block)
        if which in wanted
    )


def refuse_flat(scales: list[float], job: Job) -> None:
    for scale, source in zip(scales, job.sources, strict=False):
        if not scale > 0:
            raise DataError(
                f"the distances in view {source.name!r} have the scale {scale}: the local metrics see no change in it. "
                "Give more neighbours (window or n_neighbors), or leave this view out."
            )

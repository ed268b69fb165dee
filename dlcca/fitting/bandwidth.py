"""Scales of the distances, from passes over all of them: the units of the views, and the bandwidth of each kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, collect
from dlcca.errors import DataError
from dlcca.fitting import kernel, landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.bandwidth import QUANTILES, beyond_rounding, candidates, kth_smallest, log_sums, steepest
from dlcca.numerics.quantiles import Digits, Prefix, Search, added, count_digits, levels

#: Dense distances up to this many get an exact quantile; of more, the last passes are left out (error below 2^-8).
EXACT_ENTRIES = 1 << 28


def run_units(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """The median distance of each view, by which they are divided before "average" fusion adds them."""
    if job.options["fusion"] != "average":
        return
    stage = kernel.units_stage(job).prepare({}, says="median distances")
    if stage.missing():
        units = _quantiles(job, "views", 0.5, client, tell)
        _refuse_flat(units, job)
        stage.write(0, {}, {"units": units})


def bandwidths(job: Job, client: Any = None, tell: Tell | None = None) -> list[float]:
    """σ of every kernel, by the rule or as the user said."""
    said = job.options["bandwidth"]
    if not isinstance(said, str):
        return [float(said) for _ in kernel.kernels(job)]
    if said == "slope":
        sigma = _steepest(job, _quantiles(job, "kernels", 0.5, client, tell), client, tell)
    else:
        sigma = _quantiles(job, "neighbor" if said == "neighbor" else "kernels", QUANTILES[said], client, tell)
    _refuse_flat(sigma, job)
    return sigma


def _refuse_flat(scales: list[float], job: Job) -> None:
    for scale, source in zip(scales, job.sources, strict=False):
        if not scale > 0:
            raise DataError(
                f"the distances in view {source.name!r} have the scale {scale}: the local metrics see no change in it. "
                "Give more neighbours (window or n_neighbors), or leave this view out."
            )


def _quantiles(job: Job, of: str, share: float, client: Any, tell: Tell | None) -> list[float]:
    """Quantiles of what `_distances` gives, one for each of its arrays; all of them from the same passes."""
    dtype = np.dtype(job.dtype)
    passes, many = levels(dtype), job.K if of == "views" else len(kernel.kernels(job))
    if (of == "views" or not kernel.is_sparse(job)) and job.n * landmarks.count(job) > EXACT_ENTRIES:
        passes = 1 if passes == 2 else 2
    searches = [Search(share, dtype, passes) for _ in range(many)]
    while not all(search.is_over for search in searches):
        asked = {which: (search.level, search.prefixes) for which, search in enumerate(searches) if not search.is_over}
        parts = collect(count, job, job.n_blocks, client, tell, (of, asked), name="bandwidth")
        total = added(parts)
        for which in asked:
            searches[which].narrow({prefix: total[which, prefix] for prefix in asked[which][1]})
    return [search.result for search in searches]


def count(
    job: Job, block: int, of: str, asked: dict[int, tuple[int, list[Prefix]]]
) -> dict[tuple[int, Prefix], Digits]:
    """The digits of a block's distances, as far as they are asked for: by what they are of, and by their beginning."""
    return added(
        {(which, prefix): found for prefix, found in count_digits(beyond_rounding(D), *asked[which]).items()}
        for which, D in _distances(job, block, of)
        if which in asked
    )


def _distances(job: Job, block: int, of: str) -> Iterator[tuple[int, NDArray]]:
    """Distances of a block, some rows at a time: of the "views", of the "kernels", or those of the k-th "neighbor"."""
    if of == "views":
        views = job.block(block)
        for v in range(job.K):
            yield from ((v, D) for D in kernel.tiles(kernel.view_model(job, v), views))
        return
    if kernel.is_sparse(job):
        parts = ((v, kernel.stage_of(job).read(f"distances_{v}", block)) for v in kernel.kernels(job))
    else:
        parts = ((0, D) for D in kernel.tiles(kernel.model(job), job.block(block)))
    yield from ((v, kth_smallest(D)) for v, D in parts) if of == "neighbor" else parts


def _steepest(job: Job, medians: list[float], client: Any, tell: Tell | None) -> list[float]:
    """The slope rule, from the logarithm of the sum of every candidate's kernel."""
    if not all(median > 0 for median in medians):
        return medians
    grids = [candidates(median) for median in medians]
    parts = collect(log_sums_of, job, job.n_blocks, client, tell, (grids,), name="bandwidth")
    totals = reduce(np.logaddexp, parts)
    return [steepest(grid, total) for grid, total in zip(grids, totals, strict=True)]


def log_sums_of(job: Job, block: int, grids: list[NDArray]) -> NDArray[np.float64]:
    """log Σ exp(-D/σ) of a block, (kernels, candidates)."""
    total = np.full((len(grids), len(grids[0])), -np.inf)
    for v, D in _distances(job, block, "kernels"):
        total[v] = np.logaddexp(total[v], log_sums(D, grids[v]))
    return total

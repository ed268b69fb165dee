"""Distances of samples to the landmarks under the local metrics: tiles of a block, units of views, quantiles of all.

The unit of a view is its median distance, by which fusions that mix distances divide them first. Quantiles come from
passes over the blocks that count leading digits.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.engine.work import OnProgress, collect
from dlcca.errors import DataError
from dlcca.fitting import landmarks, links, metric
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics.kernels import beyond_rounding, choose_bandwidth
from dlcca.numerics.streaming import Digits, Prefix, Search, added, count_digits, levels

#: Entries of the dense distances that are made at a time.
TILE_ENTRIES = 1 << 22
#: Dense distances up to this many get an exact quantile; of more, the last passes are left out (error below 2^-8).
EXACT_ENTRIES = 1 << 28

#: The distances of a block, some rows at a time, each with the number of what it belongs to. A function of a module.
Distances = Callable[[Job, int], Iterator[tuple[int, NDArray]]]


def tile_rows(m: int) -> int:
    """Rows of dense distances to m landmarks that are made at a time."""
    return max(1, TILE_ENTRIES // m)


def tiles(draft: Model, views: list[NDArray]) -> Iterator[NDArray]:
    """Dense fused distances of a block, some rows at a time."""
    rows = tile_rows(draft.n_landmarks)
    for first in range(0, len(views[0]), rows):
        yield draft.distances([X[first : first + rows] for X in views])


def of_units(job: Job, units: Sequence[float]) -> Model:
    """The model whose distances in each view are divided by these units; 0 leaves a view out. Kept by each worker."""
    names = ("fusion", "kernel", "n_links", "n_components", "coordinates")
    fusion, kernel, n_links, q, coordinates = options = [job.options[name] for name in names]

    def read() -> Model:
        return Model(
            names=tuple(source.name for source in job.sources),
            fusion=fusion,
            n_links=min(int(n_links), landmarks.count(job)) if kernel == "sparse" else None,
            points=landmarks.points(job),
            factors=metric.factors(job),
            units=np.array(units),
            weights=[],
            values=[],
            scale=np.ones(int(q)),
            reading=coordinates,
            axes=links.axes_of(job) if links.has_axes(job) else (),
        )

    return job.cached("draft", metric.METRIC.fingerprint(job), *options, *units, make=read, keep=1)


def of_view(job: Job, view: int) -> Model:
    """The model whose distances are those of one view."""
    return of_units(job, [1.0 if v == view else 0.0 for v in range(job.K)])


def passes(job: Job, *, dense: bool) -> int:
    """Passes over all blocks that a quantile takes."""
    exact = levels(np.dtype(job.dtype))
    return exact if not dense or job.n * landmarks.count(job) <= EXACT_ENTRIES else max(1, exact // 2)


def quantiles(
    job: Job, distances: Distances, many: int, share: float, client: Any, on_progress: OnProgress | None, *, dense: bool
) -> list[float]:
    """The quantile of each of ``many`` sets of distances; all of them from the same passes."""
    searches = [Search(share, np.dtype(job.dtype), passes(job, dense=dense)) for _ in range(many)]
    while not all(search.is_over for search in searches):
        wanted = {which: (search.level, search.prefixes) for which, search in enumerate(searches) if not search.is_over}
        parts = collect(count, job, job.n_blocks, client, on_progress, (distances, wanted), name="bandwidth")
        total = added(parts)
        for which in wanted:
            searches[which].narrow({prefix: total[which, prefix] for prefix in wanted[which][1]})
    return [search.result for search in searches]


def count(
    job: Job, block: int, distances: Distances, wanted: dict[int, tuple[int, list[Prefix]]]
) -> dict[tuple[int, Prefix], Digits]:
    """The requested digits of a block's distances: by the set of distances, and by their first digits."""
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


def view_distances(job: Job, block: int) -> Iterator[tuple[int, NDArray]]:
    """Dense distances of a block in each view."""
    views = job.block(block)
    for v in range(job.K):
        yield from ((v, D) for D in tiles(of_view(job, v), views))


def _find(job: Job, stage: Blocks, client: Any, on_progress: OnProgress | None) -> None:
    if job.in_memory:
        found = [choose_bandwidth(of_view(job, v).distances(job.block(0)), "median") for v in range(job.K)]
    else:
        found = quantiles(job, view_distances, job.K, 0.5, client, on_progress, dense=True)
    refuse_flat(found, job)
    stage.write(0, {}, {"units": found})


def units(job: Job) -> list[float]:
    """What the distances in each view are divided by; 0 for a view that is not used."""
    if job.fusion.needs_units:
        return list(UNITS.of(job).facts(0)["units"])
    return [1.0 if v in job.fusion.used_views(job.K) else 0.0 for v in range(job.K)]


def model(job: Job) -> Model:
    """The landmarks and metrics as a model that lacks only its spectrum."""
    return of_units(job, units(job))


def model_bytes(job: Job) -> float:
    """The landmarks and their metrics."""
    return float(landmarks.count(job)) * job.width * (metric.rank(job) + 1) * job.itemsize


def dense_tile(job: Job) -> float:
    """Bytes of a tile of dense distances, with what it takes to make it."""
    return 4.0 * min(TILE_ENTRIES, job.rows * landmarks.count(job)) * job.itemsize


def dense_products(job: Job) -> float:
    """Operations of the distances of all samples to all landmarks."""
    used = sum(job.dims[v] for v in job.fusion.used_views(job.K))
    return 2.0 * job.n * landmarks.count(job) * metric.rank(job) * used


def passes_cost(job: Job, passes: int) -> dict[str, float]:
    """Passes over all dense distances, which are made again in each."""
    return {
        "tasks": passes * job.n_blocks,
        "products": passes * dense_products(job),
        "selections": passes * (float(job.n) * landmarks.count(job)),
        "reads": passes * job.pass_bytes,
        "memory": job.reading_bytes + model_bytes(job) + dense_tile(job),
    }


UNITS = Stage(
    "units",
    after=[metric.METRIC],
    options=["fusion"],
    is_needed=lambda job: job.fusion.needs_units,
    cost=lambda job: passes_cost(job, passes(job, dense=True) if job.fusion.needs_units else 0),
    drive=_find,
    reads="a block of samples",
    leaves="the median distance of each view, for `average` fusion",
)

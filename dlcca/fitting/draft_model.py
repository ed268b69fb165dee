"""The landmarks and their metrics as a model without a spectrum, and the distances of blocks of samples to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.fitting import axes, landmarks, metric
from dlcca.fitting.job import Job
from dlcca.model import Model

#: Entries of the dense distances that are made at a time.
TILE_ENTRIES = 1 << 22


def is_sparse(job: Job) -> bool:
    return job.fusion.per_view or job.options["kernel"] == "sparse"


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
    key = (metric.METRIC.fingerprint(job), *(job.options[name] for name in _READ), *units)
    return job.cached("draft", *key, make=lambda: _read(job, units), keep=1)


#: The options that `_read` looks at.
_READ = ("fusion", "kernel", "n_links", "n_components", "coordinates")


def of_view(job: Job, view: int) -> Model:
    """The model whose distances are those of one view."""
    return of_units(job, [1.0 if v == view else 0.0 for v in range(job.K)])


def _read(job: Job, units: Sequence[float]) -> Model:
    return Model(
        names=tuple(source.name for source in job.sources),
        fusion=job.options["fusion"],
        n_links=min(int(job.options["n_links"]), landmarks.count(job)) if job.options["kernel"] == "sparse" else None,
        points=landmarks.points(job),
        factors=metric.factors(job),
        units=np.array(units),
        weights=[],
        values=[],
        scale=np.ones(int(job.options["n_components"])),
        reading=job.options["coordinates"],
        axes=axes.of(job) if axes.is_needed(job) else (),
    )

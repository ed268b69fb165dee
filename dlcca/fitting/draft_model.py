"""The landmarks and their metrics as a model without a spectrum, and the distances of blocks of samples to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.fitting import axes, landmarks, metric
from dlcca.fitting.job import Job
from dlcca.model import Model

#: Entries of the dense distances that are made at a time.
TILE_ENTRIES = 1 << 22


def is_sparse(job: Job) -> bool:
    return job.options["fusion"] == "alternating" or job.options["kernel"] == "sparse"


def used_views(job: Job) -> list[int]:
    """The views whose distances count."""
    return [0] if job.options["fusion"] == "view" else list(range(job.K))


def kernels(job: Job) -> list[int]:
    """Numbers of the kernels: one for each view, or one in all."""
    return list(range(job.K)) if job.options["fusion"] == "alternating" else [0]


def tiles(draft: Model, views: list[NDArray]) -> Iterator[NDArray]:
    """Dense fused distances of a block, some rows at a time."""
    rows = max(1, TILE_ENTRIES // draft.n_landmarks)
    for first in range(0, len(views[0]), rows):
        yield draft.distances([X[first : first + rows] for X in views])


#: Of the last job that this worker saw; a job is many tasks, and the metrics may be large.
_KEPT: dict[tuple[Any, ...], Model] = {}


def of_units(job: Job, units: Sequence[float]) -> Model:
    """The model whose distances in each view are divided by these units; 0 leaves a view out. Kept by each worker."""
    key = (job.address, metric.METRIC.fingerprint(job), job.options["fusion"], job.options["n_links"], *units)
    found = _KEPT.get(key)
    if found is None:  # perhaps read twice: several threads may be here, and each keeps what it has found
        found = _read(job, units)
        _KEPT.clear()
        _KEPT[key] = found
    return found


def forget() -> None:
    """Have the model be read anew."""
    _KEPT.clear()


def of_view(job: Job, view: int) -> Model:
    """The model whose distances are those of one view."""
    return of_units(job, [1.0 if v == view else 0.0 for v in range(job.K)])


def _read(job: Job, units: Sequence[float]) -> Model:
    return Model(
        names=tuple(source.name for source in job.sources),
        fusion=job.options["fusion"],
        n_links=min(int(job.options["n_links"]), landmarks.count(job)) if is_sparse(job) else None,
        points=landmarks.points(job),
        factors=metric.factors(job),
        units=np.array(units),
        weights=[],
        values=[],
        scale=np.ones(int(job.options["n_components"])),
        axes=axes.of(job) if axes.is_needed(job) else (),
    )

"""The first look at every block: means and variances of the channels, and whether all is finite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.numerics.moments import Moments, combined
from dlcca.stages.job import Job
from dlcca.stages.work import Tell, do_missing
from dlcca.stores.blocks import Stage


@dataclass(frozen=True)
class Scan:
    """What the first look found."""

    means: list[NDArray]  # per view, (d_v,)
    spreads: list[float]  # per view: root of the total variance


def stage_of(job: Job) -> Stage:
    return job.stage("scan", [], job.n_blocks)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> Scan:
    """Look at every block that was not looked at yet, and put the results together in the order of the blocks."""
    stage = stage_of(job).prepare({}, says=f"{job.n} samples of {job.K} views")
    do_missing(compute, job, stage, client, tell)
    return result(job)


def result(job: Job) -> Scan:
    stage = stage_of(job)
    facts = [stage.facts(block) for block in range(stage.n_blocks)]
    means, spreads = [], []
    for v, source in enumerate(job.sources):
        moments = combined([Moments(f["rows"], np.array(f["means"][v]), np.array(f["squares"][v])) for f in facts])
        if not moments.squares.any():
            raise DataError(f"view {source.name!r} is constant; a sensor that never changes has nothing in common.")
        means.append(moments.mean)
        spreads.append(float(np.sqrt(moments.squares.sum() / moments.count)))
    return Scan(means, spreads)


def compute(job: Job, stage: Stage, block: int) -> None:
    first, _last = job.bounds(block)
    views = job.block(block)
    for source, X in zip(job.sources, views, strict=True):
        _refuse_gaps(X, source.name, first, block)
    moments = [Moments.of(X) for X in views]
    facts = {
        "rows": len(views[0]),
        "means": [m.mean.tolist() for m in moments],
        "squares": [m.squares.tolist() for m in moments],
    }
    stage.write(block, {}, facts)


def _refuse_gaps(X: NDArray, name: str, first: int, block: int) -> None:
    bad = ~np.isfinite(X)
    if bad.any():
        row, channel = (int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            f"view {name!r} holds {X[row, channel]} in row {first + row}, channel {channel} (block {block}; "
            f"{int(bad.any(axis=1).sum())} rows of the block are touched); all must be finite."
        )

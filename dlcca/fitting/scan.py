"""The first pass over every block: means and variances of the channels, and whether all is finite."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import FILE_SELECTIONS, Blocks, Stage
from dlcca.errors import DataError
from dlcca.fitting.job import Job
from dlcca.numerics.streaming import Moments, combined
from dlcca.recordings import input_integrity
from dlcca.views import LEAST_CHANGE, check_change, check_largest


@dataclass(frozen=True)
class Scan:
    """What the first pass found."""

    means: list[NDArray]  # per view, (d_v,)
    spreads: list[float]  # per view: root of the total variance


def result(job: Job) -> Scan:
    found = MOMENTS.of(job).facts(0)
    return Scan([np.array(mean) for mean in found["means"]], found["spreads"])


def compute(job: Job, stage: Blocks, block: int) -> None:
    views = job.block(block)
    for source, X in zip(job.sources, views, strict=True):
        try:
            check_largest(X, source.name, X.dtype, first=job.bounds(block)[0])
        except DataError as error:
            raise DataError(f"{error} (block {block})") from None
    moments = [Moments.of(X) for X in views]
    known = {} if job.in_memory else input_integrity.checksums(views)  # by which a later change of them is found
    means, squares = [m.mean.tolist() for m in moments], [m.squares.tolist() for m in moments]
    stage.write(block, {}, {**known, "rows": len(views[0]), "means": means, "squares": squares})


def combine(job: Job, stage: Blocks, block: int) -> None:
    facts = [SCAN.of(job).facts(b) for b in range(job.n_blocks)]
    means, spreads = [], []
    for v, source in enumerate(job.sources):
        moments = combined([Moments(f["rows"], np.array(f["means"][v]), np.array(f["squares"][v])) for f in facts])
        spread = float(np.sqrt(moments.squares.sum() / moments.count))
        if not moments.squares.any():
            size = float(np.abs(moments.mean).max())
            # Where even the squares of the values are 0, so are those of changes.
            if 0 < size < LEAST_CHANGE[np.dtype(job.dtype)]:
                check_change(size, source.name, job.dtype)
            raise DataError(f"view {source.name!r} is constant; a sensor that never changes has nothing in common.")
        check_change(spread, source.name, job.dtype)
        means.append(moments.mean.tolist())
        spreads.append(spread)
    checksums = [f.get(input_integrity.CHECKSUMS) for f in facts]
    stage.write(block, {}, {"means": means, "spreads": spreads, input_integrity.CHECKSUMS: checksums})


SCAN = Stage(
    "scan",
    compute,
    n_blocks=lambda job: job.n_blocks,
    cost=lambda job: {"reads": job.pass_bytes, "memory": job.reading_bytes + 1.5 * job.block_bytes},
    on_start=lambda job, *watching: None if job.in_memory else input_integrity.confirm(job, *watching),
    reads="a block of samples",
    leaves="means and variances; refuses NaN with its place",
)
#: All blocks together: later stages read it in every task, and must not open a record for each block.
MOMENTS = Stage(
    "moments",
    combine,
    after=[SCAN],
    cost=lambda job: {"selections": FILE_SELECTIONS * job.n_blocks, "memory": job.n_blocks * job.width * 64.0},
    reads="all records of `scan`",
    leaves="means and spreads of the views",
)

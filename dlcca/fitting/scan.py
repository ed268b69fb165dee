"""The first pass over every block: means and variances of the channels, and whether all is finite.

Rows that later stages read here and there are kept on the way: see `Job.kept_rows`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import FILE_SELECTIONS, Arrays, Blocks, Stage
from dlcca.errors import DataError
from dlcca.fitting.job import CHECKED_ROWS, Job, halved_rows
from dlcca.numerics.landmarks import CANDIDATES
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
    kept, most = job.kept_of(block) - job.bounds(block)[0], _most_kept(job)
    seed = job.seed if 0 < most >= len(kept) else None
    parts = {f"kept_{v}": (block * most, X[kept]) for v, X in enumerate(views) if seed is not None and len(kept)}
    stage.write(block, parts, {**known, "rows": len(views[0]), "means": means, "squares": squares, "kept": seed})


def _most_kept(job: Job) -> int:
    """Room for the kept rows of a block, the same for any seed: a few are drawn where many were expected."""
    mean = (CANDIDATES + CHECKED_ROWS + halved_rows(job.n, job.width)) / job.n_blocks
    return min(job.rows, int(mean + 8 * mean**0.5) + 64) if len(job.kept_rows) else 0


def _arrays(job: Job) -> Arrays:
    most = 0 if job.in_memory else _most_kept(job)
    return {f"kept_{v}": ((job.n_blocks * most, d), job.dtype, most) for v, d in enumerate(job.dims)} if most else {}


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
    seeds = {f["kept"] for f in facts}
    kept = seeds.pop() if len(seeds) == 1 else None
    stage.write(block, {}, {"means": means, "spreads": spreads, "kept": kept, input_integrity.CHECKSUMS: checksums})


SCAN = Stage(
    "scan",
    compute,
    n_blocks=lambda job: job.n_blocks,
    arrays=_arrays,
    cost=lambda job: {"reads": job.pass_bytes, "memory": job.reading_bytes + 1.5 * job.block_bytes},
    on_start=lambda job, *watching: None if job.in_memory else input_integrity.confirm(job, *watching),
    reads="a block of samples",
    leaves="means and variances, and rows that are read here and there later; refuses NaN with its place",
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

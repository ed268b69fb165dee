"""The common strength of every row: how much of it the views share.

Where all rows were searched for neighbours, a row has the mean strength of the neighborhoods that it is in. Where
neighbours were searched in a random subset, most rows are in none; a row then has an average of the landmarks'
strengths, weighted by its kernel rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.fitting import bandwidth, embed, kernel, landmarks, links, metric, sharing
from dlcca.fitting.job import Job
from dlcca.numerics.kernels import extend


def of_landmarks(job: Job) -> NDArray[np.float64]:
    """The strength (m,) at every landmark."""

    def make() -> NDArray[np.float64]:
        found = sharing.common(job, metric.METRIC.of(job))
        assert found is not None
        return found.strength

    return job.cached("strength", metric.METRIC.fingerprint(job), make=make, keep=1)


def is_needed(job: Job) -> bool:
    return job.K > 1 and links.subset_size(job) > 0


def compute(job: Job, stage: Blocks, block: int) -> None:
    S = of_landmarks(job)[:, None]
    every = np.ones(len(S))
    parts = [np.mean([extend(W, every, S)[:, 0] for W in rows], axis=0) for rows in embed.kernel_rows(job, block)]
    stage.write(block, {"rows": (job.bounds(block)[0], np.concatenate(parts))}, {})


def of_rows(job: Job) -> NDArray[np.float64] | None:
    """The strength of every row of the result, NaN where a row was left out; None for one view."""
    if job.K < 2:
        return None
    found = STRENGTH.of(job).read_all("rows") if is_needed(job) else sharing.strength(job, of_landmarks(job))
    if job.moments is None:
        return found
    whole = np.full(job.n_moments, np.nan)
    whole[job.moments.rows] = found
    return whole


def _cost(job: Job) -> dict[str, float]:
    entries = float(job.n) * len(job.kernels) * (kernel.n_kept(job) or landmarks.count(job))
    read = kernel.reading_cost(job, 25.0 * len(job.kernels), tiles=2)
    return {**read, "selections": 2 * entries}


STRENGTH = Stage(
    "strength",
    compute,
    after=[sharing.CHANCE, metric.METRIC, kernel.KERNEL, bandwidth.BANDWIDTH],
    n_blocks=lambda job: job.n_blocks,
    arrays=lambda job: {"rows": ((job.n,), "float64", job.rows)},
    is_needed=is_needed,
    cost=_cost,
    reads="a block of the kernel",
    leaves="how much the views share in each row, where neighbours were searched in a subset",
)

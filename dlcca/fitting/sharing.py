"""What the views share: as a whole, against what they would by chance, and the common strength of every row.

Where all rows were searched for neighbours, a row has the mean strength of the neighborhoods that it is in. Where
neighbours were searched in a random subset, most rows are in none; a row then has an average of the landmarks'
strengths, weighted by its kernel rows.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.fitting import embed, kernel, landmarks, links, metric, neighbors
from dlcca.fitting.job import Job
from dlcca.numerics.kernels import extend
from dlcca.trust.quality import Chance, Common
from dlcca.trust.sharing import chance_of, common_of, strength_of_rows
from dlcca.trust.surrogates import WINDOW_SAMPLES, Recording


class _View:
    """Rows of a view that are read when they are indexed."""

    def __init__(self, job: Job, v: int) -> None:
        self.job, self.v, self.shape = job, v, (job.n, job.dims[v])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray:
        if isinstance(rows, slice):
            return self.job.read(self.v, slice(*rows.indices(len(self))))
        return self.job.read(self.v, np.ravel(rows)).reshape(*np.shape(rows), self.shape[1])


def compute_chance(job: Job, stage: Blocks, block: int) -> None:
    recording = Recording([_View(job, v) for v in range(job.K)], job.settings, job.segments, _given(job))
    stage.write(block, {}, asdict(chance_of(recording, neighbors.width(job))))


def _given(job: Job) -> NDArray[np.int64] | None:
    """Of neighborhoods that the user gave, as many as are tested; None for others."""
    if isinstance(job.options["neighborhoods"], str):
        return None
    m = landmarks.count(job)
    some = np.linspace(0, m - 1, min(m, WINDOW_SAMPLES)).astype(np.int64)
    return np.concatenate([neighbors.neighbors(job, g)[here] for g, here in landmarks.by_group(some)])


def common(job: Job) -> Common | None:
    """What the views share, from the surrogates and the tests at the landmarks; None for one view."""
    return None if job.K < 2 else _common(job)


def _common(job: Job) -> Common:
    return common_of(Chance(**CHANCE.of(job).facts(0)), *metric.tested(job))


def _strength(job: Job) -> NDArray[np.float64]:
    """The strength (m,) at every landmark."""
    return job.cached("strength", metric.METRIC.fingerprint(job), make=lambda: _common(job).strength, keep=1)


def compute_strength(job: Job, stage: Blocks, block: int) -> None:
    S = _strength(job)[:, None]
    every = np.ones(len(S))
    parts = [np.mean([extend(W, every, S)[:, 0] for W in rows], axis=0) for rows in embed.kernel_rows(job, block)]
    stage.write(block, {"rows": (job.bounds(block)[0], np.concatenate(parts))}, {})


def strength_of(job: Job) -> NDArray[np.float64] | None:
    """The strength of every row of the result, NaN where a row was left out; None for one view."""
    if job.K < 2:
        return None
    if STRENGTH.is_needed(job):
        found = STRENGTH.of(job).read_all("rows")
    else:
        neighborhoods = (neighbors.neighbors(job, g) for g in range(landmarks.n_groups(job)))
        found = strength_of_rows(job.n, neighborhoods, landmarks.rows(job), _strength(job))
    if job.moments is None:
        return found
    whole = np.full(job.n_moments, np.nan)
    whole[job.moments.rows] = found
    return whole


def _chance_cost(job: Job) -> dict[str, float]:
    """Shifted views: nearest neighbours of a few samples among some stretches, anew for each shift; or windows."""
    searched, k = links.n_neighbors(job) > 0, neighbors.width(job)
    shifts, samples, stretches = 39.0 if searched else 1.0, 64, min(job.n, 20_000)
    rows, pairs = stretches if searched else 512 * k, shifts * samples * stretches if searched else 0.0
    return {
        "products": 2.0 * pairs * sum(min(d, 24) for d in job.dims),
        "selections": 4.0 * pairs,
        "decompositions": shifts * 64 * sum(20.0 * min(k, d) ** 3 for d in job.dims),
        "reads": min(float(rows), float(job.n)) * job.width * job.itemsize,
        "memory": rows * job.width * 3.0 * 8 + samples * stretches * 4.0 * (job.K + 1),
    }


CHANCE = Stage(
    "chance",
    compute_chance,
    after=[neighbors.NEIGHBORHOODS],
    is_needed=lambda job: job.K > 1,
    cost=_chance_cost,
    reads="samples here and there",
    leaves="what the views would share by chance",
)


def _strength_cost(job: Job) -> dict[str, float]:
    entries = float(job.n) * len(job.kernels) * (kernel.n_kept(job) or landmarks.count(job))
    return {**kernel.reading_cost(job, 25.0 * len(job.kernels), tiles=2), "selections": 2 * entries}


STRENGTH = Stage(
    "strength",
    compute_strength,
    after=[CHANCE, metric.METRIC, kernel.KERNEL, kernel.BANDWIDTH],
    n_blocks=lambda job: job.n_blocks,
    arrays=lambda job: {"rows": ((job.n,), "float64", job.rows)},
    is_needed=lambda job: job.K > 1 and links.subset_size(job) > 0,
    cost=_strength_cost,
    reads="a block of the kernel",
    leaves="how much the views share in each row, where neighbours were searched in a subset",
)

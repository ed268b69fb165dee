"""What the views share, against what they would by chance: surrogates in one task, the landmarks with their metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.fitting import landmarks, links, neighborhood_rows, neighbors
from dlcca.fitting.job import Job
from dlcca.trust.components import Tested, n_directions
from dlcca.trust.quality import Chance, Common
from dlcca.trust.sharing import at_landmarks, chance_of, common_of, strength_of_rows
from dlcca.trust.surrogates import WINDOW_SAMPLES, Recording

#: Arrays that the stage of metrics keeps of its landmarks, for the test.
TESTS, RADIUS, CONDITION = "tests", "radius", "condition"


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


def compute(job: Job, stage: Blocks, block: int) -> None:
    recording = Recording([_View(job, v) for v in range(job.K)], job.settings, job.segments, _given(job))
    stage.write(block, {}, asdict(chance_of(recording, neighborhood_rows.width(job))))


def _given(job: Job) -> NDArray[np.int64] | None:
    """Of neighborhoods that the user gave, as many as are tested; None for others."""
    if isinstance(job.options["neighborhoods"], str):
        return None
    m = landmarks.count(job)
    some = np.linspace(0, m - 1, min(m, WINDOW_SAMPLES)).astype(np.int64)
    return np.concatenate([neighbors.neighbors(job, g)[here] for g, here in landmarks.by_group(some)])


# What the stage of metrics keeps besides them, because it holds the neighborhoods.


def shapes(job: Job) -> dict[str, tuple[int, ...]]:
    """The arrays of all landmarks; none for one view."""
    if job.K < 2:
        return {}
    m, pairs = landmarks.count(job), job.K * (job.K - 1) // 2
    return {TESTS: (m, pairs, 3 * _steps(job) + 2), RADIUS: (m, job.K), CONDITION: (m, job.K)}


def tested(job: Job, views: Sequence[NDArray], rows: NDArray[np.int64], ranks: NDArray) -> dict[str, NDArray]:
    """Their parts at some landmarks, from rows (m, k) of views."""
    if job.K < 2:
        return {}
    test, radius, condition = at_landmarks(views, rows, ranks)
    steps = [np.moveaxis(x, 0, 1) for x in (test.statistic, test.freedom, test.penalty)]
    whole = [x.T[:, :, None] for x in (test.top, test.shared)]
    return {TESTS: np.concatenate([*steps, *whole], axis=2), RADIUS: radius, CONDITION: condition}


def _steps(job: Job) -> int:
    """Steps of the test: directions of the narrower view, of the pair in which they are most."""
    k = neighborhood_rows.width(job)
    directions = [min(n_directions(k), k, d) for d in job.dims]
    return max(min(pair) for pair in combinations(directions, 2))


def common(job: Job, metrics: Blocks) -> Common | None:
    """What the views share, from both stages; None for one view."""
    if job.K < 2:
        return None
    tests, s = np.moveaxis(metrics.read_all(TESTS), 1, 0), _steps(job)
    test = Tested(tests[:, :, :s], tests[:, :, s : 2 * s], tests[:, :, 2 * s : 3 * s], tests[:, :, -2], tests[:, :, -1])
    return common_of(Chance(**CHANCE.of(job).facts(0)), test, metrics.read_all(RADIUS), metrics.read_all(CONDITION))


def strength(job: Job, known: NDArray) -> NDArray[np.float64]:
    """The common strength of every row (n,), from that of the landmarks: the mean over the row's neighborhoods.

    For a row in none it is interpolated between the landmarks before and after it.
    """
    rows = (neighbors.neighbors(job, g) for g in range(landmarks.n_groups(job)))
    return strength_of_rows(job.n, rows, landmarks.rows(job), known)


def _cost(job: Job) -> dict[str, float]:
    """Shifted views: nearest neighbours of a few samples among some stretches, anew for each shift; or windows."""
    searched, k = links.n_neighbors(job) > 0, neighborhood_rows.width(job)
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
    compute,
    after=[neighbors.NEIGHBORHOODS],
    is_needed=lambda job: job.K > 1,
    cost=_cost,
    reads="samples here and there",
    leaves="what the views would share by chance",
)

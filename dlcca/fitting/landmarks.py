"""Which samples are landmarks, and where they lie in every view.

There may be as many landmarks as samples. So their arrays are kept in groups of `GROUP`, and a task reads the groups
that it needs; only their row numbers (8 bytes each) are ever read together.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.errors import SettingsError
from dlcca.fitting import scan
from dlcca.fitting.job import Job, given_landmarks, refuse_few_landmarks, requested_landmarks
from dlcca.numerics import landmarks as landmark_rules
from dlcca.settings.fit import Settings

#: Landmarks of a group: matrix products with so many run at full speed, and their 64 neighbours take 8 MiB.
GROUP = 8192


def count(job: Job) -> int:
    """How many landmarks there are, or will be: those requested, or as many as there are distinct samples."""
    stage, key = LANDMARKS.of(job), LANDMARKS.fingerprint(job)
    if job.find("landmarks", key) is None and not stage.is_finished(0):
        return requested_landmarks(job.options)
    return job.cached("landmarks", key, make=lambda: int(stage.facts(0)["count"]))


def n_groups(job: Job) -> int:
    return -(-count(job) // GROUP)


def group(job: Job, g: int) -> tuple[int, int]:
    """First landmark of a group, and the one after its last."""
    return g * GROUP, min(count(job), (g + 1) * GROUP)


def by_group(some: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """Landmarks in rising order: each group that has some of them, and their places in it."""
    groups = some // GROUP
    return [(int(g), some[groups == g] - g * GROUP) for g in np.unique(groups)]


def compute(job: Job, stage: Blocks, block: int) -> None:
    def joint(rows: NDArray) -> NDArray:
        return np.hstack([(job.read(v, rows) - found.means[v]) / found.spreads[v] for v in range(job.K)])

    found = scan.result(job)
    rows = job.rows_with_full_window(pick_landmarks(job.n, job.settings, np.random.default_rng(job.seed), joint))
    refuse_few_landmarks(len(rows), job.q)
    stage.write(block, {"rows": (0, rows)}, {"count": len(rows)})


def pick_landmarks(
    n: int, settings: Settings, rng: np.random.Generator, joint: Callable[[NDArray], NDArray]
) -> NDArray[np.int64]:
    """Row numbers of the landmarks among n samples; ``joint`` gives the requested rows in the joint space."""
    wanted, rule = settings.landmarks.count, settings.landmarks.rule
    if not isinstance(wanted, int | np.integer):
        return given_landmarks(wanted, n)
    m = int(wanted)
    if m > n:
        raise SettingsError(f"landmarks={m}, but the views have {n} samples; ask for at most {n}, or 'all'.")
    if m == n:
        return np.arange(n)
    if rule == "even":
        return landmark_rules.evenly(n, m)
    if rule == "random":
        return landmark_rules.at_random(n, m, rng)
    candidates = landmark_rules.candidates(n, m, rng)
    points = joint(candidates)
    if rule == "farthest":
        return candidates[landmark_rules.farthest_points(points, m, int(rng.integers(len(points))))]
    return candidates[landmark_rules.kmeans_plus_plus(points, m, rng)]


def fill(job: Job, rows: NDArray[np.int64], points: Sequence[NDArray]) -> None:
    """Leave given landmarks in the store of a job in memory: row numbers, and points (m, d_v) that need not be rows."""
    LANDMARKS.fill(job, {"rows": rows}, {"count": len(rows)})
    POINTS.fill(job, {f"points_{v}": P for v, P in enumerate(points)})


def gather(job: Job, stage: Blocks, g: int) -> None:
    """Where a group lies. Landmarks that follow each other, as with landmarks="all", are read as one stretch."""
    first, last = group(job, g)
    some: Any = rows(job)[first:last]
    if some[-1] - some[0] == last - first - 1 and (np.diff(some) == 1).all():
        some = slice(int(some[0]), int(some[-1]) + 1)
    stage.write(g, {f"points_{v}": (first, job.read(v, some)) for v in range(job.K)}, {})


def points(job: Job, g: int | None = None) -> list[NDArray]:
    """The landmarks (m, d_v) in every view: of a group, or all."""
    stage = POINTS.of(job)
    names = [f"points_{v}" for v in range(job.K)]
    return [stage.read_all(name) if g is None else stage.read(name, g) for name in names]


def rows(job: Job) -> NDArray[np.int64]:
    """The row numbers of the landmarks."""
    return LANDMARKS.of(job).read("rows", 0)


def _landmarks_cost(job: Job) -> dict[str, float]:
    m, is_spread = count(job), job.options["landmark_rule"] in ("kmeans++", "farthest")
    candidates = min(job.n, max(landmark_rules.CANDIDATES, 10 * m)) if is_spread and m < job.n else 0
    return {
        # One landmark at a time: a product of a matrix and a vector runs at the speed of memory, about a tenth.
        "products": 20.0 * candidates * m * job.width,
        "reads": job.touched_bytes(candidates),
        "memory": candidates * job.width * 24.0 + m * 24.0,
    }


def rows_of_group(job: Job) -> int:
    """Landmarks of a group, on average."""
    return -(-count(job) // n_groups(job))


def _points_cost(job: Job) -> dict[str, float]:
    size, chunk = rows_of_group(job), 2 * job.chunk_rows * max(job.dims) * job.itemsize
    return {
        "reads": n_groups(job) * job.touched_bytes(size),
        "memory": 3.0 * size * job.width * job.itemsize + chunk,
    }


LANDMARKS = Stage(
    "landmarks",
    compute,
    after=[scan.MOMENTS],
    options=["landmarks", "landmark_rule", "seed"],
    arrays=lambda job: {"rows": ((m := requested_landmarks(job.options),), "int64", m)},
    cost=_landmarks_cost,
    is_here=lambda job: np.ndim(job.options["landmarks"]) > 0,
    reads="20 000 random samples",
    leaves="row numbers of the landmarks",
)
POINTS = Stage(
    "points",
    gather,
    after=[LANDMARKS],
    constants=[GROUP],
    n_blocks=n_groups,
    arrays=lambda job: {f"points_{v}": ((count(job), d), job.dtype, GROUP) for v, d in enumerate(job.dims)},
    cost=_points_cost,
    reads="a group of 8192 landmarks",
    leaves="their values in every view",
)

"""Which samples are landmarks, and where they lie in every view.

There may be as many landmarks as samples. So whatever is known of them is kept in groups of `GROUP`, and a task reads
the groups that it needs; only their row numbers (8 bytes each) are ever read together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.fitting import scan
from dlcca.fitting.in_memory import pick_landmarks
from dlcca.fitting.job import Job, refuse_few_landmarks

#: Landmarks of a group: matrix products with so many run at full speed, and their 64 neighbours take 8 MiB.
GROUP = 8192

#: Of the stages that have been seen finished: it is asked for in every task.
_FOUND: dict[Blocks, int] = {}


def count(job: Job) -> int:
    """How many landmarks there are, or will be: those asked for, or as many as there are distinct samples."""
    stage = LANDMARKS.of(job)
    if stage not in _FOUND:
        if stage.missing():
            return _asked(job)
        _FOUND[stage] = int(stage.facts(0)["count"])
    return _FOUND[stage]


def forget() -> None:
    """Have the number of landmarks be read anew."""
    _FOUND.clear()


def _asked(job: Job) -> int:
    choice = job.options["landmarks"]
    return int(choice) if np.ndim(choice) == 0 else len(choice)


def n_groups(job: Job) -> int:
    return -(-count(job) // GROUP)


def group(job: Job, g: int) -> tuple[int, int]:
    """First landmark of a group, and the one after its last."""
    return g * GROUP, min(count(job), (g + 1) * GROUP)


def compute(job: Job, stage: Blocks, block: int) -> None:
    found = scan.result(job)

    def joint(rows: NDArray) -> NDArray:
        parts = [(job.read(v, rows) - found.means[v]) / found.spreads[v] for v in range(job.K)]
        return np.hstack(parts)

    rows = job.roomy(pick_landmarks(job.n, job.settings, np.random.default_rng(job.seed), joint))
    refuse_few_landmarks(len(rows), int(job.options["n_components"]))
    stage.write(block, {"rows": (0, rows)}, {"count": len(rows)})


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
    if g is None:
        return [stage.read_all(f"points_{v}") for v in range(job.K)]
    return [stage.read(f"points_{v}", g) for v in range(job.K)]


def rows(job: Job) -> NDArray[np.int64]:
    """The row numbers of the landmarks."""
    return LANDMARKS.of(job).read("rows", 0)


def _says(job: Job) -> str:
    return f"{_asked(job)} landmarks, {job.options['landmark_rule']}, seed {job.seed}"


def _rows_array(job: Job) -> Arrays:
    return {"rows": ((_asked(job),), "int64", _asked(job))}


def _point_arrays(job: Job) -> Arrays:
    return {f"points_{v}": ((count(job), d), job.dtype, GROUP) for v, d in enumerate(job.dims)}


def _landmarks_cost(sizes: Sizes) -> StagePlan:
    # One landmark at a time: a product of a matrix and a vector runs at the speed of memory, about a tenth.
    return StagePlan(
        "landmarks",
        1,
        products=20.0 * sizes.candidates * sizes.m * sizes.width,
        reads=sizes.touched_bytes(sizes.candidates),
        writes=sizes.m * 8.0,
        memory=sizes.candidates * sizes.width * 24.0 + sizes.m * 24.0,
    )


def _points_cost(sizes: Sizes) -> StagePlan:
    group = -(-sizes.m // sizes.landmark_groups)
    return StagePlan(
        "points",
        sizes.landmark_groups,
        reads=sizes.landmark_groups * sizes.touched_bytes(group),
        writes=float(sizes.m) * sizes.width * sizes.itemsize,
        memory=3.0 * group * sizes.width * sizes.itemsize + 2 * sizes.chunk_rows * max(sizes.dims) * sizes.itemsize,
    )


LANDMARKS = Stage(
    "landmarks",
    compute,
    after=[scan.MOMENTS],
    options=["landmarks", "landmark_rule", "seed"],
    arrays=_rows_array,
    says=_says,
    cost=_landmarks_cost,
    reads="20 000 random samples",
    leaves="row numbers of the landmarks",
)
POINTS = Stage(
    "points",
    gather,
    after=[LANDMARKS],
    constants=[GROUP],
    n_blocks=n_groups,
    arrays=_point_arrays,
    says=_says,
    cost=_points_cost,
    reads="a group of 8192 landmarks",
    leaves="their values in every view",
)

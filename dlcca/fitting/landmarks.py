"""Which samples are landmarks, and where they lie in every view.

There may be as many landmarks as samples. So whatever is known of them is kept in groups of `GROUP`, and a task reads
the groups that it needs; only their row numbers (8 bytes each) are ever read together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import scan
from dlcca.fitting.in_memory import pick_landmarks
from dlcca.fitting.job import Job, refuse_few_landmarks
from dlcca.storage.blocks import Stage

#: Landmarks of a group: matrix products with so many run at full speed, and their 64 neighbours take 8 MiB.
GROUP = 8192

#: Of the stages that have been seen finished: it is asked for in every task.
_FOUND: dict[Stage, int] = {}


def count(job: Job) -> int:
    """How many landmarks there are, or will be: those asked for, or as many as there are distinct samples."""
    stage = stage_of(job)
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


def depends(job: Job) -> list[Any]:
    """What the landmarks, and so all later stages, depend on."""
    return [job.options["landmarks"], job.options["landmark_rule"], job.seed]


def stage_of(job: Job) -> Stage:
    return job.stage("landmarks", depends(job), 1)


def points_stage(job: Job) -> Stage:
    return job.stage("points", [*depends(job), GROUP], n_groups(job))


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Choose the landmarks, and keep their rows of every view."""
    m = _asked(job)
    says = f"{m} landmarks, {job.options['landmark_rule']}, seed {job.seed}"
    stage = stage_of(job).prepare({"rows": ((m,), "int64", m)}, says=says)
    do_missing(compute, job, stage, client, tell)
    m = count(job)
    refuse_few_landmarks(m, int(job.options["n_components"]))
    arrays: dict[str, Any] = {f"points_{v}": ((m, d), job.dtype, GROUP) for v, d in enumerate(job.dims)}
    do_missing(gather, job, points_stage(job).prepare(arrays, says=says), client, tell)


def compute(job: Job, stage: Stage, block: int) -> None:
    found = scan.result(job)

    def joint(rows: NDArray) -> NDArray:
        parts = [(job.read(v, rows) - found.means[v]) / found.spreads[v] for v in range(job.K)]
        return np.hstack(parts)

    rows = job.roomy(pick_landmarks(job.n, job.settings, np.random.default_rng(job.seed), joint))
    stage.write(block, {"rows": (0, rows)}, {"count": len(rows)})


def gather(job: Job, stage: Stage, g: int) -> None:
    """Where a group lies. Landmarks that follow each other, as with landmarks="all", are read as one stretch."""
    first, last = group(job, g)
    some: Any = rows(job)[first:last]
    if some[-1] - some[0] == last - first - 1 and (np.diff(some) == 1).all():
        some = slice(int(some[0]), int(some[-1]) + 1)
    stage.write(g, {f"points_{v}": (first, job.read(v, some)) for v in range(job.K)}, {})


def points(job: Job, g: int | None = None) -> list[NDArray]:
    """The landmarks (m, d_v) in every view: of a group, or all."""
    stage = points_stage(job)
    if g is None:
        return [stage.read_all(f"points_{v}") for v in range(job.K)]
    return [stage.read(f"points_{v}", g) for v in range(job.K)]


def rows(job: Job) -> NDArray[np.int64]:
    """The row numbers of the landmarks."""
    return stage_of(job).read("rows", 0)

"""Which samples are landmarks: a short stage, in one block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.fitting import pick_landmarks
from dlcca.stages import scan
from dlcca.stages.job import Job, refuse_few_landmarks
from dlcca.stages.work import Tell, do_missing
from dlcca.stores.blocks import Stage

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


def _asked(job: Job) -> int:
    choice = job.options["landmarks"]
    return int(choice) if np.ndim(choice) == 0 else len(choice)


def depends(job: Job) -> list[Any]:
    """What the landmarks, and so all later stages, depend on."""
    return [job.options["landmarks"], job.options["landmark_rule"], job.seed]


def stage_of(job: Job) -> Stage:
    return job.stage("landmarks", depends(job), 1)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Choose the landmarks, and keep their rows of every view."""
    m = _asked(job)
    arrays: dict[str, Any] = {"rows": ((m,), "int64", m)}
    arrays |= {f"points_{v}": ((m, d), job.dtype, m) for v, d in enumerate(job.dims)}
    stage = stage_of(job).prepare(arrays, says=f"{m} landmarks, {job.options['landmark_rule']}, seed {job.seed}")
    do_missing(compute, job, stage, client, tell)
    refuse_few_landmarks(count(job), int(job.options["n_components"]))


def compute(job: Job, stage: Stage, block: int) -> None:
    found = scan.result(job)

    def joint(rows: NDArray) -> NDArray:
        parts = [(job.read(v, rows) - found.means[v]) / found.spreads[v] for v in range(job.K)]
        return np.hstack(parts)

    rows = pick_landmarks(job.n, job.settings, np.random.default_rng(job.seed), joint)
    points = {f"points_{v}": (0, job.read(v, rows)) for v in range(job.K)}
    stage.write(block, {"rows": (0, rows), **points}, {"count": len(rows)})


def points(job: Job) -> list[NDArray]:
    """The landmarks (m, d_v) in every view."""
    stage = stage_of(job)
    return [stage.read(f"points_{v}", 0) for v in range(job.K)]


def rows(job: Job) -> NDArray[np.int64]:
    """The row numbers of the landmarks."""
    return stage_of(job).read("rows", 0)

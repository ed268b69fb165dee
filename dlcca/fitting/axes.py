"""The axes along which each view's links are nearest, from the landmarks; read by every task that seeks links."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.axes import LEAST_SPREAD, MOST_CHANNELS, Axes, evened
from dlcca.storage.blocks import Stage


def is_needed(job: Job) -> bool:
    """Whether links are by distance, and not by the metric or to all landmarks."""
    by_distance = job.options["fusion"] == "alternating" and job.options["kernel"] == "sparse"
    return bool(by_distance and int(job.options["n_links"]) < landmarks.count(job))


def depends(job: Job) -> list[Any]:
    """What links depend on beside the landmarks; earlier versions had none of it."""
    return ["evened", LEAST_SPREAD, MOST_CHANNELS] if is_needed(job) else []


def stage_of(job: Job) -> Stage:
    return job.stage("axes", [*landmarks.depends(job), *depends(job)], 1)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Find the axes, if nobody has yet."""
    if not is_needed(job):
        return
    arrays: dict[str, Any] = {}
    for v, d in _narrow(job):
        arrays |= {f"centre_{v}": ((d,), "float64", d), f"turn_{v}": ((d, d), "float64", d)}
    says = f"axes of {landmarks.count(job)} landmarks"
    do_missing(compute, job, stage_of(job).prepare(arrays, says=says), client, tell)


def _narrow(job: Job) -> list[tuple[int, int]]:
    """The views that have axes, with their channels."""
    return [(v, d) for v, d in enumerate(job.dims) if d <= MOST_CHANNELS]


def compute(job: Job, stage: Stage, block: int) -> None:
    parts: dict[str, Any] = {}
    changing = []
    for v, _d in _narrow(job):
        found = evened(landmarks.points(job, g)[v] for g in range(landmarks.n_groups(job)))
        if found is not None:
            changing.append(v)
            parts |= {f"centre_{v}": (0, found.centre), f"turn_{v}": (0, found.turn)}
    stage.write(block, parts, {"views": changing})


def of(job: Job) -> list[Axes | None]:
    """The axes of every view; None for one that is searched as it is."""
    return _read(stage_of(job), job.K) if is_needed(job) else [None] * job.K


@lru_cache(maxsize=2)
def _read(stage: Stage, K: int) -> list[Axes | None]:
    """Read once in a process; the fingerprint of the stage tells the axes of different landmarks apart."""
    known = stage.facts(0)["views"]
    return [Axes(stage.read(f"centre_{v}", 0), stage.read(f"turn_{v}", 0)) if v in known else None for v in range(K)]


def forget() -> None:
    """Have the axes be read anew."""
    _read.cache_clear()

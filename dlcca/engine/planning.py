"""What a run will take, by arithmetic, before anything runs: tasks, bytes, operations, memory and time.

Each stage is counted: operations, bytes, tasks, and what a task holds. Counts become seconds by guessed speeds of one
worker; a `StageRate`, measured on few rows, corrects the guess for one stage on one machine:

    seconds of a task    = task_factor * what any task of the stage costs + factor * what its rows cost
    memory of a worker   = rest_bytes + extra_bytes + counted bytes of its task
    wall time of a stage = client_s + tasks * client_task_s + opening_s + rounds * seconds of a task

with ``rounds`` the number of tasks that the busiest worker does, one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dlcca.engine.scheduler import WAVE
from dlcca.errors import SettingsError

#: Guessed speeds of one worker thread, by what is counted: good for orders of magnitude only.
SPEEDS = {"products": 40e9, "selections": 3.5e8, "additions": 3e8, "decompositions": 8e9}
BYTES_PER_S, TASK_S = 4e8, 0.02
#: Reading the record of a block takes as long as looking at so many distances.
FILE_SELECTIONS = 1e4


@dataclass(frozen=True)
class StagePlan:
    """One stage: what it does in all, and what a task of it holds."""

    name: str
    tasks: int
    products: float = 0  # multiplications and additions in matrix products
    selections: float = 0  # distances looked at one by one
    additions: float = 0  # entries added into a sparse sum
    decompositions: float = 0  # operations in SVDs and eigenproblems
    reads: float = 0  # bytes
    writes: float = 0  # bytes
    fixed: float = 0  # of the bytes read and written, those of each task that do not depend on its rows
    memory: float = 0  # bytes held by a task

    @property
    def task_s(self) -> float:
        """Guessed seconds of a task, whatever its rows."""
        return TASK_S + self.fixed / BYTES_PER_S

    @property
    def work_s(self) -> float:
        """Guessed seconds of all its rows on one worker."""
        counted = sum(getattr(self, name) / speed for name, speed in SPEEDS.items())
        return counted + max(0.0, self.reads + self.writes - self.tasks * self.fixed) / BYTES_PER_S


def repeated(stage: StagePlan, times: float) -> StagePlan:
    """The stage done so many times; what a task holds stays the same."""
    totals = {name: times * getattr(stage, name) for name in (*SPEEDS, "reads", "writes")}
    return replace(stage, tasks=max(1, round(times * stage.tasks)), **totals)


#: Memory of a process before it does anything: Python, NumPy, SciPy, numba, Zarr and Dask.
BASE_BYTES = 260 << 20


@dataclass(frozen=True)
class StageRate:
    """What corrects the guesses for one stage; see the first lines of `dlcca.engine.planning`."""

    task_factor: float = 1.0
    factor: float = 1.0
    opening_s: float = 0.0  # that the first task of each worker takes longer
    client_s: float = 0.0
    client_task_s: float = 0.0
    rest_bytes: float = BASE_BYTES
    extra_bytes: float = 0.0
    repeats: float = 1.0  # measured tasks for each counted one, where their number depends on the data


@dataclass(frozen=True)
class Rates:
    """The rates of all stages, and of what comes before them; the defaults are guesses."""

    stages: Mapping[str, StageRate] = field(default_factory=dict)
    start_s: float = 3.0  # until workers are there, and have imported and compiled what they need
    client_bytes: float = BASE_BYTES  # this process and its helpers, workers left out

    def of(self, stage: str) -> StageRate:
        """The rate of a stage; of one that was not measured, that of the plain pass over all blocks (`scan`)."""
        if stage in self.stages or "scan" not in self.stages:
            return self.stages.get(stage, StageRate())
        rest = max(rate.rest_bytes for rate in self.stages.values())
        return replace(self.stages["scan"], rest_bytes=rest, extra_bytes=0.0)


def _total(count: str) -> Any:
    """The property of a plan that adds a count of all its stages."""
    return property(lambda plan: sum(getattr(stage, count) for stage in plan.stages))


@dataclass(frozen=True)
class Plan:
    """All stages of a run on a number of workers."""

    tasks, products, reads, writes = map(_total, ("tasks", "products", "reads", "writes"))

    job: Any
    stages: list[StagePlan]
    workers: int
    rates: Rates = field(default_factory=Rates)

    def seconds_of(self, stage: StagePlan) -> float:
        """Wall time of a stage: its tasks share the workers."""
        rate = self.rates.of(stage.name)
        task = rate.task_factor * stage.task_s + rate.factor * stage.work_s / stage.tasks
        rounds = -(-stage.tasks // self.workers)
        return rate.client_s + stage.tasks * rate.client_task_s + rate.opening_s + rounds * task

    def memory_of(self, stage: StagePlan) -> float:
        """Memory of a worker that does a task of the stage."""
        rate = self.rates.of(stage.name)
        return rate.rest_bytes + max(0.0, rate.extra_bytes + stage.memory)

    @property
    def seconds(self) -> float:
        """Stages follow each other."""
        return self.rates.start_s + sum(self.seconds_of(stage) for stage in self.stages)

    @property
    def memory_per_worker(self) -> float:
        return max(self.memory_of(stage) for stage in self.stages)

    @property
    def memory_in_all(self) -> float:
        """Of all processes together: this one with the scheduler, and the workers, busy or at rest."""
        together = 0.0
        for stage in self.stages:
            busy, rest = min(self.workers, stage.tasks), self.rates.of(stage.name).rest_bytes
            together = max(together, busy * self.memory_of(stage) + (self.workers - busy) * rest)
        return self.rates.client_bytes + 16.0 * self.job.n + together

    @property
    def tasks_per_block(self) -> float:
        """Tasks for each block of the recording, all stages together."""
        return self.tasks / self.job.n_blocks

    @property
    def largest_wave(self) -> int:
        """Tasks that the scheduler holds at a time, at most."""
        return min(WAVE, max(stage.tasks for stage in self.stages))


def refuse_too_large(made: Plan, memory_bytes: float) -> None:
    """An error, before anything runs, if a task will not fit a worker; it names the setting to change."""
    worst, needed = max(made.stages, key=made.memory_of), made.memory_per_worker
    if needed > memory_bytes:
        fewer, smaller = "[landmarks] count (fewer)", "smaller chunks of the views"
        advice = {**dict.fromkeys(("gram", "spectrum", "landmarks", "metric"), fewer), "near": f"{fewer} or {smaller}"}
        raise SettingsError(
            f"stage {worst.name!r} needs {needed / 2**30:.2f} GiB in each worker and a worker has "
            f"{memory_bytes / 2**30:.2f}. Change {advice.get(worst.name, smaller)}, or raise [cluster] memory_gib."
        )

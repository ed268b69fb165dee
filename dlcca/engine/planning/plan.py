"""The plan of a whole run: its stages on a number of workers, in tasks, bytes, memory and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlcca.engine.planning.corrections import Rates
from dlcca.engine.planning.sizes import Sizes
from dlcca.engine.planning.stage import StagePlan, repeated
from dlcca.engine.scheduler import WAVE


@dataclass(frozen=True)
class Plan:
    """All stages of a run on a number of workers."""

    sizes: Sizes
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
        together = []
        for stage in self.stages:
            busy = min(self.workers, stage.tasks)
            together.append(busy * self.memory_of(stage) + (self.workers - busy) * self.rates.of(stage.name).rest_bytes)
        return self.rates.client_bytes + 16.0 * self.sizes.n + max(together)

    @property
    def reads(self) -> float:
        return sum(stage.reads for stage in self.stages)

    @property
    def writes(self) -> float:
        return sum(stage.writes for stage in self.stages)

    @property
    def products(self) -> float:
        return sum(stage.products for stage in self.stages)

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.stages)

    @property
    def tasks_per_block(self) -> float:
        """Tasks for each block of the recording, all stages together."""
        return self.tasks / self.sizes.n_blocks

    @property
    def largest_wave(self) -> int:
        """Tasks that the scheduler holds at a time, at most."""
        return min(WAVE, max(stage.tasks for stage in self.stages))


def plan(sizes: Sizes, stages: Sequence[StagePlan], workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a run of these sizes from what its stages cost; nothing is read or computed."""
    rates = rates or Rates()
    counted = [repeated(stage, rates.of(stage.name).repeats) for stage in stages]
    return Plan(sizes, [*counted, *_only_measured(sizes, rates, {stage.name for stage in counted})], workers, rates)


def _only_measured(sizes: Sizes, rates: Rates, counted: set[str]) -> list[StagePlan]:
    """Stages that were met in a measurement and are not counted here: taken as they were, or as a pass over blocks."""
    return [
        StagePlan(name, sizes.n_blocks, reads=sizes.pass_bytes, memory=sizes.reading_bytes)
        if rate.per_block
        else StagePlan(name, rate.tasks)
        for name, rate in rates.stages.items()
        if name not in counted and rate.tasks
    ]

"""What a run will take, by arithmetic, before anything runs: tasks, bytes, operations, memory and time.

Each stage is counted: operations, bytes, tasks, and what a task holds. Counts become seconds by guessed speeds of one
worker; a `StageRate`, measured on few rows, corrects the guess for one stage on one machine:

    seconds of a task    = task_factor * what any task of the stage costs + factor * what its rows cost
    memory of a worker   = rest_bytes + extra_bytes + counted bytes of its task
    wall time of a stage = client_s + tasks * client_task_s + opening_s + rounds * seconds of a task

with ``rounds`` the number of tasks that the busiest worker does, one after another.

Of views that are still to be made of recordings, the headers of the files give the sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from dlcca.engine.row_blocks import rows_of_block
from dlcca.engine.scheduler import WAVE
from dlcca.engine.stage import StagePlan, repeated
from dlcca.errors import SettingsError
from dlcca.fitting import pipeline
from dlcca.fitting.job import Job, Source, refuse_early
from dlcca.recordings import ingest
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.timeline import Opener
from dlcca.settings.auto import Choices, choose
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.cost import format_bytes

#: Memory of a process before it does anything: Python, NumPy, SciPy, numba, Zarr and Dask.
BASE_BYTES = 260 << 20


@dataclass(frozen=True)
class StageRate:
    """What corrects the guesses for one stage; see the first lines of this module."""

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


def plan(job: Job, workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a job; the headers of the views are read, and nothing is computed."""
    rates = rates or Rates()
    stages = [repeated(stage, rates.of(stage.name).repeats) for stage in pipeline.costs(job)]
    return Plan(job, stages, workers, rates)


def at_scale(job: Job, n: int, workers: int, rates: Rates | None = None, *, asked: Settings | None = None) -> Plan:
    """The plan of the same job with another number of samples.

    ``asked`` are the settings of the user; with them, what is "auto" is chosen anew for n samples,
    except the fusion and the window: these were chosen by the rows that are there.
    """
    if n == job.n:
        return plan(job, workers, rates)
    by_rows = {name: job.options[name] for name in ("fusion", "window")}
    settings = job.settings if asked is None else choose(asked.with_options(**by_rows), n, job.K, job.dims).settings
    rows = rows_of_block(n, job.dims, job.itemsize, job.chunk_rows)
    return plan(replace(job, n=n, rows=rows, settings=settings, clock=""), workers, rates)


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


@dataclass(frozen=True)
class PlannedSource(Source):
    """A view that is not there yet."""

    shape: tuple[int, int] = (0, 0)
    chunks: tuple[int, int] = (0, 0)

    def open(self) -> Any:
        """What is known of the array."""
        return SimpleNamespace(shape=self.shape, chunks=self.chunks, ndim=2, dtype=np.dtype("float32"))


@dataclass(frozen=True)
class IngestPlan:
    """What ingestion will take."""

    windows: int
    tasks: int
    reads: float  # bytes of samples, in single precision
    writes: float  # bytes
    memory: float  # bytes of a task

    def sentence(self) -> str:
        read, written, held = map(format_bytes, (self.reads, self.writes, self.memory))
        return (
            f"First the recordings are ingested: {self.windows} windows, {self.tasks} tasks, {read} of samples read, "
            f"{written} written, {held} in each worker at work."
        )


def job_to_ingest(
    store: str,
    place: str,
    recipes: Mapping[str, ViewRecipe],
    settings: Settings,
    seed: int,
    opener: Opener | None = None,
) -> tuple[Job, Choices, IngestPlan]:
    """The job as it would be if every window were valid, and what comes before it; headers are read, and no more.

    ``store`` is that of the run, ``place`` that of its views.
    """
    made, _ = ingest.prepared(place, recipes, opener)
    dims = tuple(view.width for view in made.views)
    sources = tuple(
        PlannedSource(view.name, f"{place}/views/{view.name}", shape=(made.n, d), chunks=(made.rows, d))
        for view, d in zip(made.views, dims, strict=True)
    )
    choices = choose(settings, made.n, len(sources), dims)
    refuse_early(choices.settings.options(), made.n)
    rows = rows_of_block(made.n, dims, 4, min(made.rows, made.n))
    job = Job(store, sources, choices.settings, seed, made.n, dims, "float32", rows, made.inputs)
    return job, choices, _ingest_plan(made, dims)


def _ingest_plan(job: IngestJob, dims: tuple[int, ...]) -> IngestPlan:
    samples = sum(piece.n * len(track.channels) for track in job.tracks for piece in track.pieces)
    windows = sum(track.samples * len(track.channels) for track in job.tracks)
    drafts = sum(view.features for view in job.scaled_later)  # written, and read again
    # Views that are not scaled when they are read, and their drafts, have 4 bytes for each feature.
    writes = float(job.n) * (sum(view.width * view.stored_as.itemsize for view in job.views) + 4 * drafts)
    block = 4.0 * job.rows * max(samples / job.n, float(sum(dims)), windows / 4)
    return IngestPlan(job.n, job.n_blocks * (2 if drafts else 1) + 1, 4.0 * samples, writes, 3 * block)

"""What a run will take, by arithmetic, before anything runs: tasks, bytes, operations, memory and time.

Each stage is counted: operations, bytes, tasks, and what a task holds. Counts become seconds by guessed speeds of one
worker; a `StageRate`, measured on few rows, corrects the guess for one stage on one machine:

    seconds of a task    = task_factor * what any task of the stage costs + factor * what its rows cost
    memory of a worker   = rest_bytes + extra_bytes + counted bytes of its task
    wall time of a stage = client_s + tasks * client_task_s + opening_s + rounds * seconds of a task

with ``rounds`` the number of tasks that the busiest worker does, one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlcca.engine.row_blocks import count_of_blocks, rows_decoded
from dlcca.engine.scheduler import WAVE
from dlcca.errors import SettingsError

#: Guessed speeds of one worker thread: good for orders of magnitude only.
PRODUCTS_PER_S, SELECTIONS_PER_S, ADDITIONS_PER_S, BYTES_PER_S = 40e9, 3.5e8, 3e8, 4e8
DECOMPOSITIONS_PER_S = 8e9
TASK_S = 0.02
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
        return (
            self.products / PRODUCTS_PER_S
            + self.selections / SELECTIONS_PER_S
            + self.additions / ADDITIONS_PER_S
            + self.decompositions / DECOMPOSITIONS_PER_S
            + max(0.0, self.reads + self.writes - self.tasks * self.fixed) / BYTES_PER_S
        )


def repeated(stage: StagePlan, times: float) -> StagePlan:
    """The stage done so many times; what a task holds stays the same."""
    if times == 1:
        return stage
    totals = ("products", "selections", "additions", "decompositions", "reads", "writes")
    tasks = max(1, round(times * stage.tasks))
    return replace(stage, tasks=tasks, **{name: times * getattr(stage, name) for name in totals})


@dataclass(frozen=True)
class Sizes:
    """All that a plan follows from."""

    n: int  # samples
    rows: int  # of a block
    chunk_rows: int  # of a chunk of the views in storage
    dims: tuple[int, ...]  # channels of the views
    itemsize: int
    m: int  # landmarks
    k: int  # samples in a neighborhood
    r: int  # directions of a metric
    q: int  # coordinates
    candidates: int  # rows among which spread-out landmarks are sought; 0 if they are not
    sought: int  # neighbours that are searched for each landmark; 0 if they are a window of time
    subset: int  # random rows among which they are searched; 0 for all rows
    sought_by: str  # "products" of all pairs, or an index of another name
    links: int  # landmarks near each sample that are searched in each view; 0 if the metric decides
    links_by: str
    landmark_groups: int  # that are searched, read and written one at a time
    shard_tasks: int  # in which indexes are made and queried; 0 by products
    merged_tasks: int  # in which parts of the neighbours are put together before the last step; 0 if they are few
    kept: int  # entries of a row of the kernel that are kept; 0 if rows are dense, and made again where needed
    per_view: bool  # a kernel for each view, or one in all
    has_readout: bool  # whether coordinates are fitted to the eigenfunctions or Gram matrices of the landmarks
    used_views: tuple[int, ...]  # the views whose distances count
    metric_landmarks: int  # of a task of the stage "metric"
    solver: str  # "gram" or "lanczos"
    gram_groups: int  # groups of blocks that are added up
    gram_pairs: int  # m x m matrices that are added up
    bandwidth_passes: int  # over all blocks
    unit_passes: int  # likewise, for the unit of each view
    reach_rows: int  # from which the coverage radius is measured

    @property
    def n_blocks(self) -> int:
        return count_of_blocks(self.n, self.rows)

    @property
    def width(self) -> int:
        return sum(self.dims)

    @property
    def kernels(self) -> int:
        return len(self.dims) if self.per_view else 1

    @property
    def pass_bytes(self) -> float:
        """Bytes that storage unpacks when every block of the views is read once."""
        return float(rows_decoded(self.n, self.rows, self.chunk_rows)) * self.width * self.itemsize

    @property
    def block_bytes(self) -> float:
        return float(min(self.rows, self.n)) * self.width * self.itemsize

    def touched_bytes(self, some: int) -> float:
        """Bytes that storage unpacks to give some rows here and there: a chunk for each, or all of them."""
        chunks = min(some, -(-self.n // self.chunk_rows))
        return float(chunks) * min(self.chunk_rows, self.n) * self.width * self.itemsize

    @property
    def reading_bytes(self) -> float:
        """What a task holds that reads a block of the views: the block, and a chunk on its way to it, packed or not."""
        return self.block_bytes + 2.0 * min(self.chunk_rows, self.n) * max(self.dims) * self.itemsize

    @property
    def model_bytes(self) -> float:
        """The landmarks and their metrics."""
        return float(self.m) * self.width * (self.r + 1) * self.itemsize

    @property
    def dense_tile(self) -> float:
        """A tile of dense distances, with what it takes to make it."""
        return 4.0 * min((4 << 20), self.rows * self.m) * self.itemsize

    @property
    def used_width(self) -> int:
        return sum(self.dims[v] for v in self.used_views)

    @property
    def dense_products(self) -> float:
        """Operations of the distances of all samples to all landmarks."""
        return 2.0 * self.n * self.m * self.r * self.used_width


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
    repeats: float = 1.0  # how often as many tasks were met as are counted, where their number depends on the data
    tasks: int = 0  # when it was measured
    per_block: bool = False  # whether there were as many tasks as blocks


@dataclass(frozen=True)
class Rates:
    """The rates of all stages, and of what comes before them; as they stand, guesses."""

    stages: Mapping[str, StageRate] = field(default_factory=dict)
    start_s: float = 3.0  # until workers are there, and have imported and compiled what they need
    client_bytes: float = BASE_BYTES  # this process and its helpers, workers left out

    def of(self, stage: str) -> StageRate:
        """The rate of a stage; of one that was not met, that of the plain pass over all blocks, which reads as much."""
        if stage in self.stages or "scan" not in self.stages:
            return self.stages.get(stage, StageRate())
        rest = max(rate.rest_bytes for rate in self.stages.values())
        return replace(self.stages["scan"], rest_bytes=rest, extra_bytes=0.0)


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


def refuse_too_large(made: Plan, memory_bytes: float) -> None:
    """An error, before anything runs, if a task will not fit a worker; it names the setting to change."""
    worst = max(made.stages, key=made.memory_of)
    if made.memory_per_worker > memory_bytes:
        fewer = "[landmarks] count (fewer)"
        advice = {"gram": fewer, "spectrum": fewer, "landmarks": fewer, "metric": fewer}
        advice["near"] = f"{fewer} or smaller chunks of the views"
        raise SettingsError(
            f"stage {worst.name!r} needs {made.memory_per_worker / 2**30:.2f} GiB in each worker and a worker has "
            f"{memory_bytes / 2**30:.2f}. Change {advice.get(worst.name, 'smaller chunks of the views')}, or raise "
            "[cluster] memory_gib."
        )

"""What a run will take, by arithmetic, before anything runs: tasks, bytes, operations, memory and time.

Each stage is counted: operations, bytes, tasks, and what a task holds. Counts become seconds by guessed speeds of one
worker; a `StageRate`, measured on few rows, corrects the guess for one stage on one machine:

    seconds of a task    = task_factor * what any task of the stage costs + factor * what its rows cost
    memory of a worker   = rest_bytes + extra_bytes + counted bytes of its task
    wall time of a stage = client_s + tasks * client_task_s + rounds * seconds of a task

with ``rounds`` the number of tasks that the busiest worker does, one after another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dlcca.chunked.blocks import count_of_blocks, rows_decoded
from dlcca.chunked.waves import WAVE
from dlcca.errors import SettingsError

#: Memory of a process before it does anything: Python, NumPy, SciPy, numba, Zarr and Dask.
BASE_BYTES = 260 << 20
#: Guessed speeds of one worker thread: good for orders of magnitude only.
PRODUCTS_PER_S, SELECTIONS_PER_S, ADDITIONS_PER_S, BYTES_PER_S = 40e9, 3.5e8, 3e8, 4e8
DECOMPOSITIONS_PER_S = 8e9
TASK_S = 0.02
#: Reading the record of a block takes as long as looking at so many distances.
FILE_SELECTIONS = 1e4
#: Distances to landmarks that are made at a time.
TILE_ENTRIES = 1 << 20
#: Distances that an index looks at for each neighbour that it finds, and samples of which it is made.
INDEX_STEPS, SHARD_ROWS = 64.0, 1 << 17
#: Steps of Lanczos, and the bytes of sparse rows that a worker keeps from one to the next.
LANCZOS_STEPS, KEPT_BYTES = 20, 256 << 20


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
    sought_by: str  # "products" of all pairs, or an index of another name
    links: int  # landmarks near each sample that are searched in each view; 0 if the metric decides
    links_by: str
    landmark_groups: int  # that are searched, read and written one at a time
    shard_tasks: int  # in which indexes are made and asked; 0 by products
    merged_tasks: int  # in which parts of the neighbours are put together before the last step; 0 if they are few
    kept: int  # entries of a row of the kernel that are kept; 0 if rows are dense, and made again where needed
    alternating: bool  # a kernel for each view, or one in all
    used_views: tuple[int, ...]  # the views whose distances count
    metric_landmarks: int  # of a task of the stage "metric"
    solver: str  # "gram" or "lanczos"
    gram_groups: int  # groups of blocks that are added up
    gram_pairs: int  # m x m matrices that are added up
    bandwidth_passes: int  # over all blocks
    unit_passes: int  # likewise, for the unit of each view

    @property
    def n_blocks(self) -> int:
        return count_of_blocks(self.n, self.rows)

    @property
    def width(self) -> int:
        return sum(self.dims)

    @property
    def kernels(self) -> int:
        return len(self.dims) if self.alternating else 1

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


@dataclass(frozen=True)
class StageRate:
    """What corrects the guesses for one stage; see the module's first lines."""

    task_factor: float = 1.0
    factor: float = 1.0
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
        return rate.client_s + stage.tasks * rate.client_task_s + rounds * task

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


def plan(sizes: Sizes, workers: int, rates: Rates | None = None) -> Plan:
    """The plan of a run of these sizes; nothing is read or computed."""
    rates = rates or Rates()
    counted = [repeated(stage, rates.of(stage.name).repeats) for stage in counted_stages(sizes)]
    return Plan(sizes, [*counted, *_only_measured(sizes, rates, {stage.name for stage in counted})], workers, rates)


def repeated(stage: StagePlan, times: float) -> StagePlan:
    """The stage done so many times; what a task holds stays the same."""
    if times == 1:
        return stage
    totals = ("products", "selections", "additions", "decompositions", "reads", "writes")
    tasks = max(1, round(times * stage.tasks))
    return replace(stage, tasks=tasks, **{name: times * getattr(stage, name) for name in totals})


def counted_stages(sizes: Sizes) -> list[StagePlan]:
    """The stages that will run, by arithmetic alone."""
    stages = [
        StagePlan("scan", sizes.n_blocks, reads=sizes.pass_bytes, memory=sizes.reading_bytes + 1.5 * sizes.block_bytes),
        StagePlan(
            "moments", 1, selections=FILE_SELECTIONS * sizes.n_blocks, memory=sizes.n_blocks * sizes.width * 64.0
        ),
        _landmarks(sizes),
        _points(sizes),
        _near(sizes),
        _shards(sizes),
        _merged(sizes),
        _neighborhoods(sizes),
        _asked(sizes),
        _members(sizes),
        _metric(sizes),
        _passes("units", sizes, sizes.unit_passes),
        _kernel(sizes),
        _passes("bandwidth", sizes, sizes.bandwidth_passes),
        _gram(sizes),
        _spectrum(sizes),
        _coordinates(sizes),
        _embedding(sizes),
        _finish(sizes),
    ]
    return [stage for stage in stages if stage.tasks]


def _only_measured(sizes: Sizes, rates: Rates, counted: set[str]) -> list[StagePlan]:
    """Stages that were met in a measurement and are not counted here: taken as they were, or as a pass over blocks."""
    return [
        StagePlan(name, sizes.n_blocks, reads=sizes.pass_bytes, memory=sizes.reading_bytes)
        if rate.per_block
        else StagePlan(name, rate.tasks)
        for name, rate in rates.stages.items()
        if name not in counted and rate.tasks
    ]


def _landmarks(sizes: Sizes) -> StagePlan:
    # One landmark at a time: a product of a matrix and a vector runs at the speed of memory, about a tenth.
    return StagePlan(
        "landmarks",
        1,
        products=20.0 * sizes.candidates * sizes.m * sizes.width,
        reads=sizes.touched_bytes(sizes.candidates),
        writes=sizes.m * 8.0,
        memory=sizes.candidates * sizes.width * 24.0 + sizes.m * 24.0,
    )


def _points(sizes: Sizes) -> StagePlan:
    group = -(-sizes.m // sizes.landmark_groups)
    return StagePlan(
        "points",
        sizes.landmark_groups,
        reads=sizes.landmark_groups * sizes.touched_bytes(group),
        writes=float(sizes.m) * sizes.width * sizes.itemsize,
        memory=3.0 * group * sizes.width * sizes.itemsize + 2 * sizes.chunk_rows * max(sizes.dims) * sizes.itemsize,
    )


def _near(sizes: Sizes) -> StagePlan:
    n, m, K = sizes.n, sizes.m, len(sizes.dims)
    group = -(-m // sizes.landmark_groups)
    by_products = sizes.links_by == "products"
    sought = sizes.sought if sizes.sought_by == "products" else 0
    b = min(sizes.rows, n)
    looked_at = float(n) * K * (m if by_products else sizes.links * INDEX_STEPS)
    tiles = min(b * group, TILE_ENTRIES) * sizes.itemsize * K if by_products else m * sizes.width * 16.0
    return StagePlan(
        "near",
        sizes.n_blocks if sizes.links + sought else 0,
        products=2.0 * n * m * sizes.width if by_products else 0,
        selections=looked_at,
        reads=sizes.pass_bytes,
        writes=n * sizes.links * 4.0 * K + sizes.n_blocks * m * sought * 16.0,
        fixed=m * sought * 16.0,
        memory=sizes.reading_bytes + b * sizes.links * 4.0 * (K + 2) + group * sought * 64.0 + tiles,
    )


def _shards(sizes: Sizes) -> StagePlan:
    """Indexes of samples that are asked for the neighbours of every landmark."""
    shard = min(sizes.n, SHARD_ROWS)
    return StagePlan(
        "shards",
        sizes.shard_tasks,
        selections=float(sizes.n + sizes.m) * sizes.sought * INDEX_STEPS,
        reads=sizes.pass_bytes,
        writes=sizes.shard_tasks / sizes.landmark_groups * sizes.m * sizes.sought * 16.0,
        memory=float(shard) * (sizes.width * (sizes.itemsize + 4.0) + 16 * sizes.sought),
    )


def _neighbor_parts(sizes: Sizes) -> int:
    """Parts of each landmark's neighbours: of blocks, or of shards."""
    return sizes.n_blocks if sizes.sought_by == "products" else -(-sizes.n // SHARD_ROWS)


def _merged(sizes: Sizes) -> StagePlan:
    moved = float(sizes.m) * sizes.sought * 16
    held = moved / sizes.landmark_groups
    return StagePlan("merged", sizes.merged_tasks, reads=_neighbor_parts(sizes) * moved, writes=moved, memory=6 * held)


def _neighborhoods(sizes: Sizes) -> StagePlan:
    groups = sizes.landmark_groups
    parts = sizes.merged_tasks / groups if sizes.merged_tasks else _neighbor_parts(sizes)
    return StagePlan(
        "neighborhoods",
        groups,
        reads=parts * sizes.m * sizes.sought * 16.0,
        writes=sizes.m * sizes.k * 8.0,
        memory=-(-sizes.m // groups) * sizes.k * 80.0,
    )


def _asked(sizes: Sizes) -> StagePlan:
    asked = float(sizes.m) * sizes.k
    return StagePlan("asked", 1, selections=8 * asked, reads=8 * asked, memory=1.3 * sizes.n + 24 * asked)


def _metric_tasks(sizes: Sizes) -> int:
    return -(-sizes.m // sizes.metric_landmarks)


def _members_rows(sizes: Sizes) -> float:
    """Samples in some neighborhood, about: drawn at random where they are neighbours, apart where they are windows."""
    drawn = sizes.m * sizes.k / sizes.n
    return sizes.n * (-math.expm1(-drawn) if sizes.sought else min(1.0, drawn))


def _metric_rows(sizes: Sizes) -> tuple[float, bool]:
    """Rows that all tasks of the stage "metric" read, about, and whether they read them from a copy."""
    tasks, members = _metric_tasks(sizes), _members_rows(sizes)
    direct = float(tasks if sizes.sought else 1) * sizes.n  # windows of neighbouring landmarks lie side by side
    copied = sizes.n + members + tasks * members < direct
    return (tasks * members if copied else direct), copied


def _members(sizes: Sizes) -> StagePlan:
    gathered = _members_rows(sizes) * sizes.width * sizes.itemsize
    return StagePlan(
        "members",
        sizes.n_blocks if _metric_rows(sizes)[1] else 0,
        reads=sizes.pass_bytes,
        writes=gathered,
        memory=sizes.reading_bytes + 2 * gathered / sizes.n_blocks,
    )


def _metric(sizes: Sizes) -> StagePlan:
    k, dims = sizes.k, sizes.dims
    local = float(min(sizes.metric_landmarks, sizes.m)) * k
    return StagePlan(
        "metric",
        _metric_tasks(sizes),
        decompositions=sizes.m * sum(20.0 * min(k, d) ** 2 * max(k, d) for d in (*dims, min(dims))),
        reads=_metric_rows(sizes)[0] * sizes.width * sizes.itemsize,
        writes=float(sizes.m) * sizes.width * sizes.r * sizes.itemsize,
        memory=local * sizes.width * sizes.itemsize * 4.0
        + -(-sizes.m // sizes.landmark_groups) * k * 24.0
        + (0 if _metric_rows(sizes)[1] else sizes.reading_bytes),
    )


def _model_bytes(sizes: Sizes) -> float:
    return float(sizes.m) * sizes.width * (sizes.r + 1) * sizes.itemsize


def _dense_tile(sizes: Sizes) -> float:
    """A tile of dense distances, with what it takes to make it."""
    return 4.0 * min((4 << 20), sizes.rows * sizes.m) * sizes.itemsize


def _used_width(sizes: Sizes) -> int:
    return sum(sizes.dims[v] for v in sizes.used_views)


def _dense_products(sizes: Sizes) -> float:
    return 2.0 * sizes.n * sizes.m * sizes.r * _used_width(sizes)


def _kernel(sizes: Sizes) -> StagePlan:
    n, s, kernels = sizes.n, sizes.kept, sizes.kernels
    linked = 4.0 * n * s * sizes.r * sizes.width  # gathered rows halve the rate
    b = min(sizes.rows, n)
    return StagePlan(
        "kernel",
        sizes.n_blocks if s else 0,
        products=linked if sizes.alternating else _dense_products(sizes),
        selections=0 if sizes.alternating else 10.0 * n * sizes.m,
        reads=sizes.pass_bytes + (n * s * 4.0 * kernels if sizes.alternating else 0),
        writes=n * s * float(sizes.itemsize + (0 if sizes.alternating else 4)) * kernels,
        memory=sizes.reading_bytes
        + b * s * (12.0 + 2.0 * sizes.itemsize * kernels)
        + _model_bytes(sizes)
        + (0 if sizes.alternating else _dense_tile(sizes)),
    )


def _passes(name: str, sizes: Sizes, passes: int) -> StagePlan:
    """Passes over all distances: kept ones are read, dense ones are made again."""
    entries = float(sizes.n) * (sizes.kept or sizes.m) * sizes.kernels
    dense = name == "units" or not sizes.kept
    return StagePlan(
        name,
        passes * sizes.n_blocks,
        products=passes * _dense_products(sizes) if dense else 0,
        selections=passes * (float(sizes.n) * sizes.m if dense else entries),
        reads=passes * (sizes.pass_bytes if dense else entries * sizes.itemsize),
        memory=sizes.reading_bytes + _model_bytes(sizes) + _dense_tile(sizes)
        if dense
        else min(sizes.rows, sizes.n) * sizes.kept * (2.0 * sizes.itemsize + 16),
    )


def _gram(sizes: Sizes) -> StagePlan:
    n, m, s, pairs, groups = sizes.n, sizes.m, sizes.kept, sizes.gram_pairs, sizes.gram_groups
    one = float(m) * m * 8
    b = min(sizes.rows, n)
    return StagePlan(
        "gram",
        groups if sizes.solver == "gram" else 0,
        additions=float(n) * s * s * pairs,
        products=0 if s else 2.0 * n * m * m + _dense_products(sizes),
        reads=n * s * float(4 + sizes.itemsize) * sizes.kernels if s else sizes.pass_bytes,
        writes=groups * pairs * one,
        fixed=pairs * one,
        memory=(pairs + 1) * one
        + (b * s * 20.0 * sizes.kernels if s else sizes.reading_bytes + _model_bytes(sizes) + 3 * _dense_tile(sizes)),
    )


def _spectrum(sizes: Sizes) -> StagePlan:
    if sizes.solver == "lanczos":
        return _lanczos(sizes)
    one = float(sizes.m) ** 2 * 8
    return StagePlan(
        "spectrum",
        1,
        decompositions=(13 + 2 * sizes.kernels) * float(sizes.m) ** 3,
        reads=sizes.gram_groups * sizes.gram_pairs * one,
        memory=(sizes.gram_pairs + 6) * one,
    )


def _lanczos(sizes: Sizes) -> StagePlan:
    """Passes over all samples, with as many vectors as coordinates are wanted; how many passes, the data decides."""
    passes, groups, vectors = LANCZOS_STEPS * 2 * sizes.kernels, sizes.gram_groups, sizes.q + 1
    entries = float(sizes.n) * (sizes.kept or sizes.m)
    b, moved = min(sizes.rows, sizes.n), float(sizes.m) * vectors * 8
    dense = 0 if sizes.kept else 1
    return StagePlan(
        "spectrum",
        passes * groups,
        additions=passes * 2 * entries * vectors,
        products=passes * dense * _dense_products(sizes),
        reads=passes * (groups * moved + (sizes.pass_bytes if dense else entries * (4 + sizes.itemsize))),
        writes=passes * groups * moved,
        fixed=2 * moved,
        memory=6 * moved
        + b * sizes.kept * 40.0
        + dense * (sizes.reading_bytes + _model_bytes(sizes) + 3 * _dense_tile(sizes))
        + (0 if dense else min(KEPT_BYTES, entries * 12.0 * sizes.kernels)),
    )


def _coordinates(sizes: Sizes) -> StagePlan:
    n, s, q = sizes.n, sizes.kept, sizes.q
    b = min(sizes.rows, n)
    return StagePlan(
        "coordinates",
        sizes.n_blocks,
        selections=float(n) * (s or sizes.m) * sizes.kernels,
        products=0 if s else _dense_products(sizes),
        reads=n * s * float(4 + sizes.itemsize) * sizes.kernels if s else sizes.pass_bytes,
        writes=n * q * 8.0,
        memory=b * s * 50.0 + b * q * 40.0 + _model_bytes(sizes)
        if s
        else sizes.reading_bytes + _model_bytes(sizes) + 2 * _dense_tile(sizes) + b * q * 40.0,
    )


def _embedding(sizes: Sizes) -> StagePlan:
    b = min(sizes.rows, sizes.n)
    moved = float(sizes.n) * sizes.q
    return StagePlan(
        "embedding",
        sizes.n_blocks,
        # Every task reads the facts of all blocks.
        selections=FILE_SELECTIONS * float(sizes.n_blocks) ** 2,
        reads=moved * 8,
        writes=moved * sizes.itemsize,
        memory=b * sizes.q * 32.0,
    )


def _finish(sizes: Sizes) -> StagePlan:
    """The seal, made by the client itself."""
    return StagePlan("finish", 1, reads=float(sizes.n) * sizes.q * sizes.itemsize, writes=sizes.n * 8.0)


def refuse_too_large(made: Plan, memory_bytes: float) -> None:
    """An error, before anything runs, if a task will not fit a worker; it names the setting to change."""
    worst = max(made.stages, key=made.memory_of)
    if made.memory_per_worker > memory_bytes:
        fewer = "[landmarks] choice (fewer)"
        advice = {"gram": fewer, "spectrum": fewer, "landmarks": fewer, "metric": fewer}
        advice["near"] = f"{fewer} or smaller chunks of the views"
        raise SettingsError(
            f"stage {worst.name!r} needs {made.memory_per_worker / 2**30:.2f} GiB in each worker and a worker has "
            f"{memory_bytes / 2**30:.2f}. Change {advice.get(worst.name, 'smaller chunks of the views')}, or raise "
            "[cluster] memory_gib."
        )

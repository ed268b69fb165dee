"""What a run will take, by arithmetic, before anything runs: operations, bytes, tasks, memory and time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dlcca.errors import SettingsError
from dlcca.stages import kernel, landmarks, members, metric, near, spectrum
from dlcca.stages.job import Job

#: Memory of a worker before it does anything: Python, NumPy, SciPy, numba, Zarr and Dask.
BASE_BYTES = 260 << 20
#: Rates of one worker thread, guessed from runs on one machine of 2 cores: good for orders of magnitude only.
PRODUCTS_PER_S, SELECTIONS_PER_S, ADDITIONS_PER_S, BYTES_PER_S = 40e9, 3.5e8, 3e8, 4e8
DECOMPOSITIONS_PER_S = 8e9
TASK_S = 0.02


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
    memory: float = 0  # bytes held by a task

    @property
    def seconds(self) -> float:
        """On one worker."""
        return (
            self.products / PRODUCTS_PER_S
            + self.selections / SELECTIONS_PER_S
            + self.additions / ADDITIONS_PER_S
            + self.decompositions / DECOMPOSITIONS_PER_S
            + (self.reads + self.writes) / BYTES_PER_S
            + self.tasks * TASK_S
        )


@dataclass(frozen=True)
class Plan:
    """All stages of a run on a number of workers."""

    stages: list[StagePlan]
    workers: int

    @property
    def memory_per_worker(self) -> float:
        return BASE_BYTES + max(stage.memory for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Stages follow each other; within one, tasks share the workers."""
        return sum(stage.seconds / min(self.workers, stage.tasks) for stage in self.stages)

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


def plan(job: Job, workers: int) -> Plan:
    """The plan of a job; nothing is read or computed."""
    n, m, size = job.n, landmarks.count(job), np.dtype(job.dtype).itemsize
    width, r, k = sum(job.dims), metric.rank(job), members.width(job)
    block = job.rows * width * size
    stages = [
        StagePlan("scan", job.n_blocks, reads=n * width * size, memory=3 * block),
        _landmarks(job, n, m, width, size),
    ]
    if near.is_needed(job):
        s, nearest = near.n_links(job), near.n_neighbors(job)
        kept = n * s * 4 * job.K + job.n_blocks * m * nearest * 16
        held = block + job.rows * s * 8 * job.K + m * nearest * 16 + (512 * m + 2 * m * width) * size * job.K
        stages.append(
            StagePlan(
                "near",
                job.n_blocks,
                products=2.0 * n * m * width,
                selections=float(n) * m * job.K,
                reads=n * width * size,
                writes=kept,
                memory=2 * held,
            )
        )
    gathered = min(n, m * k) * width * size
    stages.append(StagePlan("members", job.n_blocks + 1, reads=n * width * size, writes=gathered, memory=2 * block))
    blocks = -(-m // metric.LANDMARKS)
    stages.append(
        StagePlan(
            "metric",
            blocks,
            decompositions=m * sum(20.0 * min(k, d) ** 2 * max(k, d) for d in (*job.dims, min(job.dims))),
            reads=blocks * gathered,
            writes=m * width * r * size,
            memory=metric.LANDMARKS * k * width * size * 4,
        )
    )
    stages += _kernel(job, n, m, width, size, r, block)
    stages += _spectrum(job, n, m, size, width, r)
    q = int(job.options["n_components"])
    links = int(job.options["n_links"]) if kernel.is_sparse(job) else 0
    stages.append(
        StagePlan(
            "embedding",
            2 * job.n_blocks,
            selections=float(n) * (links or m) * len(kernel.kernels(job)),
            products=0 if links else 2.0 * n * m * r * width,
            reads=n * links * (4 + size) * len(kernel.kernels(job)) + n * q * 8,
            writes=n * q * (8 + size),
            memory=job.rows * (links or 1) * 60 + block,
        )
    )
    return Plan(stages, workers)


def _landmarks(job: Job, n: int, m: int, width: int, size: int) -> StagePlan:
    spread = job.options["landmark_rule"] in ("kmeans++", "farthest") and m < n
    rows = min(n, max(20_000, 10 * m)) if spread else m
    work = 2.0 * rows * m * width if spread else 0
    # One landmark at a time: a product of a matrix and a vector runs at the speed of memory, about a tenth.
    return StagePlan("landmarks", 1, products=10 * work, reads=n * width * size, memory=rows * width * 24)


def _kernel(job: Job, n: int, m: int, width: int, size: int, r: int, block: float) -> list[StagePlan]:
    if not kernel.is_sparse(job):
        return []
    s = near.n_links(job) or int(job.options["n_links"])
    alternating = job.options["fusion"] == "alternating"
    used = width if alternating else sum(job.dims[v] for v in kernel.used_views(job))
    links = s if alternating else m
    return [
        StagePlan(
            "kernel",
            job.n_blocks,
            products=2.0 * n * links * r * used * (2 if alternating else 1),  # gathered rows halve the rate
            selections=0 if alternating else float(n) * m * 10,
            reads=n * width * size + n * s * 4 * job.K,
            writes=n * s * (size + 4) * len(kernel.kernels(job)),
            memory=block + job.rows * s * 24 * len(kernel.kernels(job)) + m * width * r * size,
        )
    ]


def _spectrum(job: Job, n: int, m: int, size: int, width: int, r: int) -> list[StagePlan]:
    pairs = len(spectrum._pairs(job))
    groups = len(spectrum.groups(job))
    sparse = kernel.is_sparse(job)
    s = (near.n_links(job) or int(job.options["n_links"])) if sparse else 0
    kernels = len(kernel.kernels(job))
    adding = StagePlan(
        "gram",
        groups,
        additions=float(n) * s * s * pairs,
        products=0 if sparse else 2.0 * n * m * (m + r * width),
        reads=n * s * (4 + 2 * size) * kernels,
        writes=groups * pairs * m * m * 8.0,
        memory=pairs * m * m * 8.0 + job.rows * s * 40 * kernels,
    )
    solving = StagePlan(
        "spectrum",
        1,
        decompositions=(9 + 4 + 2 * kernels) * float(m) ** 3,
        reads=groups * pairs * m * m * 8.0,
        memory=(pairs + 6) * m * m * 8.0,
    )
    return [adding, solving]


def refuse_too_large(made: Plan, memory_bytes: float) -> None:
    """An error, before anything runs, if a task will not fit a worker; it names the setting to change."""
    worst = max(made.stages, key=lambda stage: stage.memory)
    if made.memory_per_worker > memory_bytes:
        advice = {
            "gram": "[landmarks] choice (fewer)",
            "spectrum": "[landmarks] choice (fewer)",
            "near": "[landmarks] choice (fewer) or smaller chunks of the views",
        }.get(worst.name, "smaller chunks of the views")
        raise SettingsError(
            f"stage {worst.name!r} needs {made.memory_per_worker / 2**30:.2f} GiB in each worker and a worker has "
            f"{memory_bytes / 2**30:.2f}. Change {advice}, or raise [cluster] memory_gib."
        )


def at_scale(job: Job, n: int, workers: int) -> Plan:
    """The same job with another number of samples."""
    return plan(replace(job, n=n), workers)

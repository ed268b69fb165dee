"""A stage of a run, declared: what it reads and leaves, which options it looks at, what it costs, how it is computed.

Order, fingerprints, plan, resumption, verification and progress are derived from the declarations; nothing else lists
the stages. `dlcca.fitting.pipeline` has them in their order.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import OnProgress, digest, do_missing, reporter
from dlcca.storage.blocks import Blocks
from dlcca.storage.cost import gathering
from dlcca.storage.files import files_at
from dlcca.storage.manifest import known_stage

__all__ = ["Arrays", "Blocks", "Stage"]

#: By name: shape, dtype and rows of a block of an array.
Arrays = Mapping[str, tuple[Any, ...]]


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


def fingerprint(*content: Any) -> str:
    """SHA-256 of plain values and arrays."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=plain).encode()).hexdigest()


def plain(value: Any) -> Any:
    """A value for JSON; of an array its digest."""
    return digest(value) if np.ndim(value) else np.asarray(value).tolist()


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a run.

    A stage is a map over blocks, each of which ``compute`` makes and writes. One that needs several passes over the
    blocks of the samples gives ``drive`` instead, which is called where the run was started and leaves one block.
    """

    name: str
    """Its name on disk and in messages."""
    compute: Callable[[Any, Blocks, int], None] | None = None
    """Makes a block and writes it: (job, blocks, number) -> None. A function of a module, so that workers find it."""
    after: Sequence["Stage"] = ()
    """The stages whose arrays it reads."""
    options: Sequence[str] = ()
    """The options that it looks at, by the names of `LocalCCA`; "seed" is the seed of the job."""
    constants: Sequence[Any] = ()
    """Numbers of the code on which its arrays depend."""
    n_blocks: Callable[[Any], int] = lambda job: 1
    arrays: Callable[[Any], Arrays] = lambda job: {}
    is_needed: Callable[[Any], bool] = lambda job: True
    """Whether a job has this stage."""
    says: Callable[[Any], str] = lambda job: ""
    """What it depends on, in words, for the message on a stale stage; "" for the values of its options."""
    cost: Callable[[Any], dict[str, Any]] = lambda job: {}
    """What it will take, by the names of `StagePlan`, for `dlcca plan`. Tasks are given where they are not blocks, and
    writes where they are not its arrays."""
    drive: Callable[[Any, Blocks, Any, OnProgress | None], None] | None = None
    is_here: Callable[[Any], bool] = lambda job: False
    """Whether its blocks are computed where the run was started, which alone has the row numbers that were given."""
    on_start: Callable[[Any, Any, OnProgress | None], None] | None = None
    """Called when the stage is begun or resumed, with the job, the client and the progress."""
    around: Callable[[Any, Any], AbstractContextManager[None]] | None = None
    """What missing blocks are computed within, by job and client: to compile what they need, to give memory back."""

    scratch: Sequence[str] = ()
    """Names of folders beside its own that it needs on the way, and removes."""

    reads: str = ""
    """What a task reads, for the table of stages in the documentation."""
    leaves: str = ""
    """What it leaves, likewise."""

    def fingerprint(self, job: Any) -> str:
        """Identity of the arrays of this stage: its inputs and settings."""
        known = job.fingerprints
        if self.name not in known:
            options = [plain(job.seed if name == "seed" else job.options[name]) for name in self.options]
            below = [stage.fingerprint(job) for stage in self.after]
            known[self.name] = fingerprint(job.inputs, job.rows, self.name, options, list(self.constants), below)
        return known[self.name]

    def plan(self, job: Any) -> StagePlan:
        """What it will take; no tasks if the job does not have it."""
        counts = dict(self.cost(job))
        if "tasks" not in counts:
            counts["tasks"] = self.n_blocks(job) if self.is_needed(job) else 0
        if "writes" not in counts and counts["tasks"]:
            sizes = (math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype, *_ in self.arrays(job).values())
            counts["writes"] = float(sum(sizes))
        return StagePlan(self.name, **counts)

    def of(self, job: Any) -> Blocks:
        """The blocks of this stage in the store of a job."""
        return job.blocks(self.name, self.fingerprint(job), self.n_blocks(job))

    def fill(self, job: Any, given: Mapping[str, NDArray], facts: Mapping[str, Any] | None = None) -> None:
        """Leave given arrays in the store of a job in memory, as if they had been computed."""
        arrays = self.arrays(job)
        stage = self.of(job).prepare(arrays, says="")
        first = {name: [block * arrays[name][2] for block in range(stage.n_blocks)] for name in given}
        # The last block takes all rows that are left: landmarks may be more than were requested.
        cut = {name: np.split(X, first[name][1:]) for name, X in given.items()}
        for block in range(stage.n_blocks):
            stage.write(block, {name: (first[name][block], cut[name][block]) for name in given}, facts or {})

    def ensure(self, job: Any) -> None:
        """Run this stage, in this process, after those whose arrays it needs; a finished stage needs none."""
        if self.of(job).missing():
            for stage in self.after:
                stage.ensure(job)
            self.run(job)

    def run(self, job: Any, client: Any = None, on_progress: OnProgress | None = None) -> None:
        """Compute the blocks that are missing."""
        if self.is_needed(job):
            with gathering():
                self._run(job, client, on_progress)

    def _run(self, job: Any, client: Any, on_progress: OnProgress | None) -> None:
        blocks = self.of(job).prepare(self.arrays(job), says=job.described(self))
        if self.on_start is not None:
            self.on_start(job, client, on_progress)
        if self.drive is not None:
            if blocks.missing():
                self.drive(job, blocks, client, on_progress)
            else:
                reporter(blocks.address, on_progress)(self.name, 1, 1)
            for name in () if job.in_memory else self.scratch:
                files_at(job.address).remove(f"stages/{name}")
            return
        assert self.compute is not None
        around = nullcontext() if self.around is None or not blocks.missing() else self.around(job, client)
        with around:
            do_missing(self.compute, job, blocks, None if self.is_here(job) else client, on_progress)


@dataclass(frozen=True)
class Progress:
    """How far a stage is."""

    name: str
    done: int
    blocks: int
    seconds: float  # of all finished blocks, on the workers
    peak_bytes: int  # the largest memory of a worker


def stages_on_disk(store: str, names: Sequence[str]) -> list[Blocks]:
    """Those of some stages that have been begun; an error if the record of one is damaged."""
    known = {name: known_stage(store, name) for name in names}
    return [Blocks(store, name, k["fingerprint"], k["n_blocks"]) for name, k in known.items() if k is not None]


def progress_of(stages: Iterable[Blocks]) -> list[Progress]:
    """Finished blocks and cost of each stage."""
    found = []
    for stage in stages:
        cost, done = stage.cost(), stage.n_blocks - len(stage.missing())
        found.append(Progress(stage.name, done, stage.n_blocks, cost["seconds"], cost["peak_bytes"]))
    return found

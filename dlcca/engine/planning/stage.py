"""What one stage does in all, and what a task of it holds; the guessed time of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

"""How the missing blocks of a stage get done: one after another here, or as tasks of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

from dlcca.engine import given_rows, scheduler
from dlcca.engine.failures import reported
from dlcca.engine.scheduler import WAVE
from dlcca.errors import DamagedBlock
from dlcca.storage import cost, event_log, lock
from dlcca.storage.blocks import Blocks

#: Computes one block and writes it: (job, stage, block) -> nothing. A module-level function, so that workers find it.
#: The job is whatever describes the work: a `Job` or an `IngestJob`.
Compute = Callable[[Any, Blocks, int], None]
#: Told of progress: stage name, blocks done, blocks in all.
Tell = Callable[[str, int, int], None]


def do_missing(compute: Compute, job: Any, stage: Blocks, client: Any = None, tell: Tell | None = None) -> int:
    """Compute every block of the stage that is not finished; how many there were."""
    missing = stage.missing()
    done = stage.n_blocks - len(missing)
    report = _telling(stage.address, tell)
    report(stage.name, done, stage.n_blocks)
    sent = job if client is None else given_rows.carried(job)
    finished = scheduler.as_completed(_do, (compute, sent, stage), missing, client, name=stage.name, wave=WAVE)
    for count, (_block, took) in enumerate(finished, start=1):
        if "/" in stage.name and stage.address:  # a stage within another one, with which it goes: its cost is handed on
            cost.collected(took)
        report(stage.name, done + count, stage.n_blocks)
    return len(missing)


def _telling(address: str, tell: Tell | None) -> Tell:
    """Tells of progress whoever wants to know, and keeps it with the run; stops if the run is no longer ours."""
    if not address:  # in memory
        return tell or _silence
    lock.confirm(address)
    recorder = event_log.current()

    def report(stage: str, done: int, blocks: int) -> None:
        lock.confirm(address)
        if tell is not None:
            tell(stage, done, blocks)
        if recorder is not None and "/" not in stage:  # one within another stage goes with it
            recorder.far(stage, done, blocks)

    return report


def _silence(stage: str, done: int, blocks: int) -> None:
    """Nobody has asked for progress."""


def _do(compute: Compute, job: Any, stage: Blocks, block: int) -> dict[str, Any]:
    """One block, on a worker; its cost is noted where it is written, and returned."""
    if not stage.address:
        compute(job, stage, block)
        return {}
    with cost.timed_task(), reported(stage.name, block):
        if not stage.is_finished(block):  # it is if a worker died between the last of its work and telling of it
            compute(job, stage, block)
        return cost.so_far()


def read_or_computed(compute: Compute, job: Any, stage: Blocks, array: str, block: int) -> NDArray:
    """A block's part of an array; computed again, once, if it does not fit its record.

    For arrays of the run itself, which have the same place in every attempt: a storage without conditional puts may
    have replaced a block by that of a late worker.
    """
    try:
        return stage.read(array, block)
    except DamagedBlock:
        again = stage.without(block)
        compute(job, again, block)
        return again.read(array, block)


def collect(
    function: Callable[..., Any],
    job: Any,
    n_blocks: int,
    client: Any,
    tell: Tell | None,
    arguments: tuple[Any, ...],
    *,
    name: str,
) -> Iterator[Any]:
    """Small results of a function of every block, in the order of the blocks; for what is not worth a place on disk."""
    report = _telling(job.address, tell)
    report(name, 0, n_blocks)
    if not job.address:
        yield from (function(job, block, *arguments) for block in range(n_blocks))
        return
    sent = job if client is None else given_rows.carried(job)
    results = scheduler.in_order(_ask, (function, sent, arguments, name), n_blocks, client, wave=WAVE)
    for block, (result, took) in enumerate(results):
        cost.collected(took)
        yield result
        report(name, block + 1, n_blocks)


def _ask(
    function: Callable[..., Any], job: Any, arguments: tuple[Any, ...], name: str, block: int
) -> tuple[Any, dict[str, Any]]:
    """One result and its cost, on a worker."""
    with cost.timed_task(), reported(name, block):
        return function(job, block, *arguments), cost.so_far()

"""How the missing blocks of a stage get done: one after another here, or as tasks of a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from dlcca.stages.job import Job
from dlcca.stores.blocks import Stage

#: Tasks that the scheduler holds at a time; the rest waits here, so that a graph stays small however long the run.
WAVE = 1000
RETRIES = 2

#: Computes one block and writes it: (job, stage, block) -> nothing. A module-level function, so that workers find it.
Compute = Callable[[Job, Stage, int], None]
#: Told of progress: stage name, blocks done, blocks in all.
Tell = Callable[[str, int, int], None]


def do_missing(compute: Compute, job: Job, stage: Stage, client: Any = None, tell: Tell | None = None) -> int:
    """Compute every block of the stage that is not finished; how many there were."""
    missing = stage.missing()
    done = stage.n_blocks - len(missing)
    report = tell or (lambda *_: None)
    report(stage.name, done, stage.n_blocks)
    if client is None:
        for count, block in enumerate(missing, start=1):
            compute(job, stage, block)
            report(stage.name, done + count, stage.n_blocks)
        return len(missing)
    from distributed import as_completed

    waiting = iter(missing)
    call = uuid.uuid4().hex[:8]  # a key that was used before would get its old result, or its old error

    def submit() -> Any:
        block = next(waiting, None)
        if block is None:
            return None
        key = f"dlcca-{stage.name}-{call}-{block}"
        return client.submit(compute, job, stage, block, key=key, pure=False, retries=RETRIES)

    running = as_completed([future for _ in range(min(WAVE, len(missing))) if (future := submit()) is not None])
    for count, future in enumerate(running, start=1):
        future.result()
        report(stage.name, done + count, stage.n_blocks)
        if (following := submit()) is not None:
            running.add(following)
    return len(missing)


def collect(
    function: Callable[..., Any],
    job: Job,
    n_blocks: int,
    client: Any,
    tell: Tell | None,
    arguments: tuple[Any, ...],
    *,
    name: str,
) -> Iterator[Any]:
    """Small results of a function of every block, in the order of the blocks; for what is not worth a place on disk."""
    report = tell or (lambda *_: None)
    if client is None:
        for block in range(n_blocks):
            yield function(job, block, *arguments)
            report(name, block + 1, n_blocks)
        return
    for first in range(0, n_blocks, WAVE):
        wave = range(first, min(n_blocks, first + WAVE))
        futures = [client.submit(function, job, block, *arguments, pure=False, retries=RETRIES) for block in wave]
        for block, future in zip(wave, futures, strict=True):
            yield future.result()
            report(name, block + 1, n_blocks)
            future.release()

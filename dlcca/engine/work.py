"""How the missing blocks of a stage get done: one after another here, or as tasks of a Dask cluster.

Dask repeats the work of tasks that fail and of workers that are gone without a message. So a task that fails reports it
from its worker, before Dask sees it, on a topic of its own; the scheduler reports workers that are gone. Both reach the
client, which notes them with the run and prints them.

Row numbers that the user gave are not sent: stages that need them run in the process that has them (`Stage.is_here`),
and tasks carry their digests.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dlcca.engine import scheduler
from dlcca.engine.scheduler import RETRIES, WAVE
from dlcca.errors import DamagedBlock
from dlcca.settings.fit import Settings
from dlcca.storage import cost, event_log, lock, manifest
from dlcca.storage.blocks import Blocks
from dlcca.storage.event_log import Recorder

#: Bytes of given row numbers that a task may carry itself.
FEW_BYTES = 10_000
TOPIC = "dlcca-failures"
#: Failures that are printed; of more only the number, at the end.
MOST_PRINTED = 10
#: Computes one block and writes it: (job, stage, block) -> nothing. A module-level function, so that workers find it.
#: The job is whatever describes the work: a `Job` or an `IngestJob`.
Compute = Callable[[Any, Blocks, int], None]
#: Called with progress: stage name, blocks done, blocks in all.
OnProgress = Callable[[str, int, int], None]


def do_missing(
    compute: Compute, job: Any, stage: Blocks, client: Any = None, on_progress: OnProgress | None = None
) -> None:
    """Compute every block of the stage that is not finished."""
    missing = stage.missing()
    done = stage.n_blocks - len(missing)
    report = reporter(stage.address, on_progress)
    report(stage.name, done, stage.n_blocks)
    sent = job if client is None else carried(job)
    finished = scheduler.as_completed(_do, (compute, sent, stage), missing, client, name=stage.name, wave=WAVE)
    for count, (_block, took) in enumerate(finished, start=1):
        if "/" in stage.name and stage.address:  # a stage within another one, with which it goes: its cost is handed on
            cost.collected(took)
        report(stage.name, done + count, stage.n_blocks)


@dataclass(frozen=True)
class Digest:
    """What tasks know of an array that they do not need."""

    digest: str
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]


def carried(job: Any) -> Any:
    """A job as it is sent with tasks: of large arrays in its settings the digests."""
    settings = getattr(job, "settings", None)
    options = settings.options() if isinstance(settings, Settings) else {}
    given = {name: np.asarray(rows) for name, rows in options.items() if np.ndim(rows) > 0}
    large = {name: Digest(digest(X), X.shape) for name, X in given.items() if X.nbytes > FEW_BYTES}
    return replace(job, settings=job.settings.with_options(**large)) if large else job


def digest(X: Any) -> str:
    """SHA-256 of an array, its shape and its dtype; of whole numbers however they were given."""
    if isinstance(X, Digest):
        return X.digest
    X = np.asarray(X)
    return manifest.digest(X.astype(np.int64) if X.dtype.kind in "iu" else X)


def reporter(address: str, on_progress: OnProgress | None) -> OnProgress:
    """Reports progress to the caller and to the event log; an error if the lock of the run was lost."""
    if not address:  # in memory
        return on_progress or (lambda stage, done, blocks: None)
    lock.confirm(address)
    recorder = event_log.current()

    def report(stage: str, done: int, blocks: int) -> None:
        lock.confirm(address)
        if on_progress is not None:
            on_progress(stage, done, blocks)
        if recorder is not None and "/" not in stage:  # one within another stage goes with it
            recorder.far(stage, done, blocks)

    return report


def _do(compute: Compute, job: Any, stage: Blocks, block: int) -> dict[str, Any]:
    """One block, on a worker; its cost is noted where it is written, and returned."""
    if not stage.address:
        compute(job, stage, block)
        return {}
    with cost.timed_task(), reported(stage.name, block):
        if not stage.is_finished(block):  # it is if a worker died before it reported the block
            compute(job, stage, block)
        return cost.so_far()


def digest_of_blocks(compute: Compute, job: Any, stage: Blocks, name: str) -> str:
    """The digest of an array of the run itself, as `dlcca.storage.manifest.digest`, made block by block.

    A block that does not fit its record is computed again, once. Arrays of the run have the same place in every
    attempt: a storage without conditional puts may have replaced a block by that of a late worker.
    """
    made = manifest.new_hash(stage.array(name))
    for block in range(stage.n_blocks):
        try:
            X = stage.read(name, block)
        except DamagedBlock:
            again = stage.without(block)
            compute(job, again, block)
            X = again.read(name, block)
        made.update(np.ascontiguousarray(X).data)
    return made.hexdigest()


def collect(
    function: Callable[..., Any],
    job: Any,
    n_blocks: int,
    client: Any,
    on_progress: OnProgress | None,
    arguments: tuple[Any, ...],
    *,
    name: str,
) -> Iterator[Any]:
    """Small results of a function of every block, in the order of the blocks; for what is not worth a place on disk."""
    report = reporter(job.address, on_progress)
    report(name, 0, n_blocks)
    if not job.address:
        yield from (function(job, block, *arguments) for block in range(n_blocks))
        return
    sent = job if client is None else carried(job)
    results = scheduler.in_order(_result, (function, sent, arguments, name), n_blocks, client, wave=WAVE)
    for block, (result, took) in enumerate(results):
        cost.collected(took)
        yield result
        report(name, block + 1, n_blocks)


def _result(
    function: Callable[..., Any], job: Any, arguments: tuple[Any, ...], name: str, block: int
) -> tuple[Any, dict[str, Any]]:
    """One result and its cost, on a worker."""
    with cost.timed_task(), reported(name, block):
        return function(job, block, *arguments), cost.so_far()


@contextmanager
def reported(stage: str, block: int) -> Iterator[None]:
    """On a worker: report to the client if the block fails."""
    try:
        yield
    except Exception as error:
        with suppress(Exception):  # not on a worker, or one that is being closed
            from distributed import get_worker

            worker = get_worker()
            text = f"{type(error).__name__}: {error}"[:500]
            worker.log_event(TOPIC, {"stage": stage, "block": block, "error": text, "worker": worker.address})
        raise


@contextmanager
def watched(client: Any, recorder: Recorder | None, say: Callable[[str], None]) -> Iterator[None]:
    """With a client: note and print every retry."""
    if client is None or recorder is None:
        yield
        return
    failed: Counter[tuple[str, int]] = Counter()
    numbers = itertools.count(1)

    def report(text: str) -> None:
        if (number := next(numbers)) <= MOST_PRINTED:
            say(text if number < MOST_PRINTED else f"{text} Further ones are only in the event log.")

    def on_failure(event: tuple[float, dict[str, Any]]) -> None:
        about = event[1]
        stage, block = about["stage"], about["block"]
        failed[stage, block] += 1
        if (times := failed[stage, block]) > RETRIES:
            recorder.note("block given up", **about)
            return
        recorder.note("retry", **about, times=times, at_most=RETRIES)
        failed_on = f"block {block} of {stage!r} failed on {about['worker']} ({about['error']})"
        report(f"{failed_on}; retry {times} of at most {RETRIES}.")

    def on_any(event: tuple[float, dict[str, Any]]) -> None:
        about = event[1]
        if about.get("action") != "remove-worker" or about.get("expected"):
            return
        tasks = len(about.get("processing-tasks", ()))
        recorder.note("worker lost", worker=about.get("worker"), tasks=tasks)
        if tasks:
            recorder.note("retry", worker=about.get("worker"), tasks=tasks)
            report(f"the worker {about.get('worker')} was lost; {tasks} tasks are retried elsewhere.")

    client.subscribe_topic(TOPIC, on_failure)
    client.subscribe_topic("all", on_any)
    try:
        yield
    finally:
        with suppress(Exception):  # the connection may be gone
            for topic in (TOPIC, "all"):
                client.unsubscribe_topic(topic)

"""Tasks that fail and workers that are gone, made visible: Dask begins their work again without a word.

A task that fails tells so from its worker, before Dask sees it, on a topic of its own; that a worker is gone is told by
the scheduler. Both reach the client, which notes them with the run and says them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dlcca.engine.scheduler import RETRIES
from dlcca.storage.event_log import Recorder

TOPIC = "dlcca-failures"
#: Failures that are said; of more only the number, at the end.
MOST_SAID = 10


@contextmanager
def reported(stage: str, block: int) -> Iterator[None]:
    """On a worker: if the block fails, its client is told."""
    try:
        yield
    except Exception as error:
        with suppress(Exception):  # not on a worker, or one that is being closed
            from distributed import get_worker

            worker = get_worker()
            told = f"{type(error).__name__}: {error}"[:500]
            worker.log_event(TOPIC, {"stage": stage, "block": block, "error": told, "worker": worker.address})
        raise


@contextmanager
def watched(client: Any, recorder: Recorder | None, say: Callable[[str], None]) -> Iterator[None]:
    """With a client: note and say whatever is begun again."""
    if client is None or recorder is None:
        yield
        return
    failed: Counter[tuple[str, int]] = Counter()
    said = Counter(failures=0)

    def tell(text: str) -> None:
        said["failures"] += 1
        if said["failures"] <= MOST_SAID:
            say(text if said["failures"] < MOST_SAID else f"{text} Further ones are not said; they are in the events.")

    def on_failure(event: tuple[float, dict[str, Any]]) -> None:
        about = event[1]
        stage, block = about["stage"], about["block"]
        failed[stage, block] += 1
        times = failed[stage, block]
        if times <= RETRIES:
            recorder.note("retry", **about, times=times, at_most=RETRIES)
            again = f"it is begun again ({times} of at most {RETRIES} times)."
            tell(f"block {block} of {stage!r} failed on {about['worker']} ({about['error']}); {again}")
        else:
            recorder.note("block given up", **about)

    def on_any(event: tuple[float, dict[str, Any]]) -> None:
        about = event[1]
        if about.get("action") != "remove-worker" or about.get("expected"):
            return
        tasks = len(about.get("processing-tasks", ()))
        recorder.note("worker lost", worker=about.get("worker"), tasks=tasks)
        if tasks:
            recorder.note("retry", worker=about.get("worker"), tasks=tasks)
            tell(f"the worker {about.get('worker')} is gone; {tasks} tasks are begun again elsewhere.")

    client.subscribe_topic(TOPIC, on_failure)
    client.subscribe_topic("all", on_any)
    try:
        yield
    finally:
        with suppress(Exception):  # the connection may be gone
            for topic in (TOPIC, "all"):
                client.unsubscribe_topic(topic)

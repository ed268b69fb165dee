"""A function of numbered blocks, mapped over the workers of a client or in a plain loop.

A long run has many more blocks than a scheduler should hold as tasks. So they are handed over in waves: never more
than ``wave`` are with the scheduler, and the rest waits here as plain numbers. Blocks go out and results come back
many at a time: a message for each would take longer than a small block does. For the same reason blocks that prove to
be small share a task (`Pace`); the function is called for each of them all the same.
"""

import statistics
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

#: Seconds that a task of small blocks is to take: some dozen times what the task itself costs.
TASK_S = 0.2
#: Tasks that are with the scheduler for each thread of the workers, and at least; it needs some to see what is ahead.
TASKS_OF_THREAD, LEAST_TASKS = 4, 64
#: Tasks whose times are used. Most of them: the first of a worker has to import and to compile.
SEEN = 32
#: Threads of a cluster that grows or shrinks are counted so often.
COUNT_EVERY_S = 5.0


class Pace:
    """What the last tasks have taken, and so how large the next should be."""

    def __init__(self, count_threads: Callable[[], int]) -> None:
        self._took: deque[float] = deque(maxlen=SEEN)  # seconds of a block
        self._count_threads = count_threads
        self._threads, self._counted_at = 1, float("-inf")

    def note(self, seconds: float, blocks: int) -> None:
        """A task has taken so long for so many blocks."""
        self._took.append(seconds / blocks)

    def most_tasks(self) -> int:
        """Tasks that should be with the scheduler at a time."""
        return max(LEAST_TASKS, TASKS_OF_THREAD * self.threads())

    def blocks_of_task(self, left: int) -> int:
        """Blocks that should share a task, if so many are left to be shared among the workers."""
        if not self._took:
            return 1
        in_time = TASK_S / max(statistics.median(self._took), 1e-6)
        return max(1, int(min(in_time, left / (TASKS_OF_THREAD * self.threads()))))

    def threads(self) -> int:
        """Threads of all workers, at least one: there may be none yet."""
        now = time.monotonic()
        if now - self._counted_at > COUNT_EVERY_S:
            self._threads, self._counted_at = max(1, self._count_threads()), now
        return self._threads


#: Blocks that the scheduler holds at a time.
WAVE = 1000
#: Retries of a task that fails, or whose worker is gone.
RETRIES = 2
#: Tasks whose results are fetched together where their order matters, so that no more of them are here at once.
FETCHED = 32


def as_completed(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    blocks: Sequence[int],
    client: Any = None,
    *,
    name: str = "block",
    wave: int = WAVE,
    retries: int = RETRIES,
) -> Iterator[tuple[int, Any]]:
    """Pairs of a block and ``function(*arguments, block)``, in the order in which they are finished.

    The function must be one of a module, so that workers find it; an error in it ends the iteration. A task that is
    begun again calls it again for all blocks of the task.
    """
    if client is None:
        for block in blocks:
            yield block, function(*arguments, block)
        return
    import distributed

    tasks = _Tasks(partial(_each, function, arguments), blocks, client, name, wave, retries)
    running = distributed.as_completed(tasks.more())
    for batch in running.batches():
        yield from tasks.results(batch)
        running.update(tasks.more())


def in_order(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    n_blocks: int,
    client: Any = None,
    *,
    wave: int = WAVE,
    retries: int = RETRIES,
) -> Iterator[Any]:
    """``function(*arguments, block)`` of every block, in the order of the blocks."""
    if client is None:
        yield from (function(*arguments, block) for block in range(n_blocks))
        return
    tasks = _Tasks(partial(_each, function, arguments), range(n_blocks), client, "result", wave, retries)
    running = deque(tasks.more())
    while running:
        first = [running.popleft() for _ in range(min(FETCHED, len(running)))]
        yield from (result for _block, result in tasks.results(first))
        running.extend(tasks.more())


def _each(function: Callable[..., Any], arguments: Sequence[Any], blocks: list[int]) -> tuple[list[Any], float]:
    """A task: what the function gives for some blocks, one after another, and the seconds that it took."""
    began = time.perf_counter()
    return [function(*arguments, block) for block in blocks], time.perf_counter() - began


class _Tasks:
    """Blocks that wait here, and those that are tasks of the scheduler."""

    def __init__(
        self, call: Callable[..., Any], blocks: Sequence[int], client: Any, name: str, wave: int, retries: int
    ) -> None:
        self.call, self.client, self.retries = call, client, retries
        self.waiting, self.wave = deque(blocks), wave
        self.held: dict[str, list[int]] = {}  # blocks of the tasks that the scheduler has, by key
        self.pace = Pace(lambda: sum(client.nthreads().values()))
        # A key that was used before would get its old result, or its old error.
        self.prefix = f"dlcca-{name}-{uuid.uuid4().hex[:8]}"

    def more(self) -> list[Any]:
        """Tasks of blocks that have waited, handed to the scheduler: as many as it may hold, or none while it has most.

        So they go there many at a time, and not one whenever one is finished.
        """
        most = self.pace.most_tasks()
        if not self.waiting or len(self.held) > most // 2:
            return []
        room = min(self.wave - sum(map(len, self.held.values())), len(self.waiting))
        size = self.pace.blocks_of_task(min(self.wave, len(self.waiting)))
        sizes = [min(size, room - first) for first in range(0, room, size)][: most - len(self.held)]
        new = [[self.waiting.popleft() for _ in range(size)] for size in sizes]
        keys = [f"{self.prefix}-{blocks[0]}" for blocks in new]
        self.held |= dict(zip(keys, new, strict=True))
        return self.client.map(self.call, new, key=keys, pure=False, retries=self.retries) if new else []

    def results(self, futures: list[Any]) -> list[tuple[int, Any]]:
        """Pairs of a block and its result, of tasks that are waited for. The list of them is emptied: the scheduler
        keeps what is referred to, and others are to follow."""
        found: list[tuple[int, Any]] = []
        for future, (results, seconds) in zip(futures, self.client.gather(futures), strict=True):
            blocks = self.held.pop(future.key)
            self.pace.note(seconds, len(blocks))
            found += zip(blocks, results, strict=True)
        futures.clear()
        return found

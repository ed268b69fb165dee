"""How many blocks make a task: one, unless they turn out to be so small that a task takes longer than they do.

A task costs the scheduler, the worker and the client some milliseconds, whatever is in it. So small blocks share one,
until it takes about `TASK_S`; but never so many that some workers would have tasks and others none. What a block takes
is not guessed: the first tasks are of one block, and the last ones seen tell the size of the next.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

#: Seconds that a task of small blocks is to take: some dozen times what the task itself costs.
TASK_S = 0.2
#: Tasks that are with the scheduler for each thread of the workers, and at least; it needs some to see what is ahead.
TASKS_OF_THREAD, LEAST_TASKS = 4, 64
#: Tasks whose times are looked at. Most of them: the first of a worker has to import and to compile.
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

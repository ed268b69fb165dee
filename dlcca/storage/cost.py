"""The cost of a task: its seconds and the peak memory of its process, recorded with its result.

No fingerprint covers it: a cost may differ from run to run.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

#: When the current task began; None outside of tasks.
_BEGAN: ContextVar[float | None] = ContextVar("began", default=None)
#: Costs of small tasks whose results were collected for the block that is written next, together.
_COLLECTED: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("collected", default=())


@contextmanager
def timed_task() -> Iterator[None]:
    """A task: a block that is written within it records its cost."""
    token = _BEGAN.set(time.perf_counter())
    try:
        yield
    finally:
        _BEGAN.reset(token)


@contextmanager
def gathering() -> Iterator[None]:
    """A stage: what is collected within it is for its own blocks, even if it fails before they are written."""
    token = _COLLECTED.set(())
    try:
        yield
    finally:
        _COLLECTED.reset(token)


def collected(cost: dict[str, Any]) -> None:
    """Add the cost of a small task elsewhere to that of the block that will be written from its result."""
    _COLLECTED.set((total([*_COLLECTED.get(), cost]),))


def so_far(*, within: bool = False) -> dict[str, Any]:
    """The cost of the current task, or outside of tasks the sum of what was collected.

    What was collected is for a block of the stage itself, and is not used by a stage ``within`` it.
    """
    began = _BEGAN.get()
    if began is not None:
        return {"seconds": round(time.perf_counter() - began, 4), "peak_bytes": peak_bytes(), "tasks": 1}
    if within:
        return total([])
    gathered = _COLLECTED.get()
    _COLLECTED.set(())
    return total([*gathered])


def total(costs: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds and tasks together, and the largest memory."""
    return {
        "seconds": round(sum(cost["seconds"] for cost in costs), 4),
        "peak_bytes": max((cost["peak_bytes"] for cost in costs), default=0),
        "tasks": sum(cost["tasks"] for cost in costs),
    }


def peak_bytes() -> int:
    """The largest resident memory of this process; 0 where the system does not report it."""
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:  # getrusage on Linux counts the parent's in
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak << 10)


def format_bytes(count: float) -> str:
    """A number of bytes with three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"

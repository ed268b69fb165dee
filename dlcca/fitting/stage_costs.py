"""What a run takes, stage by stage: seconds of its tasks, wall time, and memory of the workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from dlcca.engine.rates import Measured
from dlcca.fitting import pipeline, runner
from dlcca.fitting.job import Job
from dlcca.settings.auto import Choices
from dlcca.storage.cost import peak_bytes


def measured_run(job: Job, client: Any = None) -> dict[str, Measured]:
    """Run a job from its beginning to its seal, and say what each stage took."""
    watch = _Watch(client)
    pipeline.run(job, client, watch)
    watch("finish", 0, 1)
    runner.finish(job, Choices(job.settings, {}))
    watch.end()
    costs = runner.costs(job.address)
    watch.share("bandwidth", "units", costs)
    each = {stage.name: tuple(stage.task_seconds()) for stage in runner.begun(job.address)}
    found = {}
    for name, (wall_s, rest, peak) in watch.stages.items():
        cost = costs.get(name, {"tasks": 0, "seconds": 0.0})
        if cost["tasks"] == 0:  # done by the client itself
            cost = {"tasks": 1, "seconds": wall_s}
        found[name] = Measured(cost["tasks"], cost["seconds"], wall_s, rest, peak, each.get(name, ()))
    return found


#: Steps that are told of under a name of their own, and leave their cost in the stage for which they are done.
WITHIN = {"lanczos": "spectrum"}


class _Watch:
    """Told of progress, it notes when each stage begins and ends, and the memory of the largest worker within it."""

    def __init__(self, client: Any) -> None:
        self.stages: dict[str, tuple[float, float, float]] = {}  # wall time, memory before, peak memory
        self._client = client
        self._name: str | None = None

    def __call__(self, name: str, done: int, blocks: int) -> None:
        name = WITHIN.get(name, name)
        if name == self._name:
            return
        self.end()
        self._name = name
        self._rest = max(self._everywhere(resident_bytes))
        self._resets = all(self._everywhere(forget_peak))
        self._peak_before = max(self._everywhere(peak_bytes))
        self._began = time.perf_counter()

    def end(self) -> None:
        """The end of the stage at hand."""
        if self._name is None:
            return
        wall_s = time.perf_counter() - self._began
        peak = max(self._everywhere(peak_bytes))
        if not self._resets and peak <= self._peak_before:
            peak = 0  # of an earlier stage: nothing is known of this one
        known = self.stages.get(self._name, (0.0, 0.0, 0.0))
        self.stages[self._name] = (known[0] + wall_s, max(known[1], self._rest), max(known[2], peak))
        self._name = None

    def share(self, told: str, other: str, costs: dict[str, dict[str, Any]]) -> None:
        """Divide the time of a stage with another that was told of under its name, as their tasks have shared it."""
        if told not in self.stages or other not in costs:
            return
        wall_s, rest, peak = self.stages[told]
        both = [costs[name]["seconds"] if name in costs else 0.0 for name in (told, other)]
        theirs = wall_s * both[1] / (sum(both) or 1.0)
        self.stages |= {told: (wall_s - theirs, rest, peak), other: (theirs, rest, peak)}

    def _everywhere(self, function: Callable[[], Any]) -> list[Any]:
        """What a function says on every worker, or here if there are none."""
        return [function()] if self._client is None else list(self._client.run(function).values())


def resident_bytes() -> int:
    """Memory of this process now."""
    import psutil  # type: ignore[import-untyped]

    return int(psutil.Process().memory_info().rss)


def forget_peak() -> bool:
    """Have the system count the peak memory of this process from now on; whether it can.

    For processes that were started to be measured, and no others: it hides an earlier peak from everybody.
    """
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        return True
    except OSError:
        return False


def bytes_besides_workers(client: Any) -> int:
    """Memory of this process and those that it started, workers of the client left out."""
    import psutil

    workers = set() if client is None else set(client.run(os.getpid).values())
    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            total += 0 if process.pid in workers else process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total

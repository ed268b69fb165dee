"""What a run asks of a Dask scheduler: how many tasks, how large, how many at once."""

from __future__ import annotations

from typing import Any

import cloudpickle
from distributed.diagnostics.plugin import SchedulerPlugin


class GraphWatch(SchedulerPlugin):
    """Counts the tasks that reach a scheduler, by whatever call, and weighs each as it would go to a worker."""

    name = "graph-watch"

    def __init__(self) -> None:
        self.tasks = 0
        self.largest_bytes = 0
        self.most_at_once = 0

    @classmethod
    def of(cls, client: Any) -> GraphWatch:
        """One that watches the scheduler of a local client, which lives in this process."""
        watch = cls()
        client.cluster.scheduler.add_plugin(watch)
        return watch

    def update_graph(self, scheduler: Any, *, tasks: Any, **_: Any) -> None:
        self.tasks += len(tasks)
        self.most_at_once = max(self.most_at_once, len(scheduler.tasks))
        for key in tasks:
            size = len(cloudpickle.dumps(scheduler.tasks[key].run_spec))
            self.largest_bytes = max(self.largest_bytes, size)

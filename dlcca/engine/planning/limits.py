"""Refusing what will not fit, before anything runs."""

from __future__ import annotations

from dlcca.engine.planning.plan import Plan
from dlcca.errors import SettingsError


def refuse_too_large(made: Plan, memory_bytes: float) -> None:
    """An error, before anything runs, if a task will not fit a worker; it names the setting to change."""
    worst = max(made.stages, key=made.memory_of)
    if made.memory_per_worker > memory_bytes:
        fewer = "[landmarks] count (fewer)"
        advice = {"gram": fewer, "spectrum": fewer, "landmarks": fewer, "metric": fewer}
        advice["near"] = f"{fewer} or smaller chunks of the views"
        raise SettingsError(
            f"stage {worst.name!r} needs {made.memory_per_worker / 2**30:.2f} GiB in each worker and a worker has "
            f"{memory_bytes / 2**30:.2f}. Change {advice.get(worst.name, 'smaller chunks of the views')}, or raise "
            "[cluster] memory_gib."
        )

"""What corrects the guesses: rates that were measured, for every stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

#: Memory of a process before it does anything: Python, NumPy, SciPy, numba, Zarr and Dask.
BASE_BYTES = 260 << 20


@dataclass(frozen=True)
class StageRate:
    """What corrects the guesses for one stage; see the first lines of `dlcca.engine.planning`."""

    task_factor: float = 1.0
    factor: float = 1.0
    opening_s: float = 0.0  # that the first task of each worker takes longer
    client_s: float = 0.0
    client_task_s: float = 0.0
    rest_bytes: float = BASE_BYTES
    extra_bytes: float = 0.0
    repeats: float = 1.0  # how often as many tasks were met as are counted, where their number depends on the data
    tasks: int = 0  # when it was measured
    per_block: bool = False  # whether there were as many tasks as blocks


@dataclass(frozen=True)
class Rates:
    """The rates of all stages, and of what comes before them; as they stand, guesses."""

    stages: Mapping[str, StageRate] = field(default_factory=dict)
    start_s: float = 3.0  # until workers are there, and have imported and compiled what they need
    client_bytes: float = BASE_BYTES  # this process and its helpers, workers left out

    def of(self, stage: str) -> StageRate:
        """The rate of a stage; of one that was not met, that of the plain pass over all blocks, which reads as much."""
        if stage in self.stages or "scan" not in self.stages:
            return self.stages.get(stage, StageRate())
        rest = max(rate.rest_bytes for rate in self.stages.values())
        return replace(self.stages["scan"], rest_bytes=rest, extra_bytes=0.0)

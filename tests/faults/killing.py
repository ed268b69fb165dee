"""What a seed kills, and when: the moment is seen in the store, the process found by its place in the cluster."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.faults.processes import Cluster, workers_below

KINDS = ("worker", "nanny", "scheduler", "client")
#: After the last block that is waited for, the kill follows within so many seconds: about what a block takes.
LONGEST_DELAY_S = 0.08


@dataclass(frozen=True)
class Kill:
    """What a seed says."""

    seed: int
    kind: str
    stage: str
    finished: int  # blocks of the stage that are waited for
    delay_s: float
    which: int  # of two workers or nannies
    separate: bool  # whether scheduler and workers are processes of their own

    @classmethod
    def of(cls, seed: int, blocks: dict[str, int]) -> Kill:
        rng = np.random.default_rng(seed)
        kind = KINDS[seed % len(KINDS)]
        stage = str(rng.choice(list(blocks)))
        return cls(
            seed=seed,
            kind=kind,
            stage=stage,
            finished=int(rng.integers(blocks[stage])),
            delay_s=float(rng.uniform(0, LONGEST_DELAY_S)),
            which=int(rng.integers(2)),
            separate=kind in ("nanny", "scheduler") or bool(rng.integers(2)),
        )


def moment_comes(kill: Kill, store: Path, run: subprocess.Popen[bytes], patience_s: float) -> bool:
    """Wait for the blocks, and then a little."""
    stage, end = store / "stages" / kill.stage, time.monotonic() + patience_s
    while not (stage / "stage.json").exists() or len(_names(stage / "done")) < kill.finished:
        if run.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.002)
    time.sleep(kill.delay_s)
    return run.poll() is None


def _names(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except FileNotFoundError:
        return []


def victim_of(kill: Kill, run: subprocess.Popen[bytes], cluster: Cluster | None) -> int | None:
    """The number of the process to kill."""
    if kill.kind == "client":
        return run.pid
    if kill.kind == "worker":
        nannies = [run.pid] if cluster is None else [nanny.pid for nanny in cluster.nannies]
        workers = [worker.pid for nanny in nannies for worker in workers_below(nanny)]
        return workers[kill.which % len(workers)] if workers else None
    assert cluster is not None
    process = cluster.scheduler if kill.kind == "scheduler" else cluster.nannies[kill.which]
    return None if process is None else process.pid

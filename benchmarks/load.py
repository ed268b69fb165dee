"""Many small blocks and many workers: what the scheduler takes, and what a block takes longer than in a plain loop.

As a program it measures in a process of its own, which is the scheduler, the client and all nannies of a local run:
PYTHONPATH=. python benchmarks/load.py --blocks 2000 --workers 8
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, Took, share, single_threaded

#: Blocks, workers, and rows of a block: so few that opening its files is all there is to it.
BLOCKS, QUICK_BLOCKS, WORKERS, ROWS = 2000, 100, 8, 8
#: What the scheduler may hold, and what a block may take longer.
MEMORY_MB, ADDED_MS = 500, 10
KINDS = ("time", "knn")


def rows(quick: bool) -> Iterator[Row]:
    blocks = QUICK_BLOCKS if quick else BLOCKS
    for kind in KINDS:
        found = measured_apart(kind, blocks, WORKERS)
        text = f"{blocks} blocks of {ROWS} rows, {kind}, {WORKERS} workers"
        memory = found["peak_bytes"] / 1e6
        yield share("load", f"{text}: scheduler, client and nannies, in MB", memory, MEMORY_MB, "< 1", unit="MB")
        added = 1e3 * (found["cluster_s"] - found["loop_s"]) / blocks
        yield share("load", f"{text}: a block takes longer than in a loop by", added, ADDED_MS, "< 1", unit="ms")
        yield share("load", f"{text}: all stages, against a loop", found["cluster_s"], found["loop_s"])
        cpu = found["cluster_cpu_s"], found["loop_cpu_s"]
        yield share("load", f"{text}: the same, of all processors", *cpu, unit="CPU s")
        empty = 1e3 * found["empty_s"] / blocks
        yield share("load", f"{blocks} tasks that do nothing: each", empty, ADDED_MS, "< 1", unit="ms")


def measured_apart(kind: str, blocks: int, workers: int) -> dict[str, float]:
    """What `measured` finds in a new process, whose memory is that of nothing else."""
    asked = ["--kind", kind, "--blocks", str(blocks), "--workers", str(workers)]
    command = [sys.executable, "-m", "benchmarks.load", *asked]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=single_threaded())
    return json.loads(done.stdout)


def measured(kind: str, blocks: int, workers: int) -> dict[str, float]:
    """Seconds of all stages with workers and without, of tasks that do nothing, and the memory of this process."""
    from dlcca.clusters.local import local_client
    from dlcca.engine import scheduler
    from dlcca.fitting import pipeline
    from dlcca.storage.cost import peak_bytes

    with tempfile.TemporaryDirectory() as scratch:
        with local_client(workers=workers) as client:
            warm(client, kind, Path(scratch))
            job = job_of(kind, blocks, Path(scratch) / "workers")
            cluster = took(lambda: pipeline.run(job, client), client)
            empty = took(lambda: list(scheduler.as_completed(nothing, (), range(blocks), client)), client)
            peak = peak_bytes()
        alone = job_of(kind, blocks, Path(scratch) / "loop")
        with threadpool_limits(limits=1):
            loop = took(lambda: pipeline.run(alone))
    times = {"cluster": cluster, "loop": loop, "empty": empty}
    return {
        "peak_bytes": peak,
        **{f"{name}_s": time.wall for name, time in times.items()},
        **{f"{name}_cpu_s": time.cpu for name, time in times.items()},
    }


def job_of(kind: str, blocks: int, folder: Path) -> Any:
    from tests.fitting.jobs import KNN, TIME, recordings, small_job

    folder.mkdir()
    options = {"time": TIME, "knn": KNN}[kind]
    return small_job(folder, recordings(2, blocks * ROWS), ROWS, block_rows=ROWS, **options)


def warm(client: Any, kind: str, folder: Path) -> None:
    """Have every worker import and compile what it needs, and this process too."""
    from dlcca.fitting import pipeline

    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    jobs = [job_of(kind, 20, folder / f"warm{number}") for number in range(len(workers) + 1)]
    tasks = [
        client.submit(pipeline.run, job, pure=False, workers=[worker])
        for job, worker in zip(jobs[1:], workers, strict=True)
    ]
    pipeline.run(jobs[0])
    client.gather(tasks)


def nothing(block: int) -> None:
    """A task that takes no time."""


def took(call: Callable[[], object], client: Any = None) -> Took:
    """Seconds of a call by the clock, and those that this process and all workers spent."""
    before, began = cpu_s(client), time.perf_counter()
    call()
    return Took(time.perf_counter() - began, cpu_s(client) - before)


def cpu_s(client: Any) -> float:
    workers = [] if client is None else client.run(time.process_time).values()
    return time.process_time() + sum(workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="time")
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--workers", type=int, default=WORKERS)
    print(json.dumps(measured(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()

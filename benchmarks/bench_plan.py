"""Calibrate at 10⁴ rows, then hold the plan against real runs at 10⁵ and 10⁶ rows (or as given): time and memory.

Prints actual / predicted, in all and stage by stage; the plan promises a factor of 1.5 in time and 25 % in memory.
"""

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.large import PeakMemory, job_for, write_views
from dlcca.clusters.local import local_client
from dlcca.fitting import calibration, landmarks, planning
from dlcca.fitting.calibration import measured_run

WORKERS = 2


def opened():
    return local_client(workers=WORKERS)


def calibrated(**options):
    """Rates from the first rows of a short recording, and the seconds that it took to get them."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        job = job_for(folder, write_views(folder, calibration.ROWS), **options)
        began = time.perf_counter()
        return calibration.calibrate(job, opened, WORKERS), time.perf_counter() - began


def compare(n, rates, **options):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        job = job_for(folder, write_views(folder, n), **options)
        made = planning.plan(job, WORKERS, rates)
        began = time.perf_counter()
        with PeakMemory() as memory, opened() as client:
            found = measured_run(job, client)
            seconds = time.perf_counter() - began
        _tell(n, made, found, seconds, memory.peak)
        return seconds / made.seconds, memory.peak / made.memory_in_all


def _tell(n, made, found, seconds, peak):
    print(f"n = {n}, {landmarks.count(made.job)} landmarks, {made.workers} workers")
    print(f"  {'stage':<14}{'seconds':>9}{'planned':>9}{'ratio':>7}{'MB':>7}{'planned':>9}{'ratio':>7}")
    missed = set(found) - {stage.name for stage in made.stages}
    if missed:
        print(f"  done and not planned: {', '.join(sorted(missed))}")
    for stage in made.stages:
        if stage.name not in found:
            print(f"  {stage.name:<14}{'not done':>9}{made.seconds_of(stage):>9.2f}")
            continue
        real, wall = found[stage.name], made.seconds_of(stage)
        held = made.memory_of(stage)
        print(
            f"  {stage.name:<14}{real.wall_s:>9.2f}{wall:>9.2f}{real.wall_s / wall:>7.2f}"
            f"{real.peak_bytes / 1e6:>7.0f}{held / 1e6:>9.0f}{real.peak_bytes / held:>7.2f}"
        )
    worker = max(real.peak_bytes for real in found.values())
    print(f"  with the start of the cluster {seconds:.1f} s, planned {made.seconds:.1f}: {seconds / made.seconds:.2f}")
    print(f"  worker {worker / 1e6:.0f} MB, planned {made.memory_per_worker / 1e6:.0f}: ", end="")
    print(f"{worker / made.memory_per_worker:.2f}; all processes {peak / 1e6:.0f} MB, planned ", end="")
    print(f"{made.memory_in_all / 1e6:.0f}: {peak / made.memory_in_all:.2f}", flush=True)


if __name__ == "__main__":
    sizes = [int(float(a)) for a in sys.argv[1:]] or [100_000, 1_000_000]
    rates, took = calibrated()
    print(f"calibrated at {calibration.ROWS} rows in {took:.0f} s; a start takes {rates.start_s:.1f} s", flush=True)
    ratios = {n: compare(n, rates) for n in sizes}
    for n, (in_time, in_memory) in ratios.items():
        kept = 1 / 1.5 <= in_time <= 1.5 and 0.75 <= in_memory <= 1.25
        print(f"n = {n}: time {in_time:.2f}, memory {in_memory:.2f} of the plan: {'kept' if kept else 'NOT KEPT'}")

"""Zarr to Zarr at 10⁵ and 10⁶ rows (or as given): wall time against the bare products of the plan, and peak memory."""

import sys
import tempfile
import time
from pathlib import Path

from dlcca.clients.local import local_client
from dlcca.stages import pipeline
from tests.benchmarks.large import PeakMemory, gemm_seconds, job_for, write_views


def measure(n, workers=2, **options):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        job = job_for(folder, write_views(folder, n), **options)
        with PeakMemory() as memory, local_client(workers=workers) as client:
            done, usual = gemm_seconds(job, client)
            start, parts = time.perf_counter(), {}
            for name, run in pipeline.STAGES.items():
                began = time.perf_counter()
                run(job, client)
                parts[name] = time.perf_counter() - began
            seconds = time.perf_counter() - start
        stages = ", ".join(f"{name} {value:.1f}" for name, value in parts.items())
        print(
            f"n = {n}: {seconds:.1f} s with {workers} workers, {seconds / done:.1f} times the bare products done "
            f"({done:.1f} s) and {seconds / usual:.1f} times those usually counted ({usual:.1f} s); "
            f"peak {memory.peak / 2**30:.2f} GiB in all processes\n    {stages}",
            flush=True,
        )
        return seconds, memory.peak


if __name__ == "__main__":
    sizes = [int(float(a)) for a in sys.argv[1:]] or [100_000, 1_000_000]
    results = {n: measure(n) for n in sizes}
    if len(results) == 2:
        (small, small_peak), (large, large_peak) = results.values()
        print(f"growth: time {large / small:.1f}, memory {large_peak / small_peak:.2f}")

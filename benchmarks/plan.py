"""What `dlcca plan` foretells, after calibrating on a short recording, against what real runs take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

from benchmarks import bench_plan
from benchmarks.measure import Row, share


def rows(quick: bool) -> Iterator[Row]:
    """Both ways: a plan of half the time is as wrong as one of twice the time."""
    with redirect_stdout(sys.stderr):  # stage by stage, for whoever looks for the cause
        rates, _seconds = bench_plan.calibrated()
        found = {n: bench_plan.compare(n, rates) for n in ((20_000,) if quick else (100_000, 1_000_000))}
    for n, (time, memory) in found.items():
        yield share(
            "plan", f"{n:,} rows: time, real and planned, the larger", max(time, 1 / time), 1, "<= 1.5", unit=""
        )
        wrong = abs(memory - 1)
        yield share("plan", f"{n:,} rows: memory, real less planned, as a share of it", wrong, 1, "<= 0.25", unit="")

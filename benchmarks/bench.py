"""One table of ratios, each measured within one run, for people and as JSON.

PYTHONPATH=. python benchmarks/bench.py [--only NAME]... [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    command,
    day,
    dense_kernel,
    every_sample,
    from_the_paper,
    graph,
    ingest,
    load,
    local_metric,
    nightly,
    peers,
    pipeline,
    plan,
    report,
    trust,
    tune,
    windows,
)
from benchmarks.measure import Row, table, write_json

PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "pipeline": pipeline.rows,
    "plan": plan.rows,
    "every": every_sample.rows,
    "kernel": dense_kernel.rows,
    "metric": local_metric.rows,
    "paper": from_the_paper.rows,
    "datafold": peers.rows,
    "command": command.rows,
    "ingest": ingest.rows,
    "day": day.rows,
    "graph": graph.rows,
    "trust": trust.rows,
    "tune": tune.rows,
    "load": load.rows,
    "nightly": nightly.rows,
    "report": report.rows,
    "windows": windows.rows,
}


def main() -> int:
    """Measure what was asked for; 1 if a claim does not hold."""
    asked = arguments()
    rows: list[Row] = []
    for name in asked.only or PARTS:
        began = time.perf_counter()
        rows += PARTS[name](asked.quick)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        write_json(asked.json, rows, quick=asked.quick)  # after every part: what was measured is kept
    print(table(rows))
    print(f"\n{asked.json}" + (": quick, on small inputs, where not every claim is meant to hold" * asked.quick))
    return int(not asked.quick and any(row.holds is False for row in rows))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="a part; may be given again")
    parser.add_argument("--quick", action="store_true", help="small inputs: does the program work?")
    parser.add_argument("--json", type=Path, default=Path("bench-output/bench.json"), metavar="PATH")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

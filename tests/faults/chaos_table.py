"""Many runs that are killed and resumed, and the table of what came of them.

PYTHONPATH=. python tests/faults/chaos_table.py [--seeds 100] [--first 0] [--at-once 3] [--page PAGE]

Several at once: a run that was killed mostly waits, for a scheduler that does not answer or for workers that start.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.faults.chaos import Outcome, Reference, survive, undisturbed
from tests.faults.killing import KINDS, Kill
from tests.support.pages import write_table

#: The table of a page lies between these lines.
BEGIN = "<!-- begin of the table: written by make chaos -->"
HEAD = ("killed", "runs", "finished at the kill", "finished before the resume", "recomputed", "lost", "difference")


def main() -> int:
    """Kill and resume; 1 if a run was not as it should be."""
    asked = arguments()
    outcomes = []
    for outcome in outcomes_of(range(asked.first, asked.first + asked.seeds), asked.at_once):
        outcomes.append(outcome)
        print(line(outcome), flush=True)
    text = table(outcomes)
    print(f"\n{text}")
    if asked.page is not None:
        write_table(asked.page, BEGIN, text)
    return int(not all(outcome.is_unharmed for outcome in outcomes))


def outcomes_of(seeds: Sequence[int], at_once: int = 1) -> Iterator[Outcome]:
    fresh = multiprocessing.get_context("spawn")  # a copy of this process would lack the threads that Zarr waits for
    with (
        tempfile.TemporaryDirectory(prefix="dlcca-chaos-") as scratch,
        ProcessPoolExecutor(at_once, mp_context=fresh) as several,
    ):
        reference = undisturbed(_made(Path(scratch) / "undisturbed"))
        yield from several.map(partial(_outcome, reference, Path(scratch)), seeds)


def _outcome(reference: Reference, scratch: Path, seed: int) -> Outcome:
    folder = _made(scratch / str(seed))
    found = survive(Kill.of(seed, reference.blocks), reference, folder)
    shutil.rmtree(folder)
    return found


def line(outcome: Outcome) -> str:
    """One run."""
    kill = outcome.kill
    where = "separate" if kill.separate else "local"
    text = (
        f"seed {kill.seed}: {kill.kind} ({where}) killed in {outcome.hit}, {outcome.at_kill} blocks finished, "
        f"{outcome.before} before the resume, {outcome.recomputed} recomputed, {outcome.lost} lost, "
        f"difference {outcome.difference:.1e}, {outcome.seconds:.1f} s"
    )
    return "\n    ".join([text, *(f"FAULT: {fault}" for fault in outcome.faults)])


def table(outcomes: Sequence[Outcome]) -> str:
    """All runs by what was killed, and the stages that were hit; in Markdown."""
    rows = [_row(kind, [o for o in outcomes if o.kill.kind == kind]) for kind in KINDS]
    if len(outcomes) > 1:
        rows.append(_row("all", outcomes))
    hit = Counter(outcome.hit for outcome in outcomes)
    stages = ", ".join(f"{stage} {count}" for stage, count in hit.most_common())
    harmed = [outcome.kill.seed for outcome in outcomes if not outcome.is_unharmed]
    return "\n".join(
        [
            _cells(HEAD),
            _cells(["---"] * len(HEAD)),
            *(_cells(row) for row in rows if row[1] != "0"),
            "",
            f"Stages that were hit: {stages}.",
            f"Runs that were not as they should be: {', '.join(map(str, harmed)) or 'none'}.",
        ]
    )


def _row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    sums = [sum(getattr(o, what) for o in outcomes) for what in ("at_kill", "before", "recomputed", "lost")]
    largest = max((o.difference for o in outcomes), default=0.0)
    return [name, str(len(outcomes)), *map(str, sums), f"{largest:.1e}" if largest else "0"]


def _cells(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--at-once", type=int, default=3, help="runs that are killed at the same time")
    parser.add_argument("--page", type=Path, help="a page whose table is written anew")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

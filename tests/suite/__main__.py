"""``python -m tests.suite [--only WORD] [--ours] [--rows 1000 2000] [--large 20000] [--kept FILE] [--page PAGE]``: the
table of all problems and methods."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.suite.keeping import Kept
from tests.suite.methods import METHODS, OURS
from tests.suite.problems import LARGE, SMALL, Problem, everything
from tests.suite.scoring import Score, best
from tests.support.pages import write_table

BEGIN = "<!-- begin of the table: written by make suite -->"
#: What a static problem needs at no more noise than this, and how far from the best of the others any may be.
LITTLE_NOISE, LEAST_FOUND, MOST_LEAK, BEHIND = 0.02, 0.99, 0.03, 0.01
Scores = dict[str, Score]


def main() -> int:
    asked = arguments()
    names = [OURS] if asked.ours else list(METHODS)
    lines = [cells(["problem", "rows", "noise", *names, "held?"]), cells(["---"] * (len(names) + 4))]
    print("\n".join(lines), flush=True)
    failed, kept = 0, Kept(asked.kept)
    for problem in everything(asked.rows, asked.large):
        if asked.only not in problem.name:
            continue
        reached = dict(scores(problem, names, kept))
        why = shortfall(problem, reached)
        failed += bool(why)
        each = [str(reached[name]) if name in reached else "–" for name in names]
        lines.append(cells([problem.name, str(problem.n), f"{problem.noise:.0%}", *each, why or "yes"]))
        print(lines[-1], flush=True)
    if asked.page is not None:
        write_table(asked.page, BEGIN, "\n".join(lines))
    return int(failed > 0)


def scores(problem: Problem, names: Sequence[str], kept: Kept) -> Iterator[tuple[str, Score]]:
    for name in names:
        score = kept.score(problem, name, _score) if name != OURS else _score(problem, name)
        if score is not None:
            yield name, score


def _score(problem: Problem, name: str) -> Score | None:
    """None where a method cannot be asked."""
    tried = METHODS[name](problem)
    return best(problem, tried) if tried else None


def shortfall(problem: Problem, reached: Scores) -> str:
    """What a problem does not hold of what is asked; "" if all."""
    ours = reached[OURS]
    found = []
    if not problem.movie and problem.noise <= LITTLE_NOISE and ours.found < LEAST_FOUND:
        found.append(f"R² {ours.found:.3f} < {LEAST_FOUND}")
    if not problem.movie and problem.noise <= LITTLE_NOISE and ours.leak > MOST_LEAK:
        found.append(f"leak {ours.leak:.3f} > {MOST_LEAK}")
    for name, theirs in reached.items():
        if theirs.found > ours.found + BEHIND:
            found.append(f"behind {name}")
    return "; ".join(found)


def cells(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="problems whose name has this in it")
    parser.add_argument("--ours", action="store_true", help="local CCA alone")
    parser.add_argument("--rows", type=int, nargs="+", default=SMALL)
    parser.add_argument("--large", type=int, default=LARGE)
    parser.add_argument("--kept", type=Path, help="a file for the scores of the other methods, read if it is there")
    parser.add_argument("--page", type=Path, help="a page whose table is written anew")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

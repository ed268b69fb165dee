"""``python -m tests.suite.growth [--rows 5000 100000] [--landmarks auto 500] [--page PAGE]``: quality against rows.

With more rows of the same problem the common variable must be found at least as well, and no private variable may leak
into the coordinates. The table has a line for each problem, noise and number of landmarks, and a column for each number
of rows. A cell is the R² of the common variable / of the private variable that the two coordinates hold most.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca import LocalCCA
from tests.suite.__main__ import LEAST_FOUND, MOST_LEAK, cells
from tests.suite.problems import STATIC
from tests.suite.scoring import Score
from tests.support.pages import write_table
from tests.support.scores import recovery

BEGIN = "<!-- begin of the table: written by make suite -->"
ROWS = (5_000, 20_000, 100_000, 1_000_000)
NOISES = (0.0, 0.02)
#: Held-out rows that are scored: R² by ten nearest neighbours depends on how many there are.
SCORED = 5_000
#: How much an R² may fall, or a leak rise, from fewer rows to more.
MOST_WORSE = 0.01


def sheared_and_wound(n: int, *, noise: float = 0.0, random_state: int = 0) -> tuple[list[NDArray], Any]:
    """X = (2z + e, 2z + 3e) and Y = (z + h/5)(cos 20z, sin 20z): a wound view whose private variable is its radius."""
    from dlcca.simulate.truth import Truth, with_noise

    rng = np.random.default_rng(random_state)
    z, e, h = rng.uniform(0, 1, (3, n))
    X = np.column_stack([2 * z + e, 2 * z + 3 * e])
    Y = (z + h / 5)[:, None] * np.column_stack([np.cos(20 * z), np.sin(20 * z)])
    return with_noise([X, Y], noise, rng), Truth(z=z[:, None], nuisance=[e[:, None], h[:, None]])


PROBLEMS: dict[str, Callable[..., tuple[list[NDArray], Any]]] = {**STATIC, "sheared and wound": sheared_and_wound}


def measured(make: Callable[..., Any], n: int, noise: float, landmarks: Any) -> Score:
    """The score of two coordinates with the defaults, over some rows spread evenly."""
    views, truth = make(n, noise=noise, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LocalCCA(neighborhoods="knn", landmarks=landmarks, random_state=0).fit(views)
    some = np.linspace(0, n - 1, min(n, SCORED)).astype(int)
    E = model.embedding_[some]
    leak = max(recovery(E, e[some]) for e in truth.nuisance)
    return Score(float(recovery(E, truth.z[some])), float(max(leak, 0.0)))


def shortfall(scores: list[Score]) -> str:
    """What a line does not hold of what is asked; "" if all."""
    found = [f"R² {s.found:.3f} < {LEAST_FOUND}" for s in scores if s.found < LEAST_FOUND]
    found += [f"leak {s.leak:.3f} > {MOST_LEAK}" for s in scores if s.leak > MOST_LEAK]
    if any(b.found < a.found - MOST_WORSE or b.leak > a.leak + MOST_WORSE for a, b in itertools.pairwise(scores)):
        found.append("worse with more rows")
    return "; ".join(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name has this in it")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--noise", type=float, nargs="+", default=NOISES)
    parser.add_argument("--landmarks", nargs="+", default=["auto"], help='"auto" or numbers')
    parser.add_argument("--page", type=Path, help="a page whose table is written anew")
    asked = parser.parse_args()
    lines = [cells(["problem", "noise", "landmarks", *(f"{n:,}" for n in asked.rows), "held?"])]
    lines.append(cells(["---"] * (len(asked.rows) + 4)))
    print("\n".join(lines), flush=True)
    failed = 0
    for noise in asked.noise:
        for name, make in PROBLEMS.items():
            for landmarks in asked.landmarks if asked.only in name else ():
                count = landmarks if landmarks == "auto" else int(landmarks)
                scores = [measured(make, n, noise, count) for n in asked.rows]
                why = shortfall(scores)
                failed += bool(why)
                lines.append(cells([name, f"{noise:.0%}", landmarks, *map(str, scores), why or "yes"]))
                print(lines[-1], flush=True)
    if asked.page is not None:
        write_table(asked.page, BEGIN, "\n".join(lines))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

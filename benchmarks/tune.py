"""Whether `dlcca.tune` finds good options from poor ones: the problems of the suite, with seeds of their own.

Best known are the options that the suite has, with which every problem of it is solved.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dlcca.inspection.tuning
from benchmarks.measure import Row, share, timed
from dlcca import LocalCCA
from tests.suite.problems import LARGE, NOISES, SMALL, Problem, icons, pendulums, static, uneven, wide
from tests.suite.scoring import Score, score

#: From where it begins, in turn.
POOR_STATE: list[dict[str, Any]] = [
    {"n_neighbors": 10, "ridge": 1.0, "bandwidth": "median", "n_links": 4, "fusion": "view"},
    {"n_neighbors": 400, "ridge": 1e-6, "bandwidth": "median", "n_links": 4, "fusion": "average"},
]
POOR_TIME: list[dict[str, Any]] = [
    {"window": 3, "ridge": 1.0, "bandwidth": "median", "n_links": 4, "fusion": "alternating"},
    {"window": 200, "ridge": 1e-6, "bandwidth": "median", "n_links": 4, "fusion": "average"},
]
WITHIN, SEED = 0.02, 23


@dataclass(frozen=True)
class Outcome:
    """Of one problem: with the best known options, with those chosen, and with those that it began with."""

    problem: Problem
    known: Score
    tuned: Score
    begun: Score | None  # None where windows are so long that a fit takes minutes
    cost: float

    def __str__(self) -> str:
        begun = "" if self.begun is None else f", begun {self.begun}"
        name = f"{self.problem.name}, {self.problem.n} rows, noise {self.problem.noise:.0%}"
        return f"{name}: known {self.known}, tuned {self.tuned}{begun}, cost {self.cost:.1f}"


def rows(quick: bool) -> Iterator[Row]:
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = []
        for turn, problem in enumerate(problems(quick)):
            found.append(outcome(problem, turn))
            print(found[-1], file=sys.stderr, flush=True)
    begun = [good(one.begun, one.known) for one in found if one.begun is not None]
    tuned = float(np.mean([good(one.tuned, one.known) for one in found]))
    costs = [one.cost for one in found]
    yield share("tune", f"{len(begun)} poor starts that are as good as the best known", np.mean(begun), None, unit="")
    yield share("tune", f"{len(found)} problems tuned to {WITHIN} of the best known", tuned, 1.0, ">= 0.9", unit="")
    yield share("tune", "cost in fits, the median", float(np.median(costs)), 1.0, "<= 5", unit="fits")
    yield share("tune", "cost in fits, the most", max(costs), 1.0, "<= 5", unit="fits")


def problems(quick: bool) -> Iterator[Problem]:
    """The suite's; of the large ones some, which take long."""
    if quick:
        return chain(list(static(500, 0.02, SEED))[:2], list(pendulums(0.02, SEED))[:1])
    small = [kind(max(SMALL), noise, SEED) for kind in (static, uneven) for noise in NOISES]
    movies = [kind(noise, SEED) for kind in (pendulums, icons) for noise in NOISES]
    large = (problem for problem in static(LARGE, 0.02, SEED) if problem.name in ("spiral", "swiss roll", "linear"))
    return chain(*movies, *small, large, *(wide(max(SMALL), noise, SEED) for noise in NOISES))


def outcome(problem: Problem, turn: int) -> Outcome:
    poor = (POOR_TIME if problem.movie else POOR_STATE)[turn % 2]
    found: list[dlcca.inspection.tuning.Tuned] = []
    took = timed(lambda: found.append(dlcca.tune(problem.views, start={**problem.options, **poor})))
    fits: dict[str, Any] = {}
    fit = timed(lambda: fits.update(tuned=embedding(problem, found[0].options)))
    heavy = problem.movie or problem.views[0].shape[1] > 10 or problem.n > max(SMALL)
    return Outcome(
        problem,
        score(problem, embedding(problem, problem.options)),
        score(problem, fits["tuned"]),
        None if heavy else score(problem, embedding(problem, {**problem.options, **poor})),
        took.cpu / fit.cpu,
    )


def embedding(problem: Problem, options: dict[str, Any]) -> Any:
    return LocalCCA(**options, random_state=0).fit(problem.views).embedding_


def good(reached: Score, known: Score) -> bool:
    """Both what is found and what leaks."""
    return reached.found >= known.found - WITHIN and reached.leak <= known.leak + WITHIN

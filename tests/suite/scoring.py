"""How much of the common variable coordinates hold, and how much of what is private."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.suite.problems import Problem
from tests.support.scores import likeness, power_shares, recovery


@dataclass(frozen=True)
class Score:
    """Of the common variable, and of the private one that is held most; both from 0 to 1."""

    found: float
    leak: float

    def __str__(self) -> str:
        return f"{self.found:.3f} / {self.leak:.3f}"


def score(problem: Problem, E: NDArray) -> Score:
    """Static problems: held-out R² by ten nearest neighbours. Movies: of the first coordinate alone, |correlation|
    with the pendulum, or the share of its power at the speed of the common icon."""
    if problem.speeds is not None:
        return Score(*power_shares(E[:, 0], problem.speeds, 1))
    if problem.movie:
        return Score(likeness(E[:, 0], problem.z), max((likeness(E[:, 0], e) for e in problem.nuisance), default=0.0))
    leak = max(recovery(E, e) for e in problem.nuisance)
    return Score(float(recovery(E, problem.z)), float(np.maximum(leak, 0.0)))


def best(problem: Problem, tried: list[NDArray]) -> Score:
    """The best of several numbers of coordinates, by the truth: what a peer could reach if its user knew."""
    return max((score(problem, E) for E in tried), key=lambda reached: reached.found - reached.leak)

"""Scores of the other methods, kept from one run of the suite to the next: they take most of its time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.suite.problems import Problem
from tests.suite.scoring import Score


class Kept:
    """Scores by problem and method, in a JSON file; without a file, nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def score(self, problem: Problem, method: str, ask: Callable[[Problem, str], Score | None]) -> Score | None:
        """That of an earlier run, or what is found now; None where a method cannot be asked."""
        key = f"{method} on {problem.name}, {problem.n} rows, noise {problem.noise}"
        if key not in self._found:
            score = ask(problem, method)
            self._found[key] = None if score is None else [score.found, score.leak]
            if self._path is not None:
                self._path.write_text(json.dumps(self._found, indent=0))
        return None if self._found[key] is None else Score(*self._found[key])

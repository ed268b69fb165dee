"""Local CCA with its defaults, and those it is held against with whatever suits them best."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import NoPeer, environment, run_peer
from dlcca import LocalCCA, baselines
from tests.suite.problems import Problem

OURS = "local CCA"
#: Methods that hold a matrix of all pairs of samples are not asked for more of them.
MOST_PAIRED, MOST_JOINTLY_SMOOTH = 5000, 2500
#: Coordinates that are tried of a peer; the best by the truth counts.
TRIED = (1, 2, 3, 5, 9)

#: Coordinates of a problem, several to choose from; none where a method cannot be asked.
Method = Callable[[Problem], list[NDArray]]


def local_cca(problem: Problem) -> list[NDArray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [LocalCCA(random_state=0, **problem.options).fit(problem.views).embedding_]


def _baseline(method: Callable[..., Any], most: int, **options: Any) -> Method:
    def coordinates(problem: Problem) -> list[NDArray]:
        if problem.n > most:
            return []
        narrowest = sorted(int(np.linalg.matrix_rank(X - X.mean(axis=0))) for X in problem.views)[-2]
        limit = narrowest if method is baselines.linear_cca else max(TRIED)
        E = method(problem.views, min(max(TRIED), limit), **options).embedding
        return [E[:, :q] for q in TRIED if q <= E.shape[1]]

    return coordinates


def _linear(problem: Problem) -> list[NDArray]:
    """Without a ridge where samples are many, and with one."""
    plain = [] if problem.movie else _baseline(baselines.linear_cca, 10**9)(problem)
    return plain + _baseline(baselines.linear_cca, 10**9, ridge=0.03)(problem)


def _diffusion_of_all(problem: Problem) -> list[NDArray]:
    return _baseline(lambda views, q: baselines.diffusion_maps(views, q, view="all"), MOST_PAIRED)(problem)


def jointly_smooth(problem: Problem) -> list[NDArray]:
    python = _datafold()
    if python is None or problem.n > MOST_JOINTLY_SMOOTH:
        return []
    try:
        E = run_peer(python, "jointly smooth", problem.views).coordinates
    except RuntimeError as why:  # its solver does not converge on some movies
        print(f"JointlySmoothFunctions on {problem.name}: {str(why).strip().splitlines()[-1]}", file=sys.stderr)
        return []
    return [E[:, :q] for q in TRIED]


@cache
def _datafold() -> Path | None:
    try:
        return environment()
    except NoPeer as why:
        print(f"JointlySmoothFunctions is left out: {why}", file=sys.stderr)
        return None


METHODS: dict[str, Method] = {
    OURS: local_cca,
    "linear CCA": _linear,
    "kernel CCA": _baseline(baselines.kernel_cca, MOST_PAIRED),
    "alternating diffusion": _baseline(baselines.alternating_diffusion, MOST_PAIRED),
    "diffusion maps": _diffusion_of_all,
    "JointlySmoothFunctions": jointly_smooth,
}

"""Quality beside other methods on problems whose answer is known; prints the table of docs/explanation/peers.md.

    python -m benchmarks.peers_table [rows]

Each method gives two coordinates (JointlySmoothFunctions the best of 2, 3, 5 and 9 functions, by the truth). A cell is
the held-out R² of the common variable / of what is private to a view, the larger of the two views.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator

from numpy.typing import NDArray

from benchmarks.peers import TRIED, NoPeer, environment, run_peer
from dlcca import LocalCCA, baselines, simulate
from dlcca.simulate import Truth
from tests.support.scores import recovery

Problem = tuple[list[NDArray], Truth]


def problems(n: int) -> Iterator[tuple[str, Problem]]:
    """Each has a common variable and private ones in both views; none is ordered in time."""
    for noise in (0.0, 0.1):
        said = f", noise {noise:.0%}" if noise else ""
        yield f"torus{said}", simulate.torus(n, noise=noise, random_state=0)
        yield f"spiral{said}", simulate.spiral(n, noise=noise, random_state=0)
        yield f"swiss roll{said}", simulate.swiss_roll(n, noise=noise, random_state=0)
        yield f"linear{said}", simulate.linear(n, noise=noise, random_state=0)


def methods() -> Iterator[tuple[str, Callable[[Problem], NDArray]]]:
    """Name and coordinates of a problem."""
    yield "**dlcca**", lambda problem: local_cca(problem[0])
    yield "linear CCA", lambda problem: baselines.linear_cca(problem[0]).embedding
    yield "linear CCA, the first variate alone", lambda problem: baselines.linear_cca(problem[0], 1).embedding
    yield "kernel CCA", lambda problem: baselines.kernel_cca(problem[0]).embedding
    yield "alternating diffusion", lambda problem: baselines.alternating_diffusion(problem[0]).embedding
    yield "diffusion maps of the first view", lambda problem: baselines.diffusion_maps(problem[0]).embedding
    try:
        python = environment()
    except NoPeer as why:
        print(f"without datafold: {why}", file=sys.stderr)
        return

    def jointly_smooth(problem: Problem) -> NDArray:
        views, truth = problem
        found = run_peer(python, "jointly smooth", views).coordinates
        return found[:, : max(TRIED, key=lambda q: recovery(found[:, :q], truth.z))]

    yield "datafold's JointlySmoothFunctions", jointly_smooth


def local_cca(views: list[NDArray]) -> NDArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LocalCCA(neighborhoods="knn", random_state=0).fit(views).embedding_


def cell(embedding: NDArray, truth: Truth) -> str:
    """R² of what is common / of what is private."""
    private = [recovery(embedding, nuisance) for nuisance in truth.nuisance if nuisance is not None]
    both = (recovery(embedding, truth.z), max(0.0, *private))
    return " / ".join(f"{value:.2f}" for value in both)


def main(n: int) -> None:
    given = list(problems(n))
    print("| |", " | ".join(name for name, _ in given), "|")
    print("|---" * (len(given) + 1) + "|")
    for name, coordinates in methods():
        print(f"| {name} |", end="", flush=True)
        for _, problem in given:
            print(f" {cell(coordinates(problem), problem[1])} |", end="", flush=True)
        print()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)

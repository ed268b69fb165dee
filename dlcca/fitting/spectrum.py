"""The diffusion eigenproblem: from Gram matrices of the kernels, or without any, by block Lanczos."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.engine.work import OnProgress, do_missing
from dlcca.errors import SettingsError
from dlcca.fitting import gram, kernel, lanczos, landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.kernels import gram_components
from dlcca.trust.quality import CONNECTED
from dlcca.trust.select_coordinates import SPARE, Chosen, select_coordinates

#: Below it an eigenvalue is rounding: singular values come as roots of numbers that are known to 1e-16.
LEAST_EIGENVALUE = 1e-7
#: Steps of Lanczos, as a plan counts them.
LANCZOS_STEPS = 20
#: From this number of landmarks on the matrices are solved with all cores: smaller ones take longer with more threads.
THREADED_LANDMARKS = 1500


def _find(job: Job, stage: Blocks, client: Any, on_progress: OnProgress | None) -> None:
    """Solve: in a task, from the matrices of all groups, or here, with products that are passes over the samples."""
    if job.options["solver"] == "gram":
        do_missing(solve, job, stage, client, on_progress)
        return
    S, values = lanczos.solved(job, n_solved(job), client, on_progress)
    # Every piece has an eigenvalue of one; of more pieces than were solved for, as many as there are.
    write(job, stage, S, values, int((S > CONNECTED).sum()))
    if on_progress is not None:
        on_progress(stage.name, 1, 1)


def solve(job: Job, stage: Blocks, block: int) -> None:
    """The spectrum from the sum of all groups, in their order."""
    grams, degrees = gram.totals(job)
    with threads(job):
        S, values = job.fusion.from_grams(grams, n_solved(job), degrees)
    pieces = gram_components(grams) if (S[1:] > CONNECTED).any() else np.ones(1)
    write(job, stage, S, values, len(pieces), 1 - float(pieces[0] / pieces.sum()))


def threads(job: Job) -> AbstractContextManager[Any]:
    """All cores for the only task there is, for which the other workers of this machine wait, if it has much to do."""
    if landmarks.count(job) < THREADED_LANDMARKS:
        return nullcontext()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return threadpool_limits(limits=cores)


def n_solved(job: Job) -> int:
    """Coordinates that are solved for: some more than are given (see `trust.select_coordinates`)."""
    return min(job.q + SPARE, landmarks.count(job) - 1) if is_selected(job) else job.q


def is_selected(job: Job) -> bool:
    """Whether the coordinates are eigenfunctions, and harmonics and outliers among them are replaced."""
    return job.fusion.has_spare and job.coordinates.are_eigenfunctions


def write(job: Job, stage: Blocks, S: NDArray, values: list[NDArray], pieces: int, stray: float | None = None) -> None:
    """Keep those of the solved coordinates that are given: the eigenvalues, the trivial 1 first, and the values.

    ``stray`` is the share of the landmarks outside the largest connected component; None if it is not known.
    """
    q = job.q
    found = int((S[: q + 1] > LEAST_EIGENVALUE).sum()) - 1
    if found < q:  # what is beyond is rounding
        raise SettingsError(
            f"n_components={q}, but the kernel has rank {found + 1}: ask for at most {found}, or widen the bandwidth."
        )
    chosen = Chosen(list(range(q)), 0)
    if is_selected(job):
        known = int((S > LEAST_EIGENVALUE).sum()) - 1
        E = np.mean(values, axis=0)[:, :known]
        chosen = select_coordinates(E, S[1 : known + 1], q, pieces_above=CONNECTED)
    kept = {f"values_{v}": (0, V[:, chosen.columns]) for v, V in enumerate(values)}
    given = S[[0, *(c + 1 for c in chosen.columns)]]
    facts = {"outliers": chosen.outliers, "pieces": pieces, "stray": stray}
    stage.write(0, {"eigenvalues": (0, given), **kept}, facts)


def eigenvalues(job: Job) -> NDArray[np.float64]:
    """With the trivial 1 first."""
    return SPECTRUM.of(job).read("eigenvalues", 0)


def values(job: Job) -> list[NDArray[np.float64]]:
    """The values (m, q) of the landmarks in each kernel."""
    stage = SPECTRUM.of(job)
    return [stage.read(f"values_{v}", 0) for v in job.kernels]


def _arrays(job: Job) -> Arrays:
    m, q = landmarks.count(job), job.q
    values = {f"values_{v}": ((m, q), "float64", m) for v in job.kernels}
    return {**values, "eigenvalues": ((q + 1,), "float64", q + 1)}


def _cost(job: Job) -> dict[str, float]:
    if job.options["solver"] == "lanczos":
        # As many vectors as requested coordinates; how many passes depends on the data.
        return lanczos.passes_cost(job, LANCZOS_STEPS * 2 * len(job.kernels), job.q + 1)
    return {"decompositions": (13 + 2 * len(job.kernels)) * float(landmarks.count(job)) ** 3, **gram.read_cost(job)}


SPECTRUM = Stage(
    "spectrum",
    after=[kernel.BANDWIDTH, gram.GRAM],
    options=["n_components", "normalization", "coordinates"],
    constants=[SPARE],
    arrays=_arrays,
    cost=_cost,
    drive=_find,
    scratch=[lanczos.NAME],
    reads="the L x L matrices, or products by Lanczos",
    leaves="coordinates of the landmarks, and the eigenvalues",
)

"""The diffusion eigenproblem: from Gram matrices of the kernels, or without any, by block Lanczos."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import bandwidth, draft_model, gram, in_memory, lanczos, landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.affinity import inverse_root
from dlcca.numerics.alternating import landmark_values, solve_grams
from dlcca.numerics.spectrum import largest_pairs
from dlcca.storage import cost
from dlcca.storage.files import files_at
from dlcca.trust.select_coordinates import SPARE

#: Steps of Lanczos, as a plan counts them.
LANCZOS_STEPS = 20


def _find(job: Job, stage: Blocks, client: Any, tell: Tell | None) -> None:
    """Solve: in a task, from the matrices of all groups, or here, with products that are passes over the samples."""
    if job.options["solver"] == "gram":
        do_missing(solve, job, stage, client, tell)
        return
    if stage.missing():
        products = lanczos.Products(job, n_solved(job), client, tell)
        S, values = lanczos.solved(job, products, n_solved(job))
        cost.collected(products.stage.cost())  # of what is removed below
        write(job, stage, S, values)
    files_at(job.address).remove(f"stages/{lanczos.NAME}")
    if tell is not None:
        tell(stage.name, 1, 1)


def solve(job: Job, stage: Blocks, block: int) -> None:
    """The spectrum from the sum of all groups, in their order."""
    grams, columns, roots = gram.totals(job)
    q = n_solved(job)
    with threadpool_limits(limits=os.cpu_count()):  # the only task there is: the other workers of this machine wait
        if job.options["fusion"] == "alternating":
            S, onto, sizes = solve_grams(grams, q, job.n)
            values = [landmark_values(t, C, size) for t, C, size in zip(onto, columns, sizes, strict=True)]
        else:
            S, vectors = largest_pairs(grams[0, 0], q + 1)
            values = [vectors[:, 1:] * roots[0][:, None] * np.sqrt(job.n) * inverse_root(np.maximum(S[1:], 0))]
    write(job, stage, S, values)


def n_solved(job: Job) -> int:
    """Coordinates that are solved for: some more than are given (see `trust.select_coordinates`)."""
    return in_memory.n_solved(int(job.options["n_components"]), landmarks.count(job), job.options["fusion"])


def write(job: Job, stage: Blocks, S: NDArray, values: list[NDArray]) -> None:
    """Keep those of the solved coordinates that are given: the eigenvalues, the trivial 1 first, and the values."""
    q = int(job.options["n_components"])
    in_memory.refuse_rounding(S[: q + 1])
    chosen = in_memory.chosen_coordinates(values, S, q)
    kept = {f"values_{v}": (0, V[:, chosen.columns]) for v, V in enumerate(values)}
    given = S[[0, *(c + 1 for c in chosen.columns)]]
    stage.write(0, {"eigenvalues": (0, given), **kept}, {"outliers": chosen.outliers})


def eigenvalues(job: Job) -> NDArray[np.float64]:
    """With the trivial 1 first."""
    return SPECTRUM.of(job).read("eigenvalues", 0)


def outliers(job: Job) -> int:
    """Coordinates that were left out because few rows carry them."""
    return int(SPECTRUM.of(job).facts(0)["outliers"])


def values(job: Job) -> list[NDArray[np.float64]]:
    """The values (m, q) of the landmarks in each kernel."""
    stage = SPECTRUM.of(job)
    return [stage.read(f"values_{v}", 0) for v in draft_model.kernels(job)]


def _arrays(job: Job) -> Arrays:
    m, q = landmarks.count(job), int(job.options["n_components"])
    values = {f"values_{v}": ((m, q), "float64", m) for v in draft_model.kernels(job)}
    return {**values, "eigenvalues": ((q + 1,), "float64", q + 1)}


def _cost(sizes: Sizes) -> StagePlan:
    if sizes.solver == "lanczos":
        return _lanczos_cost(sizes)
    one = float(sizes.m) ** 2 * 8
    return StagePlan(
        "spectrum",
        1,
        decompositions=(13 + 2 * sizes.kernels) * float(sizes.m) ** 3,
        reads=sizes.gram_groups * sizes.gram_pairs * one,
        memory=(sizes.gram_pairs + 6) * one,
    )


def _lanczos_cost(sizes: Sizes) -> StagePlan:
    """Passes over all samples, with as many vectors as coordinates are wanted; how many passes, the data decides."""
    passes, groups, vectors = LANCZOS_STEPS * 2 * sizes.kernels, sizes.gram_groups, sizes.q + 1
    entries = float(sizes.n) * (sizes.kept or sizes.m)
    b, moved = min(sizes.rows, sizes.n), float(sizes.m) * vectors * 8
    dense = 0 if sizes.kept else 1
    return StagePlan(
        "spectrum",
        passes * groups,
        additions=passes * 2 * entries * vectors,
        products=passes * dense * sizes.dense_products,
        reads=passes * (groups * moved + (sizes.pass_bytes if dense else entries * (4 + sizes.itemsize))),
        writes=passes * groups * moved,
        fixed=2 * moved,
        memory=6 * moved
        + b * sizes.kept * 40.0
        + dense * (sizes.reading_bytes + sizes.model_bytes + 3 * sizes.dense_tile)
        + (0 if dense else min(lanczos.KEPT_BYTES, entries * 12.0 * sizes.kernels)),
    )


SPECTRUM = Stage(
    "spectrum",
    after=[bandwidth.BANDWIDTH, gram.GRAM],
    options=["n_components", "normalization"],
    constants=[SPARE],
    arrays=_arrays,
    says=lambda job: f"{job.options['n_components']} coordinates",
    cost=_cost,
    drive=_find,
    scratch=[lanczos.NAME],
    reads="the L x L matrices, or products by Lanczos",
    leaves="coordinates of the landmarks, and the eigenvalues",
)

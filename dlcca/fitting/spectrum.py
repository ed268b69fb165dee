"""The diffusion eigenproblem from m x m matrices, added up over groups of blocks in a fixed order."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import bandwidth, in_memory, kernel, landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.affinity import inverse_root, relative_rows
from dlcca.numerics.alternating import gram_pairs, landmark_values, solve_grams
from dlcca.numerics.grams import add_gram
from dlcca.numerics.spectrum import largest_pairs
from dlcca.storage.blocks import Stage
from dlcca.trust.select_coordinates import SPARE

#: Groups of blocks whose matrices are kept: few, because each is m x m, but enough for a cluster to share.
FEWEST_GROUPS, MOST_GROUPS, BLOCKS_OF_GROUP = 4, 64, 4


def groups(job: Job) -> list[range]:
    """Neighbouring blocks that are added up by one task: the same ones whatever the cluster."""
    wanted = int(np.clip(job.n_blocks // BLOCKS_OF_GROUP, FEWEST_GROUPS, MOST_GROUPS))
    edges = np.linspace(0, job.n_blocks, min(wanted, job.n_blocks) + 1).astype(int)
    return [range(a, b) for a, b in pairwise(edges)]


def depends(job: Job) -> list[Any]:
    return [*kernel.depends(job), job.options["bandwidth"], job.options["normalization"]]


def bandwidth_stage(job: Job) -> Stage:
    return job.stage("bandwidth", depends(job), 1)


def gram_stage(job: Job) -> Stage:
    # Whole products: earlier versions kept halves of symmetric ones, which must not be taken for these.
    return job.stage("gram", [*depends(job), "whole"], len(groups(job)))


def stage_of(job: Job) -> Stage:
    return job.stage("spectrum", [*depends(job), job.options["n_components"], SPARE], 1)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """The bandwidth, and the solution: from the matrices of every group that has none yet, or without any matrix."""
    _settle_bandwidth(job, client, tell)
    if job.options["solver"] == "lanczos":
        from dlcca.fitting import lanczos  # which takes its groups and its rows from here

        return lanczos.run(job, client, tell)
    m, q = landmarks.count(job), int(job.options["n_components"])
    many = len(groups(job))
    arrays: dict[str, Any] = {f"gram_{u}_{v}": ((many * m, m), "float64", m) for u, v in _pairs(job)}
    arrays |= {f"columns_{v}": ((many, m), "float64", 1) for v in kernel.kernels(job)}
    do_missing(add_group, job, gram_stage(job).prepare(arrays, says=f"{m} landmarks"), client, tell)
    do_missing(solve, job, stage_of(job).prepare(solved_arrays(job), says=f"{q} coordinates"), client, tell)


def solved_arrays(job: Job) -> dict[str, Any]:
    """What the stage "spectrum" holds, whoever has solved it."""
    m, q = landmarks.count(job), int(job.options["n_components"])
    values: dict[str, Any] = {f"values_{v}": ((m, q), "float64", m) for v in kernel.kernels(job)}
    return values | {"eigenvalues": ((q + 1,), "float64", q + 1)}


def _pairs(job: Job) -> list[tuple[int, int]]:
    return gram_pairs(job.K) if job.options["fusion"] == "alternating" else [(0, 0)]


def _settle_bandwidth(job: Job, client: Any, tell: Tell | None) -> None:
    stage = bandwidth_stage(job).prepare({}, says=f"bandwidth {job.options['bandwidth']}")
    if stage.missing():
        stage.write(0, {}, {"sigma": bandwidth.bandwidths(job, client, tell)})


def sigmas(job: Job) -> list[float]:
    return bandwidth_stage(job).facts(0)["sigma"]


def add_group(job: Job, stage: Stage, group: int) -> None:
    """The matrices RᵀR of a group's blocks, with R the kernels whose rows sum to one."""
    m = landmarks.count(job)
    grams = {pair: np.zeros((m, m)) for pair in _pairs(job)}
    columns = [np.zeros(m) for _ in kernel.kernels(job)]
    for block in groups(job)[group]:
        add = _add_sparse if kernel.is_sparse(job) else _add_dense
        add(job, block, grams, columns)
    parts: dict[str, tuple[int, NDArray]] = {f"gram_{u}_{v}": (group * m, G) for (u, v), G in grams.items()}
    parts |= {f"columns_{v}": (group, c[None]) for v, c in enumerate(columns)}
    stage.write(group, parts, {})


def _add_sparse(job: Job, block: int, grams: dict[tuple[int, int], NDArray], columns: list[NDArray]) -> None:
    known = []
    for v, sigma in enumerate(sigmas(job)):
        links, D = kernel.rows(job, v, block)
        R = normalized(D, sigma)
        known.append((links, R))
        columns[v] += np.bincount(links.ravel(), weights=R.ravel(), minlength=len(columns[v]))
    for (u, v), G in grams.items():
        add_gram(G, *known[u], *known[v])


def _add_dense(job: Job, block: int, grams: dict[tuple[int, int], NDArray], columns: list[NDArray]) -> None:
    sigma = sigmas(job)[0]
    for D in kernel.tiles(kernel.model(job), job.block(block)):
        R = normalized(D, sigma)
        columns[0] += R.sum(axis=0)
        grams[0, 0] += R.T @ R


def normalized(D: NDArray, sigma: float) -> NDArray[np.float64]:
    """Kernel rows that sum to one."""
    W = relative_rows(D, sigma).astype(np.float64)
    W /= W.sum(axis=1, keepdims=True)
    return W


def solve(job: Job, stage: Stage, block: int) -> None:
    """The spectrum from the sum of all groups, in their order."""
    many, parts = gram_stage(job), range(gram_stage(job).n_blocks)
    columns = [sum(many.read(f"columns_{v}", g)[0] for g in parts) for v in kernel.kernels(job)]
    roots = [inverse_root(np.asarray(C)) for C in columns]
    grams = {}
    for u, v in _pairs(job):
        total = np.asarray(sum(many.read(f"gram_{u}_{v}", g) for g in parts))
        grams[u, v] = total * roots[u][:, None] * roots[v]
    q = n_solved(job)
    with threadpool_limits(limits=os.cpu_count()):  # the only task there is: the other workers of this machine wait
        if job.options["fusion"] == "alternating":
            S, onto, sizes = solve_grams(grams, q, job.n)
            values = [landmark_values(t, np.asarray(C), size) for t, C, size in zip(onto, columns, sizes, strict=True)]
        else:
            S, vectors = largest_pairs(grams[0, 0], q + 1)
            values = [vectors[:, 1:] * roots[0][:, None] * np.sqrt(job.n) * inverse_root(np.maximum(S[1:], 0))]
    write(job, stage, S, values)


def n_solved(job: Job) -> int:
    """Coordinates that are solved for: some more than are given (see `trust.select_coordinates`)."""
    return in_memory.n_solved(int(job.options["n_components"]), landmarks.count(job), job.options["fusion"])


def write(job: Job, stage: Stage, S: NDArray, values: list[NDArray]) -> None:
    """Keep those of the solved coordinates that are given: the eigenvalues, the trivial 1 first, and the values."""
    q = int(job.options["n_components"])
    in_memory.refuse_rounding(S[: q + 1])
    chosen = in_memory.chosen_coordinates(values, S, q)
    kept = {f"values_{v}": (0, V[:, chosen.columns]) for v, V in enumerate(values)}
    given = S[[0, *(c + 1 for c in chosen.columns)]]
    stage.write(0, {"eigenvalues": (0, given), **kept}, {"outliers": chosen.outliers})


def eigenvalues(job: Job) -> NDArray[np.float64]:
    """With the trivial 1 first."""
    return stage_of(job).read("eigenvalues", 0)


def outliers(job: Job) -> int:
    """Coordinates that were left out because few rows carry them."""
    return int(stage_of(job).facts(0)["outliers"])


def values(job: Job) -> list[NDArray[np.float64]]:
    stage = stage_of(job)
    return [stage.read(f"values_{v}", 0) for v in kernel.kernels(job)]

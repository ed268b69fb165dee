"""Gram matrices (m, m) of the kernels, added up over groups of blocks in a fixed order."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.fitting import kernel, landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.fusion import Degrees
from dlcca.numerics.kernels import FEW_PRODUCTS, add_gram, inverse_root, kernel_rows, relative_rows

#: Groups of blocks whose matrices are kept: few, because each is m x m, but enough for a cluster to share.
FEWEST_GROUPS, MOST_GROUPS, BLOCKS_OF_GROUP = 4, 64, 4


def groups(job: Job) -> list[range]:
    """Neighbouring blocks that are added up by one task: the same ones whatever the cluster."""
    wanted = int(np.clip(job.n_blocks // BLOCKS_OF_GROUP, FEWEST_GROUPS, MOST_GROUPS))
    edges = np.linspace(0, job.n_blocks, min(wanted, job.n_blocks) + 1).astype(int)
    return [range(a, b) for a, b in pairwise(edges)]


def pairs(job: Job) -> list[tuple[int, int]]:
    """The kernels whose products are needed, two by two."""
    return job.fusion.gram_pairs(job.K)


def add_group(job: Job, stage: Blocks, group: int) -> None:
    """The matrices RᵀR of a group's blocks, with R the kernels whose rows have been normalized."""
    m = landmarks.count(job)
    grams = {pair: np.zeros((m, m)) for pair in pairs(job)}
    columns = [np.zeros(m) for _ in job.kernels]
    for block in groups(job)[group]:
        for rows in zip(*(normalized_rows(job, block, v) for v in job.kernels), strict=True):
            for total, (links, R) in zip(columns, rows, strict=True):
                total += _sums(R, links, m)
            for (u, v), G in grams.items():
                (links_u, A), (links_v, B) = rows[u], rows[v]
                if links_u is None or links_v is None:
                    G += A.T @ B
                else:
                    add_gram(G, links_u, A, links_v, B, few_products=FEW_PRODUCTS if job.in_memory else 0)
    parts: dict[str, tuple[int, NDArray]] = {f"gram_{u}_{v}": (group * m, G) for (u, v), G in grams.items()}
    parts |= {f"columns_{v}": (group, c[None]) for v, c in enumerate(columns)}
    stage.write(group, parts, {})


#: Landmarks that the entries of kernel rows are linked to; None for all of them.
Links = NDArray[np.int32] | None


def _sums(W: NDArray, links: Links, m: int) -> NDArray:
    """Column sums (m,) of kernel rows."""
    if links is None:
        return W.sum(axis=0, dtype=np.float64)
    return np.bincount(links.ravel(), weights=W.ravel(), minlength=m)


def normalized_rows(job: Job, block: int, v: int) -> Iterator[tuple[Links, NDArray[np.float64]]]:
    """The rows of `kernel.tiles`, normalized."""
    sigma = kernel.sigmas(job)[v]
    return ((links, normalized(job, D, sigma, links)) for links, D in kernel.tiles(job, block, v))


def normalized(job: Job, D: NDArray, sigma: float, links: NDArray | None = None) -> NDArray[np.float64]:
    r"""Kernel rows from distances to all landmarks, or to the linked ones.

    "balanced": rows that sum to one. "paper": :math:`\Omega^{-1/2} W` with the degrees :math:`\Omega = W s`, s the
    column sums of W (Algorithm 2).
    """
    if not is_literal(job):
        W = relative_rows(D, sigma).astype(np.float64)
        W /= W.sum(axis=1, keepdims=True)
        return W
    W, s = kernel_rows(D, sigma).astype(np.float64), column_sums(job)
    omega = W @ s if links is None else np.einsum("ns,ns->n", W, s[links])
    return W * inverse_root(omega)[:, None]


def is_literal(job: Job) -> bool:
    """Whether degrees are those of the paper."""
    return bool(job.options["normalization"] == "paper")


def add_columns(job: Job, stage: Blocks, block: int) -> None:
    """Column sums of a block of the kernel."""
    sigma, total = kernel.sigmas(job)[0], np.zeros(landmarks.count(job))
    for links, D in kernel.tiles(job, block):
        total += _sums(kernel_rows(D, sigma), links, len(total))
    stage.write(block, {"columns": (block, total[None])}, {})


def column_sums(job: Job) -> NDArray[np.float64]:
    """The column sums s (m,) of the kernel exp(-D/σ), over all samples."""
    key = COLUMNS.fingerprint(job)
    return job.cached("column sums", key, make=lambda: COLUMNS.of(job).read_all("columns").sum(axis=0))


def degrees(job: Job, columns: list[NDArray]) -> Degrees:
    """The scales of the kernels whose normalized rows have these column sums."""
    return Degrees(job.n, columns, column_sums(job) if is_literal(job) else None)


def weights(job: Job) -> list[NDArray[np.float64]]:
    """Weights (m,) of the landmarks in the averages of each kernel."""
    if is_literal(job):
        return [column_sums(job)]
    return [np.ones(landmarks.count(job)) for _ in job.kernels]


def totals(job: Job) -> tuple[dict[tuple[int, int], NDArray], Degrees]:
    """Sums of all groups in their order: the matrices of the scaled kernels, and the scales."""
    stage = GRAM.of(job)

    def total(name: str) -> NDArray:
        return np.asarray(sum(stage.read(name, g) for g in range(stage.n_blocks)))

    known = degrees(job, [total(f"columns_{v}")[0] for v in job.kernels])
    roots = known.roots
    return {(u, v): total(f"gram_{u}_{v}") * roots[u][:, None] * roots[v] for u, v in pairs(job)}, known


def _arrays(job: Job) -> Arrays:
    m, many = landmarks.count(job), len(groups(job))
    grams = {f"gram_{u}_{v}": ((many * m, m), "float64", m) for u, v in pairs(job)}
    return {**grams, **{f"columns_{v}": ((many, m), "float64", 1) for v in job.kernels}}


def _cost(job: Job) -> dict[str, float]:
    m, s, many = landmarks.count(job), kernel.n_kept(job), len(pairs(job))
    n, one, read = float(job.n), float(m) * m * 8, kernel.reading_cost(job, 20.0 * len(job.kernels))
    return {
        "additions": n * s * s * many,
        "products": read["products"] + (0.0 if s else 2.0 * n * m * m),
        "reads": read["reads"],
        "fixed": many * one,
        "memory": (many + 1) * one + read["memory"],
    }


def read_cost(job: Job) -> dict[str, float]:
    """What it takes to read the matrices of all groups, and to hold their sums."""
    one, many = float(landmarks.count(job)) ** 2 * 8, len(pairs(job))
    return {"reads": len(groups(job)) * many * one, "memory": (many + 6) * one}


#: Column sums of the kernel as printed in the paper; the other normalization needs no pass of its own.
COLUMNS = Stage(
    "columns",
    add_columns,
    after=[kernel.BANDWIDTH],
    options=["normalization"],
    n_blocks=lambda job: job.n_blocks,
    arrays=lambda job: {"columns": ((job.n_blocks, landmarks.count(job)), "float64", 1)},
    is_needed=is_literal,
    cost=lambda job: kernel.reading_cost(job, 20.0),
    reads="a block of samples",
    leaves="column sums of the kernel, for the normalization of the paper",
)
GRAM = Stage(
    "gram",
    add_group,
    after=[kernel.BANDWIDTH, COLUMNS],
    options=["normalization"],
    constants=[FEWEST_GROUPS, MOST_GROUPS, BLOCKS_OF_GROUP],
    n_blocks=lambda job: len(groups(job)),
    arrays=_arrays,
    is_needed=lambda job: job.options["solver"] == "gram",
    cost=_cost,
    reads="some blocks of samples",
    leaves="their part of the L x L matrices, for the solver `gram`",
)

"""The diffusion eigenproblem without any m x m matrix: block Lanczos, whose every product is a pass over the samples.

::

    run.zarr/stages/lanczos/products    the finished products, a block each, in the order in which Lanczos needs them
    run.zarr/stages/lanczos/00017-2/    a pass of product 17 under way: the vectors, and the sums of groups of blocks

Lanczos itself runs where the job was started; only blocks of vectors (m, b) go to the workers and come back, through
the store. It is deterministic: after a kill it is begun anew and needs the same products, which are read and not
computed. All of this is removed once the spectrum is known.
"""

import hashlib
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, fingerprint
from dlcca.engine.work import OnProgress, do_missing
from dlcca.errors import DamagedBlock, StaleStage
from dlcca.fitting import gram, kernel, landmarks
from dlcca.fitting.job import Job
from dlcca.numerics import eigensolvers
from dlcca.numerics.kernels import sparse_rows
from dlcca.storage import cache, cost

NAME = "lanczos"
#: Kind of what the cache of a process holds of kernel rows.
ROWS = "kernel rows"
#: Sparse kernel rows that each worker keeps from one pass to the next: reading them takes as long as multiplying.
KEPT_BYTES = 256 << 20


def solved(job: Job, q: int, client: Any, on_progress: OnProgress | None) -> tuple[NDArray, list[NDArray]]:
    """The eigenvalues, the trivial 1 first, and the values of the landmarks for each kernel."""
    most = 3 * job.K + 4 * eigensolvers.MOST_STEPS
    products = Products(job, NAME, max(eigensolvers.width(q + 1), q), most, client, on_progress)
    degrees = gram.degrees(job, products.columns())
    found = job.fusion.from_walk(partial(products.along, roots=degrees.roots), q, degrees)
    products.collect_cost()
    return found


class Products:
    """Products of the kernels with blocks of vectors, counted, and each computed once in the life of a store.

    ``width`` is the most vectors of a block, and ``most`` more products than there can be: they take no room until
    they are written.
    """

    def __init__(self, job: Job, name: str, width: int, most: int, client: Any, on_progress: OnProgress | None) -> None:
        self.job, self.name, self.client, self.on_progress = job, name, client, on_progress
        self.m, self.width = landmarks.count(job), width
        arrays = {"products": ((most * self.m, self.width), "float64", self.m)}
        self.stage = _prepared(_blocks(job, name, [width], most), arrays)
        self.count = 0

    def along(self, path: Sequence[int], V: NDArray, roots: list[NDArray] | None = None) -> NDArray:
        r"""The product of V with :math:`R_v^T R_u` for each step u, v of a path of kernels whose rows sum to one.

        With ``roots``, the scales :math:`C^{-1/2}` of their columns, it is that of the balanced kernels A.
        """
        number, self.count = self.count, self.count + 1
        inputs = [*path, hashlib.sha256(np.ascontiguousarray(V).data).hexdigest()]
        found = self._found(number, inputs, V.shape[1])
        if found is None:
            found = self._computed(number, inputs, path, V, roots)
        if self.on_progress is not None:
            self.on_progress(self.name, self.count, self.count + 1)  # how many more there are is not known
        return found

    def columns(self) -> list[NDArray[np.float64]]:
        """Per kernel, the sums (m,) of its columns: rows sum to one, R 1 = 1, so that Rᵀ(R 1) are these sums."""
        return [self.along([v, v], np.ones((self.m, 1)))[:, 0] for v in self.job.kernels]

    def _found(self, number: int, inputs: list[Any], b: int) -> NDArray | None:
        """The product as an earlier run has left it; None if it was of other vectors or is damaged."""
        if not self.stage.is_finished(number):
            return None
        try:
            kept = self.stage.read("products", number)[:, :b]
            return kept if self.stage.facts(number)["inputs"] == inputs else None
        except DamagedBlock:
            return None

    def _computed(
        self, number: int, inputs: list[Any], path: Sequence[int], V: NDArray, roots: list[NDArray] | None
    ) -> NDArray:
        scales = [np.ones((self.m, 1))] * self.job.K if roots is None else [root[:, None] for root in roots]
        # A pass has a folder of its own, where no late task of another one can write.
        names, many = (f"{self.name}/{number:05d}-{i}" for i in range(len(path) - 1)), 1 + len(gram.groups(self.job))
        passes = [_blocks(self.job, name, [inputs, i], many) for i, name in enumerate(names)]
        for (u, v), stage in zip(pairwise(path), passes, strict=True):
            V = scales[v] * self._through((u, v), scales[u] * V, stage)
        padded = np.pad(V, ((0, 0), (0, self.width - V.shape[1])))
        self.stage.write(number, {"products": (number * self.m, padded)}, {"inputs": inputs})
        for stage in passes:
            stage.remove()
        return V

    def _through(self, kernels: tuple[int, int], V: NDArray, stage: Blocks) -> NDArray:
        """One pass over the samples; what an earlier run has left is used if it is intact, else removed."""
        try:
            return self._pass(kernels, V, stage)
        except DamagedBlock:
            stage.remove()
            return self._pass(kernels, V, stage)

    def _pass(self, kernels: tuple[int, int], V: NDArray, stage: Blocks) -> NDArray:
        """Block 0 of the pass are the vectors, the others the sums of the groups of samples; their total, in order."""
        stage = _prepared(stage, {"blocks": ((stage.n_blocks * self.m, V.shape[1]), "float64", self.m)})
        if 0 in stage.missing():
            stage.write(0, {"blocks": (0, V)}, {"kernels": list(kernels)})
        do_missing(add_group, self.job, stage, self.client)
        total = np.array(stage.read("blocks", 1))
        for block in range(2, stage.n_blocks):
            total += stage.read("blocks", block)
        return total

    def collect_cost(self) -> None:
        """Count the cost of the products, which are removed, as that of what is made of them."""
        if not self.job.in_memory:
            cost.collected(self.stage.cost())


def _blocks(job: Job, name: str, depends: list[Any], n_blocks: int) -> Blocks:
    return job.blocks(name, fingerprint(kernel.BANDWIDTH.fingerprint(job), depends), n_blocks)


def _prepared(stage: Blocks, arrays: dict[str, Any]) -> Blocks:
    """The stage; what other settings have left there is removed."""
    try:
        return stage.prepare(arrays, says="products")
    except (StaleStage, DamagedBlock):
        stage.remove()
        return stage.prepare(arrays, says="products")


def add_group(job: Job, stage: Blocks, block: int) -> None:
    r"""The sum of :math:`R_v^T (R_u V)` over the samples of a group."""
    m, (u, v) = landmarks.count(job), stage.facts(0)["kernels"]
    V = job.cached("vectors", stage.name, stage.fingerprint, make=lambda: stage.read("blocks", 0), keep=1)
    total = np.zeros_like(V)
    for samples in gram.groups(job)[block - 1]:
        if job.is_sparse:
            total += _rows(job, v, samples).T @ (_rows(job, u, samples) @ V)
        else:
            for _links, R in gram.normalized_rows(job, samples, 0):
                total += R.T @ (R @ V)
    stage.write(block, {"blocks": (block * m, total)}, {})


def _rows(job: Job, v: int, samples: int) -> sp.csr_array:
    """Rows of a sparse kernel, which sum to one, of a block of samples: (rows, m)."""
    key = (kernel.BANDWIDTH.fingerprint(job), v, samples)
    if (found := job.find(ROWS, *key)) is not None:
        return found
    links, D = kernel.rows(job, v, samples)
    found = sparse_rows(gram.normalized(job, D, kernel.sigmas(job)[v], links), links, landmarks.count(job))
    size = sum(part.nbytes for part in (found.data, found.indices, found.indptr))
    if job.in_memory or cache.size_of(ROWS) + size <= KEPT_BYTES:
        job.cached(ROWS, *key, make=lambda: found)
    return found


def passes_cost(job: Job, passes: int, vectors: int) -> dict[str, float]:
    """What passes over all samples take, for the plan, each with so many vectors."""
    groups, kernels, kept = len(gram.groups(job)), len(job.kernels), kernel.n_kept(job)
    entries, moved = float(job.n) * (kept or landmarks.count(job)), float(landmarks.count(job)) * vectors * 8
    read = kernel.reading_cost(job, 40.0)
    return {
        "tasks": passes * groups,
        "additions": passes * 2 * entries * vectors,
        "products": passes * read["products"],
        "reads": passes * (groups * moved + read["reads"] / kernels),
        "writes": passes * groups * moved,
        "fixed": 2 * moved,
        "memory": 6 * moved + read["memory"] + (min(KEPT_BYTES, entries * 12.0 * kernels) if kept else 0),
    }

"""What the eigenproblem costs, and the coordinates that follow from it."""

from __future__ import annotations

from dlcca.engine.planning.kernel import dense_products, dense_tile, model_bytes, used_width
from dlcca.engine.planning.sizes import Sizes
from dlcca.engine.planning.stage import FILE_SELECTIONS, StagePlan

#: Steps of Lanczos, and the bytes of sparse rows that a worker keeps from one to the next.
LANCZOS_STEPS, KEPT_BYTES = 20, 256 << 20


def gram(sizes: Sizes) -> StagePlan:
    n, m, s, pairs, groups = sizes.n, sizes.m, sizes.kept, sizes.gram_pairs, sizes.gram_groups
    one = float(m) * m * 8
    b = min(sizes.rows, n)
    return StagePlan(
        "gram",
        groups if sizes.solver == "gram" else 0,
        additions=float(n) * s * s * pairs,
        products=0 if s else 2.0 * n * m * m + dense_products(sizes),
        reads=n * s * float(4 + sizes.itemsize) * sizes.kernels if s else sizes.pass_bytes,
        writes=groups * pairs * one,
        fixed=pairs * one,
        memory=(pairs + 1) * one
        + (b * s * 20.0 * sizes.kernels if s else sizes.reading_bytes + model_bytes(sizes) + 3 * dense_tile(sizes)),
    )


def spectrum(sizes: Sizes) -> StagePlan:
    if sizes.solver == "lanczos":
        return _lanczos(sizes)
    one = float(sizes.m) ** 2 * 8
    return StagePlan(
        "spectrum",
        1,
        decompositions=(13 + 2 * sizes.kernels) * float(sizes.m) ** 3,
        reads=sizes.gram_groups * sizes.gram_pairs * one,
        memory=(sizes.gram_pairs + 6) * one,
    )


def _lanczos(sizes: Sizes) -> StagePlan:
    """Passes over all samples, with as many vectors as coordinates are wanted; how many passes, the data decides."""
    passes, groups, vectors = LANCZOS_STEPS * 2 * sizes.kernels, sizes.gram_groups, sizes.q + 1
    entries = float(sizes.n) * (sizes.kept or sizes.m)
    b, moved = min(sizes.rows, sizes.n), float(sizes.m) * vectors * 8
    dense = 0 if sizes.kept else 1
    return StagePlan(
        "spectrum",
        passes * groups,
        additions=passes * 2 * entries * vectors,
        products=passes * dense * dense_products(sizes),
        reads=passes * (groups * moved + (sizes.pass_bytes if dense else entries * (4 + sizes.itemsize))),
        writes=passes * groups * moved,
        fixed=2 * moved,
        memory=6 * moved
        + b * sizes.kept * 40.0
        + dense * (sizes.reading_bytes + model_bytes(sizes) + 3 * dense_tile(sizes))
        + (0 if dense else min(KEPT_BYTES, entries * 12.0 * sizes.kernels)),
    )


def coordinates(sizes: Sizes) -> StagePlan:
    n, s, q = sizes.n, sizes.kept, sizes.q
    # Distances, in double precision, that tell how far the landmarks reach.
    looked_at = float(sizes.reach_rows) * sizes.m * len(sizes.used_views)
    b = min(sizes.rows, n)
    return StagePlan(
        "coordinates",
        sizes.n_blocks,
        selections=float(n) * (5 * s or sizes.m) * sizes.kernels + 3.0 * looked_at,
        products=4.0 * looked_at * used_width(sizes) / len(sizes.used_views) + (0 if s else dense_products(sizes)),
        reads=n * s * float(4 + sizes.itemsize) * sizes.kernels if s else sizes.pass_bytes,
        writes=n * q * 8.0,
        memory=b * s * 50.0 + b * q * 40.0 + model_bytes(sizes)
        if s
        else sizes.reading_bytes + model_bytes(sizes) + 2 * dense_tile(sizes) + b * q * 40.0,
    )


def signs(sizes: Sizes) -> StagePlan:
    blocks = sizes.n_blocks
    return StagePlan("signs", 1, selections=FILE_SELECTIONS * blocks, memory=blocks * sizes.q * 256.0)


def embedding(sizes: Sizes) -> StagePlan:
    b = min(sizes.rows, sizes.n)
    moved = float(sizes.n) * sizes.q
    return StagePlan(
        "embedding",
        sizes.n_blocks,
        reads=moved * 8,
        writes=moved * sizes.itemsize,
        memory=b * sizes.q * 32.0,
    )


def checks(sizes: Sizes) -> StagePlan:
    """A fit with half the landmarks to some rows, two fits to halves of some, and a look at many coordinates."""
    half, some = sizes.m / 2, min(sizes.n, 1024)
    halved, landmarks = min(sizes.n, 4000, (1 << 22) // sizes.width), min(sizes.m, 200)
    return StagePlan(
        "checks",
        1,
        products=2.0 * some * half * half + 4.0 * (some * sizes.m + 3 * halved * landmarks) * sizes.width,
        decompositions=10.0 * half**3 if sizes.m <= 4096 else 0.0,
        reads=float(sizes.n) * sizes.q * sizes.itemsize + sizes.touched_bytes(some) + sizes.touched_bytes(halved // 2),
        memory=2.0 * sizes.m * sizes.width * sizes.r * 8
        + max(4 * half**2 * 8 + some * sizes.m * 16.0, 4.0 * halved * (sizes.width + landmarks) * 8),
    )


def finish(sizes: Sizes) -> StagePlan:
    """The seal, made by the client itself."""
    return StagePlan("finish", 1, reads=float(sizes.n) * sizes.q * sizes.itemsize, writes=sizes.n * 8.0)

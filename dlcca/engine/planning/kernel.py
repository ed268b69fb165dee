"""What the distances cost that the kernel is made of: kept in sparse rows, or dense and made again."""

from __future__ import annotations

from dlcca.engine.planning.sizes import Sizes
from dlcca.engine.planning.stage import StagePlan


def kernel(sizes: Sizes) -> StagePlan:
    n, s, kernels = sizes.n, sizes.kept, sizes.kernels
    linked = 4.0 * n * s * sizes.r * sizes.width  # gathered rows halve the rate
    b = min(sizes.rows, n)
    return StagePlan(
        "kernel",
        sizes.n_blocks if s else 0,
        products=linked if sizes.alternating else dense_products(sizes),
        selections=0 if sizes.alternating else 10.0 * n * sizes.m,
        reads=sizes.pass_bytes + (n * s * 4.0 * kernels if sizes.alternating else 0),
        writes=n * s * float(sizes.itemsize + (0 if sizes.alternating else 4)) * kernels,
        memory=sizes.reading_bytes
        + b * s * (12.0 + 2.0 * sizes.itemsize * kernels)
        + model_bytes(sizes)
        + (0 if sizes.alternating else dense_tile(sizes)),
    )


def passes(name: str, sizes: Sizes, passes: int) -> StagePlan:
    """Passes over all distances: kept ones are read, dense ones are made again."""
    entries = float(sizes.n) * (sizes.kept or sizes.m) * sizes.kernels
    dense = name == "units" or not sizes.kept
    return StagePlan(
        name,
        passes * sizes.n_blocks,
        products=passes * dense_products(sizes) if dense else 0,
        selections=passes * (float(sizes.n) * sizes.m if dense else entries),
        reads=passes * (sizes.pass_bytes if dense else entries * sizes.itemsize),
        memory=sizes.reading_bytes + model_bytes(sizes) + dense_tile(sizes)
        if dense
        else min(sizes.rows, sizes.n) * sizes.kept * (2.0 * sizes.itemsize + 16),
    )


def model_bytes(sizes: Sizes) -> float:
    return float(sizes.m) * sizes.width * (sizes.r + 1) * sizes.itemsize


def dense_tile(sizes: Sizes) -> float:
    """A tile of dense distances, with what it takes to make it."""
    return 4.0 * min((4 << 20), sizes.rows * sizes.m) * sizes.itemsize


def used_width(sizes: Sizes) -> int:
    return sum(sizes.dims[v] for v in sizes.used_views)


def dense_products(sizes: Sizes) -> float:
    return 2.0 * sizes.n * sizes.m * sizes.r * used_width(sizes)

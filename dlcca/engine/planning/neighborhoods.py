"""What landmarks and their neighborhoods cost."""

from __future__ import annotations

from dlcca.engine.planning.sizes import Sizes
from dlcca.engine.planning.stage import StagePlan

#: Distances to landmarks that are made at a time.
TILE_ENTRIES = 1 << 20
#: Distances that an index looks at for each neighbour that it finds, and samples of which it is made.
INDEX_STEPS, SHARD_ROWS = 64.0, 1 << 17


def landmarks(sizes: Sizes) -> StagePlan:
    # One landmark at a time: a product of a matrix and a vector runs at the speed of memory, about a tenth.
    return StagePlan(
        "landmarks",
        1,
        products=20.0 * sizes.candidates * sizes.m * sizes.width,
        reads=sizes.touched_bytes(sizes.candidates),
        writes=sizes.m * 8.0,
        memory=sizes.candidates * sizes.width * 24.0 + sizes.m * 24.0,
    )


def points(sizes: Sizes) -> StagePlan:
    group = -(-sizes.m // sizes.landmark_groups)
    return StagePlan(
        "points",
        sizes.landmark_groups,
        reads=sizes.landmark_groups * sizes.touched_bytes(group),
        writes=float(sizes.m) * sizes.width * sizes.itemsize,
        memory=3.0 * group * sizes.width * sizes.itemsize + 2 * sizes.chunk_rows * max(sizes.dims) * sizes.itemsize,
    )


def axes(sizes: Sizes) -> StagePlan:
    group = -(-sizes.m // sizes.landmark_groups)
    squares = sum(d**2 for d in sizes.dims)
    return StagePlan(
        "axes",
        1 if 0 < sizes.links < sizes.m else 0,
        products=2.0 * sizes.m * squares,
        decompositions=float(sum(10 * d**3 for d in sizes.dims)),
        reads=float(sizes.m) * sizes.width * sizes.itemsize * len(sizes.dims),
        writes=8.0 * squares,
        memory=group * sizes.width * (sizes.itemsize + 16.0) + 40.0 * max(d**2 for d in sizes.dims),
    )


def near(sizes: Sizes) -> StagePlan:
    n, m, K = sizes.n, sizes.m, len(sizes.dims)
    group = -(-m // sizes.landmark_groups)
    by_products = sizes.links_by == "products"
    sought = sizes.sought if sizes.sought_by == "products" else 0
    b = min(sizes.rows, n)
    looked_at = float(n) * K * (m if by_products else sizes.links * INDEX_STEPS)
    turned = sizes.block_bytes if sizes.links else 0  # along the axes of the links
    tiles = min(b * group, TILE_ENTRIES) * sizes.itemsize * K if by_products else m * sizes.width * 16.0
    return StagePlan(
        "near",
        sizes.n_blocks if sizes.links + sought else 0,
        # Neighbours and links are near in different axes, and have products of their own.
        products=2.0 * n * m * sizes.width * (bool(sizes.links) + bool(sought)) if by_products else 0,
        selections=looked_at,
        reads=sizes.pass_bytes,
        writes=n * sizes.links * 4.0 * K + sizes.n_blocks * m * sought * 16.0,
        fixed=m * sought * 16.0,
        memory=sizes.reading_bytes + b * sizes.links * 4.0 * (K + 2) + group * sought * 64.0 + tiles + turned,
    )


def shards(sizes: Sizes) -> StagePlan:
    """Indexes of samples that are asked for the neighbours of every landmark."""
    shard = min(sizes.n, SHARD_ROWS)
    return StagePlan(
        "shards",
        sizes.shard_tasks,
        selections=float(sizes.n + sizes.m) * sizes.sought * INDEX_STEPS,
        reads=sizes.pass_bytes,
        writes=sizes.shard_tasks / sizes.landmark_groups * sizes.m * sizes.sought * 16.0,
        memory=float(shard) * (sizes.width * (sizes.itemsize + 4.0) + 16 * sizes.sought),
    )


def _neighbor_parts(sizes: Sizes) -> int:
    """Parts of each landmark's neighbours: of blocks, or of shards."""
    return sizes.n_blocks if sizes.sought_by == "products" else -(-sizes.n // SHARD_ROWS)


def merged(sizes: Sizes) -> StagePlan:
    moved = float(sizes.m) * sizes.sought * 16
    held = moved / sizes.landmark_groups
    return StagePlan("merged", sizes.merged_tasks, reads=_neighbor_parts(sizes) * moved, writes=moved, memory=6 * held)


def neighborhoods(sizes: Sizes) -> StagePlan:
    groups = sizes.landmark_groups
    parts = sizes.merged_tasks / groups if sizes.merged_tasks else _neighbor_parts(sizes)
    return StagePlan(
        "neighborhoods",
        groups,
        reads=parts * sizes.m * sizes.sought * 16.0,
        writes=sizes.m * sizes.k * 8.0,
        memory=-(-sizes.m // groups) * sizes.k * 80.0,
    )


def asked(sizes: Sizes) -> StagePlan:
    asked = float(sizes.m) * sizes.k
    return StagePlan("asked", 1, selections=8 * asked, reads=8 * asked, memory=1.3 * sizes.n + 24 * asked)

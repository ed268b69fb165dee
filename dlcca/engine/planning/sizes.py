"""All that a plan follows from."""

from __future__ import annotations

from dataclasses import dataclass

from dlcca.engine.row_blocks import count_of_blocks, rows_decoded


@dataclass(frozen=True)
class Sizes:
    """All that a plan follows from."""

    n: int  # samples
    rows: int  # of a block
    chunk_rows: int  # of a chunk of the views in storage
    dims: tuple[int, ...]  # channels of the views
    itemsize: int
    m: int  # landmarks
    k: int  # samples in a neighborhood
    r: int  # directions of a metric
    q: int  # coordinates
    candidates: int  # rows among which spread-out landmarks are sought; 0 if they are not
    sought: int  # neighbours that are searched for each landmark; 0 if they are a window of time
    sought_by: str  # "products" of all pairs, or an index of another name
    links: int  # landmarks near each sample that are searched in each view; 0 if the metric decides
    links_by: str
    landmark_groups: int  # that are searched, read and written one at a time
    shard_tasks: int  # in which indexes are made and asked; 0 by products
    merged_tasks: int  # in which parts of the neighbours are put together before the last step; 0 if they are few
    kept: int  # entries of a row of the kernel that are kept; 0 if rows are dense, and made again where needed
    alternating: bool  # a kernel for each view, or one in all
    used_views: tuple[int, ...]  # the views whose distances count
    metric_landmarks: int  # of a task of the stage "metric"
    solver: str  # "gram" or "lanczos"
    gram_groups: int  # groups of blocks that are added up
    gram_pairs: int  # m x m matrices that are added up
    bandwidth_passes: int  # over all blocks
    unit_passes: int  # likewise, for the unit of each view
    reach_rows: int  # whose distances to all landmarks tell how far these reach

    @property
    def n_blocks(self) -> int:
        return count_of_blocks(self.n, self.rows)

    @property
    def width(self) -> int:
        return sum(self.dims)

    @property
    def kernels(self) -> int:
        return len(self.dims) if self.alternating else 1

    @property
    def pass_bytes(self) -> float:
        """Bytes that storage unpacks when every block of the views is read once."""
        return float(rows_decoded(self.n, self.rows, self.chunk_rows)) * self.width * self.itemsize

    @property
    def block_bytes(self) -> float:
        return float(min(self.rows, self.n)) * self.width * self.itemsize

    def touched_bytes(self, some: int) -> float:
        """Bytes that storage unpacks to give some rows here and there: a chunk for each, or all of them."""
        chunks = min(some, -(-self.n // self.chunk_rows))
        return float(chunks) * min(self.chunk_rows, self.n) * self.width * self.itemsize

    @property
    def reading_bytes(self) -> float:
        """What a task holds that reads a block of the views: the block, and a chunk on its way to it, packed or not."""
        return self.block_bytes + 2.0 * min(self.chunk_rows, self.n) * max(self.dims) * self.itemsize

    @property
    def model_bytes(self) -> float:
        """The landmarks and their metrics."""
        return float(self.m) * self.width * (self.r + 1) * self.itemsize

    @property
    def dense_tile(self) -> float:
        """A tile of dense distances, with what it takes to make it."""
        return 4.0 * min((4 << 20), self.rows * self.m) * self.itemsize

    @property
    def used_width(self) -> int:
        return sum(self.dims[v] for v in self.used_views)

    @property
    def dense_products(self) -> float:
        """Operations of the distances of all samples to all landmarks."""
        return 2.0 * self.n * self.m * self.r * self.used_width

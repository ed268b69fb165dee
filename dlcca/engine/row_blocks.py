"""How a recording is cut into blocks: rows of a block, its bounds, and the rows that storage unpacks for it."""

from collections.abc import Sequence

import numpy as np

#: Rows of a block: enough that a task is worth starting, few enough to fit a small worker.
BLOCK_BYTES = 32 << 20
MOST_ROWS, LEAST_ROWS, LEAST_BLOCKS = 65_536, 1024, 8


def rows_of_block(n: int, dims: Sequence[int], itemsize: int, chunk_rows: int) -> int:
    """Rows of a block: about 32 MiB of all views, whole chunks if they are smaller, and at least 8 blocks of 1024."""
    rows = int(np.clip(BLOCK_BYTES // (sum(dims) * itemsize), LEAST_ROWS, MOST_ROWS))
    count = max(-(-n // rows), min(LEAST_BLOCKS, -(-n // LEAST_ROWS)))
    rows = -(-n // count)
    return -(-rows // chunk_rows) * chunk_rows if chunk_rows < rows else rows


class RowBlocks:
    """What has n rows in blocks of so many, the last one perhaps shorter."""

    n: int
    rows: int

    @property
    def n_blocks(self) -> int:
        return -(-self.n // self.rows)

    def bounds(self, block: int) -> tuple[int, int]:
        """First row of a block, and the row after its last."""
        return block * self.rows, min(self.n, (block + 1) * self.rows)


def rows_decoded(n: int, rows: int, chunk_rows: int) -> int:
    """Rows that storage unpacks when every block is read once: a chunk that blocks share is unpacked for each."""
    first = np.arange(0, n, rows)
    last = np.minimum(n, first + rows) - 1
    return int((last // chunk_rows - first // chunk_rows + 1).sum()) * chunk_rows

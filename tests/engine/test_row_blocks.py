"""How a recording is cut into blocks."""

from hypothesis import given
from hypothesis import strategies as st

from dlcca.engine import row_blocks
from tests.numerics.cases import quick

counts = st.integers(1, 5000)


def blocks_of(n, rows):
    made = row_blocks.RowBlocks()
    made.n, made.rows = n, rows
    return [made.bounds(block) for block in range(made.n_blocks)]


@quick
@given(n=counts, rows=counts)
def test_the_blocks_hold_every_row_once_and_in_order(n, rows):
    cut = [range(*bounds) for bounds in blocks_of(n, rows)]
    assert [row for block in cut for row in block] == list(range(n))
    assert all(0 < len(block) <= rows for block in cut)


@quick
@given(n=counts, rows=counts, chunk_rows=counts)
def test_the_rows_decoded_are_those_of_the_chunks_that_each_block_touches(n, rows, chunk_rows):
    decoded = 0
    for first, last in blocks_of(n, rows):
        decoded += chunk_rows * len({row // chunk_rows for row in (*range(first, last, chunk_rows), last - 1)})
    assert row_blocks.rows_decoded(n, rows, chunk_rows) == decoded


@quick
@given(n=st.integers(2, 10**8), d=st.integers(1, 5000), itemsize=st.sampled_from([4, 8]), chunk_rows=counts)
def test_a_block_is_small_enough_and_whole_chunks_if_these_are_smaller(n, d, itemsize, chunk_rows):
    rows = row_blocks.rows_of_block(n, (d,), itemsize, chunk_rows)
    most = max(row_blocks.LEAST_ROWS, min(row_blocks.MOST_ROWS, row_blocks.BLOCK_BYTES // (d * itemsize)))
    assert 1 <= rows < most + chunk_rows
    assert rows % chunk_rows == 0 or rows <= chunk_rows


def test_a_long_recording_has_blocks_of_32_mib():
    assert row_blocks.rows_of_block(10**6, (64, 64), 4, 32_768) == 65_536

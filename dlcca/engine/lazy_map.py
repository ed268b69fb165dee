"""The coordinates of lazy views: a fitted model mapped over their chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

#: Coordinates (b, q) of some rows (b, d_v) of every view; a view may be missing (None).
Coordinates = Callable[[list[NDArray | None]], NDArray]


def coordinates(coordinates_of: Coordinates, views: Sequence[Any], q: int) -> Any:
    """Coordinates (n, q) of Dask arrays (n, d_v), a task for each chunk of rows; a missing view is None.

    The chunks of rows are those of the first view that is there. The dtype is its, too.
    """
    import dask.array as da
    from dask.delayed import delayed

    given = [v for v, X in enumerate(views) if X is not None]
    rows = views[given[0]].chunks[0]
    aligned = [views[v].rechunk((rows, -1)) for v in given]
    return da.map_blocks(
        _block,
        *aligned,
        coordinates_of=delayed(coordinates_of, traverse=False),  # one node in the graph, not a copy in every task
        given=given,
        K=len(views),
        chunks=(rows, (q,)),
        dtype=aligned[0].dtype,
        meta=aligned[0]._meta,
    )


def _block(*parts: NDArray, coordinates_of: Coordinates, given: list[int], K: int) -> NDArray:
    """The coordinates of one chunk of rows."""
    views: list[NDArray | None] = [None] * K
    for v, X in zip(given, parts, strict=True):
        views[v] = X
    return coordinates_of(views).astype(parts[0].dtype)

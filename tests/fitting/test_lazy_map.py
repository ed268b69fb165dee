"""Coordinates of lazy views, chunk by chunk."""

import dask.array as da
import numpy as np
import pytest

from dlcca.fitting.lazy import mapped


def first_columns(views):
    """Two coordinates of a sample: the sums of its first channels, and of its last ones; a missing view counts 100."""
    present = [X for X in views if X is not None]
    missing = 100 * (len(views) - len(present))
    return np.column_stack([sum(X[:, 0] for X in present), sum(X[:, -1] for X in present)]).astype("float64") + missing


@pytest.fixture
def views():
    rng = np.random.default_rng(0)
    return [rng.standard_normal((50, 3)).astype("float32"), rng.standard_normal((50, 4)).astype("float32")]


@pytest.mark.parametrize(("rows", "others"), [(50, 50), (7, 7), (7, 20), (1, 50)])
def test_lazy_coordinates_are_those_of_the_whole_for_any_chunks(views, rows, others):
    lazy = mapped(
        first_columns, [da.from_array(X, chunks=(c, 2)) for X, c in zip(views, (rows, others), strict=True)], 2
    )
    assert lazy.shape == (50, 2)
    assert lazy.dtype == np.float32
    assert lazy.chunks[0] == da.from_array(views[0], chunks=(rows, 2)).chunks[0]
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), first_columns(views).astype("float32"))


@pytest.mark.parametrize("missing", [0, 1])
def test_a_view_may_be_missing(views, missing):
    given = [None if v == missing else X for v, X in enumerate(views)]
    lazy = mapped(first_columns, [None if X is None else da.from_array(X, chunks=(9, -1)) for X in given], 2)
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), first_columns(given).astype("float32"))


def test_the_model_is_in_the_graph_once_however_many_chunks(views):
    class Heavy:
        pickled = 0

        def __init__(self):
            self.content = np.zeros(1000)

        def __call__(self, parts):
            return first_columns(parts)

    heavy = Heavy()
    lazy = mapped(heavy, [da.from_array(X, chunks=(1, -1)) for X in views], 2)
    nodes = [str(key) for key, task in dict(lazy.__dask_graph__()).items() if "Heavy" in f"{key}"]
    assert len(nodes) == 1

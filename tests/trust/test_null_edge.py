"""The null edge against independent views, and how it moves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.metrics.cca import cca_metric
from dlcca.trust.components import null_edge
from tests.numerics.cases import quick, seeds


@pytest.mark.parametrize(("k", "d_x", "d_y"), [(200, 20, 20), (200, 10, 40), (300, 30, 5)])
def test_the_edge_is_where_independent_views_end(k, d_x, d_y):
    rng = np.random.default_rng(0)
    metric = cca_metric(rng.standard_normal((20, k, d_x)), rng.standard_normal((20, k, d_y)), ridge=0.0)
    edge = null_edge(metric.effective, k)
    np.testing.assert_allclose(edge, edge[0], atol=1e-10)
    assert abs(metric.correlations[:, 0].mean() - edge[0]) < 0.05


def test_the_edge_has_the_value_of_the_formula():
    np.testing.assert_allclose(null_edge(np.array([[8.0, 8.0]]), 33), 2 * np.sqrt(0.25 * 0.75))
    np.testing.assert_allclose(null_edge(np.array([[0.0, 0.0]]), 33), 0)
    np.testing.assert_allclose(null_edge(np.array([[0.0, 8.0]]), 33), 0.5)


@quick
@given(seed=seeds, K=st.integers(2, 5), k=st.integers(3, 60))
def test_the_edge_rises_with_the_ranks_and_falls_with_the_samples(seed, K, k):
    rng = np.random.default_rng(seed)
    effective = rng.uniform(0, 0.8 * k, (6, K))
    edge = null_edge(effective, k)
    more = effective + rng.uniform(0, 3, effective.shape) * (rng.random(effective.shape) < 0.5)
    assert (null_edge(more, k) >= edge - 1e-12).all()
    assert (null_edge(effective, k + 10) <= edge + 1e-12).all()
    assert (edge >= 0).all()
    assert (edge <= 1).all()


@quick
@given(seed=seeds, K=st.integers(3, 5), k=st.integers(3, 60))
def test_the_edge_of_several_views_is_the_largest_over_pairs(seed, K, k):
    effective = np.random.default_rng(seed).uniform(0, 0.8 * k, (6, K))
    pairs = [null_edge(effective[:, [u, v]], k) for u in range(K) for v in range(u)]
    np.testing.assert_allclose(null_edge(effective, k), np.max(pairs, axis=0), atol=1e-12)


def test_the_edge_is_one_as_soon_as_the_ranks_fill_the_neighborhood():
    np.testing.assert_array_equal(null_edge(np.array([[5, 6], [11, 2], [7, 7], [30, 30]]), 12), 1)
    assert null_edge(np.array([[5, 5]]), 12)[0] < 1


def test_a_single_view_has_no_edge():
    np.testing.assert_array_equal(null_edge(np.array([[5.0], [9.0]]), 12), 0)


def test_a_ridge_lowers_the_edge_by_way_of_the_effective_rank():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((3, 40, 10)), rng.standard_normal((3, 40, 10))
    edges = [null_edge(cca_metric(X, Y, ridge=ridge).effective, 40) for ridge in (0.0, 0.03, 0.3)]
    assert (edges[0] > edges[1]).all()
    assert (edges[1] > edges[2]).all()

"""Tensor CCA without the tensor against Algorithm 3 with it."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.metrics.cca import cca_metric
from dlcca.numerics.metrics.tcca import rank_one, tcca_metric
from tests.numerics.cases import assert_close, cases, metrics, quick, ridges, seeds
from tests.reference import tcca as literal


def outer(vectors):
    return reduce(np.multiply.outer, vectors)


def skewed_views(rng, K, *, m=1, k=60, d=3):
    """Views of one skewed common variable: a third moment (or higher) that stands out."""
    z = rng.exponential(size=(m, k, 1)) - 1
    return [z * rng.uniform(0.5, 1.5, (1, 1, d)) + 0.3 * rng.standard_normal((m, k, d)) for _ in range(K)]


@quick
@given(seed=seeds, K=st.integers(3, 5), d=st.integers(1, 3), k=st.integers(3, 12))
def test_the_weight_is_at_least_that_of_the_explicit_tensor(seed, K, d, k):
    rng = np.random.default_rng(seed)
    scores = [rng.standard_normal((2, k, d)) for _ in range(K)]
    fit = rank_one(scores, rng=rng, restarts=20, sweeps=2000)
    for i in range(2):
        T = sum(outer([Z[i, j] for Z in scores]) for j in range(k))
        _, rho = literal.rank_one(T, restarts=1)
        assert fit.rho[i] >= rho * (1 - 1e-6)
        # The weight is what the vectors make of the tensor, and they have unit length.
        value = np.sum(T * outer([u[i] for u in fit.vectors]))
        assert fit.rho[i] == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose([np.linalg.norm(u[i]) for u in fit.vectors], 1, atol=1e-12)


@quick
@given(seed=seeds, K=st.integers(3, 5), ridge=ridges)
def test_directions_of_a_clear_common_variable_equal_the_literal_ones(seed, K, ridge):
    rng = np.random.default_rng(seed)
    views = skewed_views(rng, K, d=2)
    metric, fit = tcca_metric(views, ridge=ridge, rng=rng)
    p, rho = literal.tcca([X[0] for X in views], ridge, restarts=1)
    assert fit.converged.all()
    assert fit.rho[0] == pytest.approx(rho, rel=1e-8)
    assert_close(fit.rho[0] * outer([F[0, :, 0] for F in metric.factors]), rho * outer(p), 1e-3)
    for F, direction in zip(metric.factors, p, strict=True):
        assert_close(metrics(F)[0], literal.tcca_metric(direction), 1e-3)


@quick
@given(case=cases(views=3, max_d=3, max_k=9), ridge=ridges)
def test_awkward_neighborhoods_get_the_weight_of_the_explicit_tensor(case, ridge):
    metric, fit = tcca_metric(case.views, ridge=ridge, rng=np.random.default_rng(0), restarts=12)
    for i in range(case.landmarks):
        _, rho = literal.tcca(case.at(i), ridge, restarts=1)
        assert fit.rho[i] >= rho * (1 - max(1e-6, case.tolerance)) - case.tolerance
        assert metric.correlations[i, 0] == pytest.approx(min(fit.rho[i], 1), rel=1e-6)
    assert np.isfinite(fit.rho).all()
    assert all(np.isfinite(F).all() for F in metric.factors)


@quick
@given(seed=seeds, ridge=ridges)
def test_two_views_give_the_first_pair_of_cca(seed, ridge):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((3, 40, 1))
    views = [z + 0.3 * rng.standard_normal((3, 40, 3)) for _ in range(2)]
    metric, fit = tcca_metric(views, ridge=ridge, rng=rng)
    two = cca_metric(*views, ridge=ridge)
    np.testing.assert_allclose(fit.rho, two.correlations[:, 0], rtol=1e-8)
    for F, G, rho in zip(metric.factors, two.factors, two.correlations.T, strict=False):
        assert rho.shape == (3,)
        assert_close(metrics(F), metrics(G[:, :, :1] / two.correlations[:, None, :1]), 1e-3)


def test_a_view_without_extent_leaves_nothing_to_find_and_that_is_reported_as_settled():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((2, 8, 3)), rng.standard_normal((2, 8, 2)), np.full((2, 8, 2), 0.1)]
    metric, fit = tcca_metric(views, ridge=0.03, rng=rng)
    np.testing.assert_array_equal(fit.rho, 0)
    assert fit.converged.all()
    assert not metric.factors[2].any()
    np.testing.assert_array_equal(metric.correlations, 0)


def test_too_few_sweeps_are_reported_as_not_converged():
    rng = np.random.default_rng(0)
    scores = [rng.standard_normal((20, 12, 4)) for _ in range(3)]
    fit = rank_one(scores, rng=rng, restarts=0, sweeps=2)
    assert not fit.converged.any()
    np.testing.assert_array_equal(fit.steps, 2)
    longer = rank_one(scores, rng=rng, restarts=0, sweeps=2000)
    assert longer.converged.all()
    assert (longer.steps < 2000).all()
    assert (longer.rho >= fit.rho * (1 - 1e-12)).all()


def test_restarts_never_lower_the_weight():
    rng = np.random.default_rng(0)
    scores = [rng.standard_normal((30, 20, 3)) for _ in range(5)]
    few, many = (rank_one(scores, rng=np.random.default_rng(1), restarts=r).rho for r in (0, 10))
    assert (many >= few).all()
    assert (many > few * 1.001).any()


def test_a_landmark_is_answered_as_if_it_were_alone():
    views = [np.random.default_rng(v).standard_normal((12, 9, 3)) for v in range(3)]
    together, fit = tcca_metric(views, ridge=0.03, rng=np.random.default_rng(0), restarts=0)
    assert len(set(fit.steps)) > 3
    for i in range(12):
        alone, one = tcca_metric([X[i : i + 1] for X in views], ridge=0.03, rng=np.random.default_rng(0), restarts=0)
        assert one.steps[0] == fit.steps[i]
        np.testing.assert_allclose(alone.factors[0][0], together.factors[0][i], rtol=1e-9, atol=1e-12)


def test_single_precision_converges_to_the_same_weights():
    views = [np.random.default_rng(v).standard_normal((40, 12, 3)) for v in range(3)]
    single = [X.astype(np.float32) for X in views]
    metric, fit = tcca_metric(single, ridge=0.03, rng=np.random.default_rng(0))
    _, double = tcca_metric(views, ridge=0.03, rng=np.random.default_rng(0))
    assert fit.converged.all()
    np.testing.assert_allclose(fit.rho, double.rho, rtol=1e-4)
    assert [F.dtype for F in metric.factors] == [np.float32] * 3
    assert [u.dtype for u in fit.vectors] == [np.float32] * 3


def test_symmetric_neighborhoods_have_no_third_moment():
    # Why MAXVAR is the default: each sample and its mirror image cancel in the tensor of three views.
    half = [np.random.default_rng(v).standard_normal((1, 10, 2)) for v in range(3)]
    _, fit = tcca_metric([np.concatenate([X, -X], axis=1) for X in half], ridge=0.03, rng=np.random.default_rng(0))
    np.testing.assert_allclose(fit.rho, 0, atol=1e-12)

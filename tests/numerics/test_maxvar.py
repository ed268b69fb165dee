"""MAXVAR of several views against the block eigenproblem of its twin."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.metrics.cca import cca_metric, maxvar_metric
from tests.numerics.cases import (
    assert_close,
    cases,
    inner_distances,
    metrics,
    quick,
    ridges,
    rotation,
    seeds,
    well_conditioned,
)
from tests.reference import maxvar as literal

several = st.integers(2, 6)


@quick
@given(case=cases(views=several, max_d=4), ridge=ridges)
def test_metrics_of_all_views_equal_the_literal_ones(case, ridge):
    metric = maxvar_metric(case.views, ridge=ridge)
    K = len(case.views)
    sizes = [min(X.shape[1:]) for X in case.views]
    r = sum(sizes) - max(sizes)
    assert metric.correlations.shape == (case.landmarks, r)
    for i in range(case.landmarks):
        P, w = literal.maxvar(case.at(i), ridge)
        expected = np.zeros(r)
        expected[: len(w)] = (w - 1) / (K - 1)
        np.testing.assert_allclose(metric.correlations[i], expected, atol=max(1e-8, case.tolerance))
        for v in range(K):
            A = literal.maxvar_metric(P[v], w, K)
            assert_close(metrics(metric.factors[v])[i], A, 30 * case.tolerance, floor=1e-3)


@quick
@given(case=cases(), ridge=ridges)
def test_two_views_give_local_cca(case, ridge):
    several, two = maxvar_metric(case.views, ridge=ridge), cca_metric(*case.views, ridge=ridge)
    np.testing.assert_allclose(several.correlations, two.correlations, atol=max(1e-8, case.tolerance))
    for F, G in zip(several.factors, two.factors, strict=True):
        assert_close(metrics(F), metrics(G), case.tolerance, floor=1e-3)
    np.testing.assert_array_equal(several.ranks, two.ranks)


@quick
@given(case=cases(views=several, max_d=4), ridge=ridges)
def test_correlations_lie_between_zero_and_one_and_fall(case, ridge):
    rho = maxvar_metric(case.views, ridge=ridge).correlations
    assert (rho >= 0).all()
    assert (rho <= 1).all()
    assert (np.diff(rho, axis=1) <= 0).all()


@quick
@given(case=cases(views=3, kinds=("full",), max_d=4, dtypes=(np.float64,)), ridge=ridges, seed=seeds)
def test_distances_ignore_rotation_with_any_ridge_and_mixing_without(case, ridge, seed):
    rng = np.random.default_rng(seed)
    change = rotation if ridge else well_conditioned
    changed = [X @ change(rng, X.shape[2]) for X in case.views]
    plain, other = maxvar_metric(case.views, ridge=ridge), maxvar_metric(changed, ridge=ridge)
    for v, X in enumerate(case.views):
        D, E = inner_distances(X, plain.factors[v]), inner_distances(changed[v], other.factors[v])
        assert_close(E, D, 1e-6, floor=1e-2)


def test_a_rank_keeps_the_largest_correlations():
    views = list(np.random.default_rng(0).standard_normal((4, 2, 40, 5)))
    whole, cut = maxvar_metric(views, ridge=0.03), maxvar_metric(views, ridge=0.03, rank=3)
    np.testing.assert_array_equal(cut.correlations, whole.correlations[:, :3])
    for F, G in zip(cut.factors, whole.factors, strict=True):
        np.testing.assert_allclose(F, G[:, :, :3])


def test_what_all_views_share_has_weight_one_and_what_is_private_has_none():
    rng = np.random.default_rng(0)
    S = rng.standard_normal((60, 5))
    S = np.linalg.qr(S - S.mean(axis=0))[0]  # exactly uncorrelated: z and four private variables
    views = [(np.column_stack([S[:, 0], S[:, v]]) @ rng.standard_normal((2, 4)))[None] for v in (1, 2, 3, 4)]
    metric = maxvar_metric(views, ridge=0.0)
    np.testing.assert_allclose(metric.correlations[0, 0], 1, atol=1e-12)
    np.testing.assert_allclose(metric.correlations[0, 1:], 0, atol=1e-7)
    for X, F in zip(views, metric.factors, strict=True):
        expected = 59 * np.subtract.outer(S[:, 0], S[:, 0]) ** 2
        assert_close(inner_distances(X, F)[0], expected, 1e-8)

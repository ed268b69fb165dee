"""Local CCA against the eigenproblem of Section III."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.metrics.cca import cca_metric, local_cca, mahalanobis_metric
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
from tests.reference import cca as literal
from tests.reference.covariance import covariance, cross_covariance, regularised
from tests.reference.mahalanobis import mahalanobis_metric as literal_mahalanobis


@quick
@given(case=cases(), ridge=ridges)
def test_metrics_of_both_views_equal_the_literal_ones(case, ridge):
    metric = cca_metric(*case.views, ridge=ridge)
    for i in range(case.landmarks):
        P_x, P_y, rho = literal.cca(*case.at(i), ridge)
        for F, P in zip(metric.factors, (P_x, P_y), strict=True):
            assert_close(metrics(F)[i], literal.metric(P, rho), case.tolerance, floor=1e-3)


@quick
@given(case=cases(), ridge=ridges)
def test_correlations_equal_the_literal_ones_and_the_rest_are_zero(case, ridge):
    found = cca_metric(*case.views, ridge=ridge).correlations
    for i in range(case.landmarks):
        _, _, rho = literal.cca(*case.at(i), ridge)
        expected = np.zeros(found.shape[1])
        expected[: len(rho)] = rho
        # The twin takes the root of an eigenvalue: of one that is zero to rounding, half of the digits are left.
        np.testing.assert_allclose(found[i], expected, atol=max(1e-6, case.tolerance))


@quick
@given(case=cases(), ridge=ridges)
def test_distances_within_a_neighborhood_equal_the_literal_ones(case, ridge):
    metric = cca_metric(*case.views, ridge=ridge)
    D = inner_distances(case.views[0], metric.factors[0])
    for i in range(case.landmarks):
        X, Y = case.at(i)
        P, _, rho = literal.cca(X, Y, ridge)
        A = literal.metric(P, rho)
        expected = [[(a - b) @ A @ (a - b) for b in X] for a in X]
        assert_close(D[i], expected, case.tolerance, floor=1e-2)


@quick
@given(case=cases(kinds=("full", "short rank")), ridge=ridges)
def test_canonical_variables_have_unit_variance_and_their_correlations_as_covariance(case, ridge):
    P_x, P_y, rho = local_cca(*case.views, ridge=ridge)
    for i in range(case.landmarks):
        X, Y = case.at(i)
        r = min(case.ranks)
        p_x, p_y = P_x[i][:, :r], P_y[i][:, :r]
        assert_close(p_x.T @ cross_covariance(X, Y) @ p_y, np.diag(rho[i][:r]), case.tolerance, floor=1)
        if r == min(P_x.shape[2], *case.ranks):
            live = rho[i][:r] > 1e-3  # of a correlation of zero, the direction may be one without extent
            for p, S in ((p_x, covariance(X)), (p_y, covariance(Y))):
                variances = p.T @ regularised(S, ridge) @ p
                assert_close(variances[np.ix_(live, live)], np.eye(live.sum()), case.tolerance, floor=1)


@quick
@given(case=cases(), ridge=ridges)
def test_correlations_lie_between_zero_and_one_and_fall(case, ridge):
    rho = cca_metric(*case.views, ridge=ridge).correlations
    assert (rho >= 0).all()
    assert (rho <= 1).all()
    assert (np.diff(rho, axis=1) <= 0).all()


@quick
@given(case=cases(dtypes=(np.float64,)), seed=seeds)
def test_distances_ignore_how_a_view_is_mixed(case, seed):
    rng = np.random.default_rng(seed)
    X, Y = case.views
    mixed = [Z @ well_conditioned(rng, Z.shape[2]) for Z in (X, Y)]
    plain, other = cca_metric(X, Y, ridge=0.0), cca_metric(*mixed, ridge=0.0)
    for v, Z in enumerate((X, Y)):
        assert_close(
            inner_distances(mixed[v], other.factors[v]), inner_distances(Z, plain.factors[v]), 1e-6, floor=1e-2
        )


@quick
@given(case=cases(dtypes=(np.float64,)), ridge=ridges, seed=seeds)
def test_distances_ignore_rotation_with_any_ridge(case, ridge, seed):
    rng = np.random.default_rng(seed)
    X, Y = case.views
    turned = [Z @ rotation(rng, Z.shape[2]) for Z in (X, Y)]
    plain, other = cca_metric(X, Y, ridge=ridge), cca_metric(*turned, ridge=ridge)
    for v, Z in enumerate((X, Y)):
        assert_close(
            inner_distances(turned[v], other.factors[v]), inner_distances(Z, plain.factors[v]), 1e-6, floor=1e-2
        )


@quick
@given(case=cases(), ridge=ridges, seed=seeds)
def test_distances_ignore_the_order_of_channels(case, ridge, seed):
    rng = np.random.default_rng(seed)
    X, Y = case.views
    order = rng.permutation(X.shape[2])
    plain, other = cca_metric(X, Y, ridge=ridge), cca_metric(X[:, :, order], Y, ridge=ridge)
    assert_close(metrics(other.factors[0]), metrics(plain.factors[0][:, order]), case.tolerance, floor=1e-2)
    assert_close(metrics(other.factors[1]), metrics(plain.factors[1]), case.tolerance, floor=1e-2)


@quick
@given(case=cases(), ridge=ridges, scale=st.sampled_from([1e-4, 0.3, 7.0, 1e5]))
def test_distances_ignore_the_unit_of_a_view(case, ridge, scale):
    X, Y = case.views
    plain, other = cca_metric(X, Y, ridge=ridge), cca_metric(X * X.dtype.type(scale), Y, ridge=ridge)
    D, E = inner_distances(X, plain.factors[0]), inner_distances(X * X.dtype.type(scale), other.factors[0])
    assert_close(E, D, 10 * case.tolerance, floor=1e-2)
    assert_close(metrics(other.factors[1]), metrics(plain.factors[1]), 10 * case.tolerance, floor=1e-2)


@quick
@given(case=cases(), ridge=ridges)
def test_each_landmark_is_answered_as_if_it_were_alone(case, ridge):
    together = cca_metric(*case.views, ridge=ridge)
    for i in range(case.landmarks):
        alone = cca_metric(*(X[i : i + 1] for X in case.views), ridge=ridge)
        np.testing.assert_array_equal(alone.correlations[0], together.correlations[i])
        np.testing.assert_array_equal(alone.factors[0][0], together.factors[0][i])


@quick
@given(case=cases(views=1), ridge=ridges)
def test_the_metric_of_one_view_is_the_literal_one_where_the_neighborhood_has_extent(case, ridge):
    metric = mahalanobis_metric(case.views[0], ridge=ridge)
    for i in range(case.landmarks):
        (X,) = case.at(i)
        assert_close(metrics(metric.factors[0])[i], literal_mahalanobis(X, ridge, restrict=True), case.tolerance)
        assert metric.correlations[i].sum() == case.ranks[0]


@quick
@given(case=cases(views=1, kinds=("full",), max_d=3, repeats=False), ridge=ridges)
def test_the_metric_of_one_view_of_full_rank_is_the_whole_inverse(case, ridge):
    (X,) = case.views
    if case.ranks[0] == X.shape[2]:
        A = metrics(mahalanobis_metric(X, ridge=ridge).factors[0])
        for i in range(case.landmarks):
            assert_close(A[i], literal_mahalanobis(case.at(i)[0], ridge), case.tolerance)


def test_views_in_too_small_a_neighborhood_are_perfectly_correlated_without_a_ridge():
    # Section 2 of the science notes: at least d_x + d_y - (k - 1) correlations are exactly 1.
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((5, 9, 5)), rng.standard_normal((5, 9, 6))
    rho = cca_metric(X, Y, ridge=0.0).correlations
    np.testing.assert_allclose(rho[:, : 5 + 6 - 8], 1, atol=1e-12)
    assert (rho[:, 3] < 1 - 1e-3).all()
    assert (cca_metric(X, Y, ridge=0.03).correlations[:, 0] < 1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    rng = np.random.default_rng(0)
    metric = cca_metric(
        rng.standard_normal((2, 9, 4)).astype(dtype), rng.standard_normal((2, 9, 3)).astype(dtype), ridge=0.03
    )
    assert [F.dtype for F in metric.factors] == [dtype, dtype]
    assert metric.correlations.dtype == dtype

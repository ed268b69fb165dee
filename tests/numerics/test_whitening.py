"""Whitened neighborhoods against explicit covariances."""

import numpy as np
import pytest
from hypothesis import given

from dlcca.numerics.metrics import cca
from dlcca.numerics.metrics.cca import whiten
from tests.numerics.cases import assert_close, cases, metrics, quick, ridges
from tests.reference.covariance import centred, covariance, regularised
from tests.reference.mahalanobis import mahalanobis_metric


@quick
@given(case=cases(views=1), ridge=ridges)
def test_unmix_squares_to_the_inverse_covariance(case, ridge):
    w = whiten(case.views[0], ridge=ridge)
    for i in range(case.landmarks):
        (X,) = case.at(i)
        assert_close(metrics(w.unmix)[i], mahalanobis_metric(X, ridge, restrict=True), case.tolerance)


@quick
@given(case=cases(views=1), ridge=ridges)
def test_scores_are_the_centred_samples_times_unmix(case, ridge):
    w = whiten(case.views[0], ridge=ridge)
    for i in range(case.landmarks):
        (X,) = case.at(i)
        expected = centred(X) @ w.unmix[i] / np.sqrt(len(X) - 1)
        assert_close(w.scores[i], expected, case.tolerance, floor=1)


@quick
@given(case=cases(views=1))
def test_scores_have_unit_covariance_without_a_ridge(case):
    w = whiten(case.views[0], ridge=0.0)
    for i in range(case.landmarks):
        alive = np.diag((np.arange(w.scores.shape[2]) < w.rank[i]).astype(float))
        assert_close(w.scores[i].T @ w.scores[i], alive, case.tolerance, floor=1)


@quick
@given(case=cases(views=1), ridge=ridges)
def test_ranks_are_those_the_neighborhoods_were_made_with(case, ridge):
    np.testing.assert_array_equal(whiten(case.views[0], ridge=ridge).rank, case.ranks[0])


@quick
@given(case=cases(views=1), ridge=ridges)
def test_effective_rank_is_the_trace_of_what_the_ridge_leaves(case, ridge):
    effective = whiten(case.views[0], ridge=ridge).effective
    for i in range(case.landmarks):
        S = covariance(case.at(i)[0])
        expected = np.trace(S @ np.linalg.pinv(regularised(S, ridge), rcond=1e-9, hermitian=True))
        assert effective[i] == pytest.approx(expected, abs=10 * case.tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [3, 7, 50])
def test_a_constant_neighborhood_has_no_rank_whatever_its_value(dtype, k):
    values = np.random.default_rng(k).uniform(-1e5, 1e5, (40, 1, 3)).astype(dtype)
    w = whiten(np.repeat(values, k, axis=1), ridge=0.0)
    assert not w.rank.any()
    assert not w.unmix.any()
    assert not w.scores.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_channel_far_from_zero_adds_no_rank(dtype):
    rng = np.random.default_rng(0)
    X = 1e-2 * rng.standard_normal((40, 11, 2))
    X[:, :, 1] = rng.uniform(1e3, 1e5, (40, 1)) * (1 if dtype is np.float32 else 1e8)
    np.testing.assert_array_equal(whiten(X.astype(dtype), ridge=0.0).rank, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    w = whiten(np.random.default_rng(0).standard_normal((2, 9, 4)).astype(dtype), ridge=0.03)
    assert (w.scores.dtype, w.unmix.dtype, w.effective.dtype) == (dtype, dtype, dtype)


def test_more_channels_than_samples_are_whitened_in_the_span_of_the_samples():
    X = np.random.default_rng(0).standard_normal((2, 6, 200))
    w = whiten(X, ridge=0.0)
    assert w.unmix.shape == (2, 200, 6)
    np.testing.assert_array_equal(w.rank, 5)


@quick
@given(case=cases(views=1))
def test_by_covariances_and_by_singular_values_are_the_same(case):
    by_covariance = whiten(case.views[0], ridge=cca.RIDGE_OF_COVARIANCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cca, "RIDGE_OF_COVARIANCE", np.inf)
        by_values = whiten(case.views[0], ridge=1e-4)
    assert by_covariance.principal is not None
    assert by_values.principal is None
    np.testing.assert_array_equal(by_covariance.rank, by_values.rank)
    for one, other in zip(metrics(by_covariance.unmix), metrics(by_values.unmix), strict=True):
        assert_close(one, other, case.tolerance)

"""Rules for the width of the kernel against their twins."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.kernels import QUANTILES, choose_bandwidth, kth_smallest, log_sums, steepest
from tests.numerics.cases import quick, seeds
from tests.reference import bandwidth as literal


@st.composite
def distances(draw):
    """Squared distances (n, m) with ties and zeros in them."""
    rng = np.random.default_rng(draw(seeds))
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    D = rng.exponential(size=(n, m))
    if draw(st.booleans()):
        D = np.round(D, 1)
    D[0, 0] = 0.0
    return D.astype(draw(st.sampled_from([np.float64, np.float32])))


@quick
@given(D=distances(), share=st.floats(0, 1), k=st.integers(1, 8))
def test_median_quantile_and_neighbor_equal_the_literal_rules(D, share, k):
    D = D + D.dtype.type(0.1)  # of zero distances see below
    assert choose_bandwidth(D, "median") == pytest.approx(literal.median_rule(D), rel=1e-6)
    with mock.patch.dict(QUANTILES, quantile=share):
        assert choose_bandwidth(D, "quantile") == pytest.approx(literal.quantile_rule(D, share), rel=1e-5)
    assert choose_bandwidth(D, "neighbor") == pytest.approx(literal.kth_neighbor_rule(D, D.shape[1]), rel=1e-6)
    k = min(k, D.shape[1])
    assert np.median(kth_smallest(D, k)) == pytest.approx(literal.kth_neighbor_rule(D, k), rel=1e-6)


@quick
@given(seed=seeds, n=st.integers(3, 10), nearest=st.sampled_from([0.0, 0.2, 50.0]))
def test_the_steepest_bandwidth_equals_the_literal_one(seed, n, nearest):
    x = np.random.default_rng(seed).standard_normal((n, 2))
    D = ((x[:, None] - x) ** 2).sum(axis=2) + nearest  # 50: far above the narrowest bandwidths, where exp underflows
    sigmas = np.logspace(-3, 3, 25)
    assert steepest(sigmas, log_sums(D, sigmas)) == literal.slope_rule(D, sigmas)


def test_a_neighbor_beyond_the_landmarks_is_the_last_one():
    D = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 3.0]])
    assert kth_smallest(D, 8).tolist() == [5.0, 3.0]
    assert choose_bandwidth(D, "neighbor") == 4.0


@pytest.mark.parametrize("rule", [*QUANTILES, "slope"])
@pytest.mark.parametrize("scale", [1e-6, 3.0, 1e8])
def test_every_rule_follows_the_unit_of_the_distances(rule, scale):
    x = np.random.default_rng(0).standard_normal((40, 2))
    D = ((x[:, None] - x) ** 2).sum(axis=2)
    assert choose_bandwidth(scale * D, rule) == pytest.approx(scale * choose_bandwidth(D, rule), rel=1e-9)


@quick
@given(D=distances())
def test_rules_by_name_leave_out_the_distances_that_are_zero(D):
    apart = D[D > 0][None]
    expected = {"median": 0.0, "quantile": 0.0}
    if apart.size:
        expected = {"median": literal.median_rule(apart), "quantile": literal.quantile_rule(apart, 0.2)}
    for rule, sigma in expected.items():
        assert choose_bandwidth(D, rule) == pytest.approx(sigma, rel=1e-5)


@pytest.mark.parametrize("rule", [*QUANTILES, "slope"])
def test_distances_that_are_all_zero_have_no_bandwidth(rule):
    assert choose_bandwidth(np.zeros((3, 4)), rule) == 0.0


def test_the_slope_is_found_where_most_distances_are_zero():
    x = np.random.default_rng(0).standard_normal((8, 1)).repeat(20, axis=0)
    x[:130] = x[0]
    D = (x - x.T) ** 2
    assert np.median(D) == 0
    sigma = choose_bandwidth(D, "slope")
    assert np.isfinite(sigma)
    assert sigma > 0


def test_the_slope_of_points_on_a_line_is_where_it_should_be():
    # n points in one dimension: the sum rises like the root of the bandwidth between the spacing and the extent.
    x = np.linspace(0, 1, 300)[:, None]
    sigma = choose_bandwidth((x - x.T) ** 2, "slope")
    assert (1 / 300) ** 2 < sigma < 1

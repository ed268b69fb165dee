"""What the paper proves, and the figures of its Section VII-A."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.distances import end_distances, landmark_distances, middle_distances, squared_distances
from dlcca.numerics.metrics.cca import cca_metric, mahalanobis_metric
from dlcca.simulate import metric_square
from tests.numerics.cases import quick, seeds


def pair_distances(X, F):
    """Squared distances of all pairs of rows of X under one metric."""
    return landmark_distances(X, X, np.broadcast_to(F, (len(X), *F.shape)))


def linear_views(rng, hidden, d_z, d_e, d_n):
    """x = J_x [z, ε] and y = J_y [z, η], with more channels than variables."""
    z, epsilon, eta = np.split(hidden, [d_z, d_z + d_e], axis=1)
    J_x = rng.standard_normal((d_z + d_e + 2, d_z + d_e))
    J_y = rng.standard_normal((d_z + d_n + 1, d_z + d_n))
    return z, np.hstack([z, epsilon]) @ J_x.T, np.hstack([z, eta]) @ J_y.T


def exactly_uncorrelated(rng, k, d):
    """Samples (k, d) whose sample covariance, divided by k - 1, is the identity to rounding."""
    S = rng.standard_normal((k, d))
    return np.linalg.qr(S - S.mean(axis=0))[0] * np.sqrt(k - 1)


@pytest.mark.parametrize("d_z", [1, 2, 3])
@quick
@given(seed=seeds, d_e=st.integers(1, 3), d_n=st.integers(1, 3))
def test_proposition_1_linear_views_give_the_distances_of_the_common_variable(d_z, seed, d_e, d_n):
    rng = np.random.default_rng(seed)
    z, X, Y = linear_views(rng, exactly_uncorrelated(rng, 40, d_z + d_e + d_n), d_z, d_e, d_n)
    metric = cca_metric(X[None], Y[None], ridge=0.0)
    exact = squared_distances(z, z)
    apart = ~np.eye(len(z), dtype=bool)
    for view, F in zip((X, Y), metric.factors, strict=True):
        np.testing.assert_allclose(pair_distances(view, F[0])[apart], exact[apart], rtol=1e-6)
    expected = np.zeros(metric.correlations.shape[1])
    expected[:d_z] = 1
    np.testing.assert_allclose(metric.correlations[0], expected, atol=1e-7)
    np.testing.assert_array_equal(metric.ranks[0], [d_z + d_e, d_z + d_n])


@pytest.mark.parametrize("d_z", [1, 2, 3])
def test_proposition_1_the_error_of_plain_samples_falls_as_the_neighborhood_grows(d_z):
    errors = []
    for k in (50, 500, 5000):
        found = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            z, X, Y = linear_views(rng, rng.standard_normal((k, d_z + 4)), d_z, 2, 2)
            F = cca_metric(X[None], Y[None], ridge=0.0).factors[0][0]
            exact = squared_distances(z[:40], z[:40])
            apart = ~np.eye(40, dtype=bool)
            found.append(np.median(np.abs(pair_distances(X[:40], F) - exact)[apart] / exact[apart]))
        errors.append(np.median(found))
    # The error is that of a sample covariance, which falls like the root of k: by 10 in all, for 100 times the samples.
    assert errors[0] > errors[1] > errors[2]
    assert errors[0] > 5 * errors[2]
    assert errors[2] < 0.05


@quick
@given(seed=seeds, d=st.integers(1, 5))
def test_proposition_4_the_distance_of_one_view_is_the_mahalanobis_distance(seed, d):
    X = np.random.default_rng(seed).standard_normal((40, d)) @ np.diag(np.logspace(0, 1, d))
    D = pair_distances(X, mahalanobis_metric(X[None], ridge=0.0).factors[0][0])
    inverse = np.linalg.inv(np.cov(X.T).reshape(d, d))
    delta = X[:, None] - X
    exact = np.einsum("ijd,de,ije->ij", delta, inverse, delta)
    np.testing.assert_allclose(D, exact, rtol=1e-8, atol=1e-12)


@quick
@given(seed=seeds, d_z=st.integers(1, 4))
def test_proposition_4_two_views_without_private_variables_give_the_mahalanobis_distance(seed, d_z):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((40, d_z))
    X, Y = z @ (np.eye(d_z) + 0.2 * rng.standard_normal((d_z, d_z))), z @ rng.standard_normal((d_z, d_z + 1))
    two = cca_metric(X[None], Y[None], ridge=0.0)
    one = mahalanobis_metric(X[None], ridge=0.0)
    np.testing.assert_allclose(two.correlations, 1, atol=1e-9)
    np.testing.assert_allclose(
        pair_distances(X, two.factors[0][0]), pair_distances(X, one.factors[0][0]), rtol=1e-6, atol=1e-8
    )


def observed(z):
    """The observation function of Section VII-A."""
    return np.stack([z[..., 0] ** 2 - z[..., 1], z[..., 0] + np.sqrt(z[..., 1])], axis=-1)


def exact_factors(jacobian_at):
    """F with F Fᵀ = (J Jᵀ)⁻¹, the inverse of the exact local covariance."""
    return lambda points: np.swapaxes(np.linalg.inv(jacobian_at(points)), 1, 2)


def test_proposition_2_the_error_at_the_middle_point_is_of_fourth_order():
    (X,), truth = metric_square(400, random_state=0)
    np.testing.assert_allclose(observed(truth.z), X)
    factor_at = exact_factors(truth.jacobian_at)
    rng = np.random.default_rng(0)
    z = rng.uniform(0.5, 1.5, (60, 2))
    turn = rng.uniform(0, 2 * np.pi, 60)
    direction = np.column_stack([np.cos(turn), np.sin(turn)])
    sizes, errors = np.logspace(-2, -1, 6), {"middle": [], "one end": []}
    lengths = []
    for size in sizes:
        ends = [observed(z - size * direction / 2), observed(z + size * direction / 2)]
        delta = ends[1] - ends[0]
        lengths.append(np.linalg.norm(delta, axis=1))
        for place, points in (("middle", (ends[0] + ends[1]) / 2), ("one end", ends[0])):
            D = np.square(np.einsum("pd,pdr->pr", delta, factor_at(points))).sum(axis=1)
            errors[place].append(np.abs(D - size**2))
    slopes = {}
    for place, error in errors.items():
        pairs = zip(np.log(lengths).T, np.log(error).T, strict=True)
        slopes[place] = np.median([np.polyfit(x, y, 1)[0] for x, y in pairs])
    assert slopes["middle"] == pytest.approx(4, abs=0.05)
    assert slopes["one end"] == pytest.approx(3, abs=0.05)


def test_section_7a_the_middle_point_keeps_large_distances_and_the_ends_do_not():
    (X,), truth = metric_square(400, random_state=0)
    factor_at = exact_factors(truth.jacobian_at)
    pairs = np.triu_indices(400, 1)
    exact = squared_distances(truth.z, truth.z)[pairs]
    D, Q = middle_distances(X, factor_at)[pairs], end_distances(X, factor_at(X))[pairs]
    assert np.corrcoef(D, exact)[0, 1] >= 0.98
    assert np.corrcoef(Q, exact)[0, 1] <= 0.90
    assert np.median(np.abs(D - exact) / exact) < 0.03
    # For small distances both are accurate.
    near = exact < np.quantile(exact, 0.02)
    assert np.median(np.abs(Q - exact)[near] / exact[near]) < 0.03

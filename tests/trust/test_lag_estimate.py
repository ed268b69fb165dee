"""How far one view runs behind another: found to a row, and not claimed where it cannot be told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, lfilter

from dlcca.trust import lag_estimate
from dlcca.trust.lag_estimate import Lag, consistent, lag_between
from tests.reference import lags as literal

RATE = 100  # rows in a second


def smooth(n, rng, hertz):
    b, a = butter(2, 2 * hertz / RATE)
    x = lfilter(b, a, rng.standard_normal(n + 500))[500:]
    return x / x.std()


def noise(n, rng):
    """Coloured noise, below 3 Hz."""
    return smooth(n, rng, 3)


def breath(n, rng):
    """A breath in about 4 s, whose pace and depth drift."""
    pace, depth = smooth(n, rng, 0.05), smooth(n, rng, 0.05)
    phase = 2 * np.pi * np.cumsum(0.25 * (1 + 0.15 * pace)) / RATE
    return (1 + 0.2 * depth) * (np.sin(phase) + 0.3 * np.sin(2 * phase))


def chaos(n, rng, step=0.02):
    """The first variable of Lorenz's equations."""
    made, s = np.empty(n + 500), np.array([1.0, 1.0, 20.0]) + rng.standard_normal(3)

    def speed(s):
        return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])

    for i in range(len(made)):
        middle = s + step / 2 * speed(s)
        s = s + step * speed(middle)
        made[i] = s[0]
    return made[500:]


def two_views(latent, lag, seed, n=6000, amount=0.05):
    """Bent functions of a latent series and of a private one in each; the second view shows it ``lag`` rows later."""
    rng = np.random.default_rng(seed)
    z = latent(n + 800, rng)
    z = (z - z.mean()) / z.std()
    x, y = z[400 : 400 + n], z[400 - lag : 400 - lag + n]
    e, f = smooth(n, rng, 2), smooth(n, rng, 2)
    X = np.column_stack([np.tanh(x) + 0.5 * e, x**2 + 0.7 * e, e + 0.3 * x, np.cos(e) * x])
    Y = np.column_stack([np.exp(y / 2) + 0.6 * f, f - 0.5 * y, np.sin(1.5 * y) + 0.4 * f**2])
    return tuple(V + amount * V.std(axis=0) * rng.standard_normal(V.shape) for V in (X, Y))


@pytest.mark.parametrize("latent", [noise, breath, chaos])
@pytest.mark.parametrize(("lag", "seed"), [(0, 0), (1, 1), (-37, 2), (200, 3), (-200, 4)])
def test_lags_up_to_two_seconds_are_found_to_a_row(latent, lag, seed):
    found = lag_between(*two_views(latent, lag, seed), 250)
    assert found.reason == ""
    assert abs(round(found.rows) - lag) <= 1
    assert found.p < 0.05


def test_the_lag_of_swapped_views_is_the_opposite():
    X, Y = two_views(noise, 60, 0)
    one, other = lag_between(X, Y, 100), lag_between(Y, X, 100)
    assert abs(one.rows + other.rows) < 0.1


@pytest.mark.parametrize("seed", range(6))
def test_views_that_share_nothing_have_no_lag(seed):
    (X, _), (_, Y) = two_views(noise, 0, seed), two_views(noise, 0, 100 + seed)
    found = lag_between(X, Y, 200)
    assert "no lag stands out" in found.reason
    assert np.isnan(found.rows)


def test_views_that_repeat_themselves_have_no_lag_that_could_be_told():
    t = np.arange(6000) / RATE
    rng = np.random.default_rng(0)
    X = np.column_stack([np.sin(2 * np.pi * t), smooth(6000, rng, 2)])
    Y = np.column_stack([np.cos(2 * np.pi * t), smooth(6000, rng, 2)])
    assert "repeat themselves" in lag_between(X, Y, 250).reason


def test_a_lag_at_the_end_of_those_looked_at_is_not_claimed():
    assert "largest lag looked at (+30)" in lag_between(*two_views(noise, 35, 0), 30).reason


def test_too_short_a_recording_is_said_to_be_so():
    X = np.random.default_rng(0).standard_normal((500, 2))
    assert "600 are needed" in lag_between(X, X, 100).reason


def test_a_view_that_does_not_change_is_said_to_be_so():
    X = np.random.default_rng(0).standard_normal((500, 2))
    assert lag_between(X, np.zeros((500, 1)), 20).reason == "a view does not change"


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_all_strengths_at_once_are_those_of_the_literal_twin(seed, p, q):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((40, p)), rng.standard_normal((40, q))
    near, far = lag_estimate.strengths(A, B, 5)
    np.testing.assert_allclose(near, [literal.strength(A, B, lag) for lag in range(-5, 6)], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(far, [literal.turned_strength(A, B, s) for s in range(11, 30)], rtol=1e-9, atol=1e-12)


def test_the_highest_strength_is_where_the_literal_twin_finds_it():
    X, Y = two_views(noise, 7, 0, n=300)
    A, B = lag_estimate.described(X), lag_estimate.described(Y)
    near, _ = lag_estimate.strengths(A, B, 12)
    assert int(np.argmax(near)) - 12 == literal.lag_of(A, B, 12)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=4), st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_lags_of_all_pairs_give_those_against_the_first(behind, seed):
    rows = np.array([0, *behind])
    K = len(rows)
    errors = np.random.default_rng(seed).uniform(0, 1, (K, K))
    pairs = {(u, v): Lag(rows[v] - rows[u], errors[u, v], 0.02, 1.0) for u in range(K) for v in range(u + 1, K)}
    np.testing.assert_allclose(consistent(pairs, K), rows, atol=1e-9)


def test_a_view_is_reached_through_another_and_one_that_nothing_leads_to_is_not_known():
    unknown = Lag(np.nan, np.nan, 1.0, 0.0, "nothing")
    pairs = {(0, 1): Lag(5.0, 0.1, 0.02, 1.0), (0, 2): unknown, (1, 2): Lag(-2.0, 0.1, 0.02, 1.0), (0, 3): unknown}
    np.testing.assert_allclose(consistent(pairs, 4), [0, 5, 3, np.nan])

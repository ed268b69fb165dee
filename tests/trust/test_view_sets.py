"""What a set of views shares: against the literal twin, and where the answer is known."""

from collections import Counter
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcca.inspection.view_subsets import beyond_chance, exactly, in_common
from dlcca.numerics.principal import leading
from dlcca.trust.components import basis, chance, n_directions, n_significant, sequence
from dlcca.trust.surrogates import Compared, adjusted, agreed, carried, rest_test, windows_bases
from tests.reference import sets as literal


def neighborhoods(shared, *, m=5, k=80, n_views=3, noise=0.1, seed=0):
    """Views (m, k, d_v) that mix the variables whose entry of ``shared`` names them, and one of their own."""
    rng = np.random.default_rng(seed)
    variables = rng.standard_normal((len(shared), m, k, 1))
    views = []
    for v in range(n_views):
        held = [z for z, S in zip(variables, shared, strict=True) if v in S] + [rng.standard_normal((m, k, 1))]
        mixing, _ = np.linalg.qr(rng.standard_normal((len(held), len(held))))
        views.append(np.concatenate(held, axis=2) @ mixing + noise * rng.standard_normal((m, k, len(held))))
    return views, variables


def scores_of(views):
    return [leading(X, n_directions(X.shape[1])).scores for X in views]


@pytest.mark.parametrize("seed", range(3))
def test_what_a_view_holds_is_that_of_the_literal_twin(seed):
    views, _ = neighborhoods([(0, 1, 2), (0, 1)], seed=seed)
    u = np.random.default_rng(seed).standard_normal((5, 80, 2))
    u -= u.mean(axis=1, keepdims=True)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    for X, A in zip(views, scores_of(views), strict=True):
        expected = [[literal.held(u[i, :, c], X[i]) for c in range(2)] for i in range(5)]
        np.testing.assert_allclose(carried(u, basis(A)), expected, rtol=1e-8)


@pytest.mark.parametrize("n_views", [2, 3])
def test_what_views_agree_on_is_that_of_the_literal_twin(n_views):
    views, _ = neighborhoods([(0, 1, 2), (0, 1), (1, 2)], n_views=n_views)
    variates, least = agreed([basis(A) for A in scores_of(views)])
    for i in range(5):
        for c, (u, t) in enumerate(literal.agreed([X[i] for X in views])):
            assert least[i, c] == pytest.approx(t, abs=1e-8)
            if t > 0.2:  # of what nobody agrees on the direction is rounding
                assert abs(variates[i, :, c] @ u) == pytest.approx(1, abs=1e-6)


def test_the_statistic_of_a_view_against_the_rest_is_that_of_the_literal_twin(monkeypatch):
    views, _ = neighborhoods([(0, 1, 2), (1, 2)], m=24)
    stacked = [X.reshape(-1, X.shape[2]) for X in views]
    bases, places = windows_bases(stacked, np.arange(24 * 80).reshape(24, 80))
    monkeypatch.setattr("dlcca.trust.surrogates._edge", lambda *_: 0.2)
    for v in range(3):
        others = [X for u, X in enumerate(views) if u != v]
        found = rest_test(bases, places, 3, v, count=3)
        assert found.statistic == pytest.approx(literal.rest_statistic(views[v], others, 0.2), rel=1e-6)
        moved = found.surrogates[:, None]
        by_shift = [literal.rest_statistic(np.roll(views[v], s, axis=0), others, 0.2) for s in range(24)]
        assert np.isclose(moved, by_shift, rtol=1e-6).any(axis=1).all()  # each is that of some shift


def test_only_what_all_of_three_views_hold_passes_the_test_of_the_rest():
    def worst(shared):
        views, _ = neighborhoods(shared, m=120, k=80)
        stacked = [X.reshape(-1, X.shape[2]) for X in views]
        bases, places = windows_bases(stacked, np.arange(120 * 80).reshape(120, 80))
        return max(rest_test(bases, places, 3, v).p for v in range(3))

    assert worst([(0, 1, 2)]) <= 0.05
    assert worst([(0, 1), (1, 2), (0, 2)]) > 0.05
    assert worst([(0, 1)]) > 0.05


def test_where_chance_leaves_no_room_there_are_no_surrogates():
    views, _ = neighborhoods([(0, 1, 2)], m=30)
    bases, places = windows_bases([X.reshape(-1, X.shape[2]) for X in views], np.arange(30 * 80).reshape(30, 80))
    assert len(rest_test(bases, places, 3, 0, no_room=0.0).surrogates) == 0


@given(st.integers(0, 2**31), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_p_values_of_several_tests_are_those_of_the_literal_twin(seed, tests):
    rng = np.random.default_rng(seed)
    unit = 10.0 ** rng.integers(-3, 4, tests)
    surrogates = rng.gamma(2, 1, (tests, 19)) * unit[:, None]
    statistics = rng.gamma(3, 1, tests) * unit
    found = adjusted([Compared(float(s), x) for s, x in zip(statistics, surrogates, strict=True)])
    np.testing.assert_allclose(found, literal.adjusted(statistics, surrogates), rtol=1e-12)
    assert all(1 / 20 <= p <= 1 for p in found)


def test_any_false_one_of_many_tests_is_as_rare_as_it_says():
    rng = np.random.default_rng(0)
    false = [
        min(adjusted([Compared(float(x[0]), x[1:]) for x in rng.standard_normal((6, 39))])) <= 0.05 for _ in range(200)
    ]
    assert np.mean(false) <= 0.1  # 0.05, and three standard errors of 200


def test_too_few_surrogates_tell_nothing():
    assert adjusted([Compared(5.0, np.zeros(2)), Compared(5.0, np.zeros(2))]) == [1.0, 1.0]


VIEWS = st.integers(2, 5)


@given(st.data(), VIEWS)
@settings(max_examples=50, deadline=None)
def test_components_of_exactly_these_views_are_told_from_those_of_all_sets(data, K):
    every = list(chain.from_iterable(combinations(range(K), size) for size in range(2, K + 1)))
    components = data.draw(st.lists(st.sampled_from(every), max_size=6))
    counts = {S: literal.in_all_of(components, S) for S in every}
    assert exactly(counts) == dict(Counter(components))


def test_the_variates_of_a_sequence_are_what_two_views_share():
    views, variables = neighborhoods([(0, 1), (0, 1)], n_views=2, noise=0.02)
    made, variates = sequence(*scores_of(views))
    count = n_significant(chance(made[0], made[1], made[2], 80), 0.05)
    np.testing.assert_array_equal(count, 2)
    for i in range(5):
        shared = variables[:, i, :, 0].T
        for c, least in enumerate([0.98, 0.9]):  # squares of the first were taken out: some of 80 samples' freedom
            u = variates[i, :, c]
            assert literal.held(u / np.linalg.norm(u), shared) >= least
        np.testing.assert_allclose(variates[i].mean(axis=0), 0, atol=1e-8)


def test_no_variate_is_told_where_none_was_looked_for():
    views, _ = neighborhoods([(0, 1), (0, 1), (0, 1)], n_views=2, noise=0.02)
    views[0][2] = np.random.default_rng(9).standard_normal(views[0][2].shape)  # one neighborhood shares nothing
    made, variates = sequence(*scores_of(views))
    tested = made[1, 2] > 0
    assert (np.linalg.norm(variates[2], axis=0)[~tested] == 0).all()


@pytest.mark.parametrize(
    ("shared", "expected"),
    [([(0, 1, 2)], 1), ([(0, 1, 2), (0, 1, 2)], 2), ([(0, 1, 2), (0, 1)], 1), ([(0, 1), (1, 2)], 0), ([], 0)],
    ids=["one", "two", "one, and one of two", "two by two", "none"],
)
def test_what_all_views_share_at_a_landmark_is_counted(shared, expected):
    views, variables = neighborhoods(shared, m=20)
    found = in_common(scores_of(views), 80, 0.05)
    assert (found.count == expected).mean() >= 0.9
    size = np.linalg.norm(found.variates, axis=1)
    np.testing.assert_allclose(size.sum(axis=1), found.count, atol=1e-8)
    if expected:
        common = np.concatenate([z for z, S in zip(variables, shared, strict=True) if len(S) == 3], axis=2)
        for i in np.flatnonzero(found.count):
            assert literal.held(found.variates[i, :, 0], common[i]) >= 0.9


def test_a_view_holds_nothing_beyond_chance_of_what_it_does_not_share():
    views, variables = neighborhoods([(0, 1)], m=60, noise=0.02)
    u = variables[0] - variables[0].mean(axis=1, keepdims=True)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    one, _, other = (np.median(beyond_chance(u, basis(A))) for A in scores_of(views))
    assert one >= 0.95
    assert abs(other) <= 0.03

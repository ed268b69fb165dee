"""Which views share what, as users meet it."""

import warnings

import numpy as np
import pytest

from dlcca import LocalCCA, simulate, who_shares
from dlcca.errors import DataError, SettingsError, Untrusted
from dlcca.inspection.view_subsets import PairShares, Sharing

KNN = {"neighborhoods": "knn", "landmarks": 150, "random_state": 0}


def parts_of(found):
    """Sets of views, counted from 0, with their components."""
    return {tuple(found.names.index(name) for name in part.views): part.n_components for part in found.parts}


def asked(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # most of these views have nothing that all of them share
        model = LocalCCA(**{**KNN, **options}).fit(views)
    return model, who_shares(model, views)


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        ([(0, 1, 2), (0, 1)], {(0, 1, 2): 1, (0, 1): 1}),
        ([(0, 1), (1, 2), (0, 2)], {(0, 1): 1, (0, 2): 1, (1, 2): 1}),
        ([(0, 1, 2), (0, 1, 2)], {(0, 1, 2): 2}),
    ],
    ids=["all and two", "two by two", "all"],
)
def test_what_is_common_to_all_is_told_from_what_is_common_to_some(shared, expected):
    views, _ = simulate.overlapping(1000, shared=shared, noise=0.02, random_state=0)
    _, found = asked(views)
    assert parts_of(found) == expected
    for part in found.parts:
        assert part.exact
        assert part.p <= 0.05
        inside = np.isin(found.names, part.views)
        assert (part.carried[inside] >= 0.9).all()
        assert (part.carried[~inside] <= 0.1).all()
    assert found.common_to_all == expected.get((0, 1, 2), 0)


def test_two_views_that_share_are_found_among_others_that_do_not():
    views, _ = simulate.overlapping(800, shared=[(0, 2)], noise=0.05, random_state=1)
    _, found = asked(dict(zip("abc", views, strict=True)))
    assert parts_of(found) == {(0, 2): 1}
    assert [(pair.views, pair.shares) for pair in found.pairs] == [
        (("a", "b"), False),
        (("a", "c"), True),
        (("b", "c"), False),
    ]
    np.testing.assert_array_equal(found.matrix(), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    assert str(found).startswith("1 component common to a and c only.")


def test_views_that_share_nothing_are_said_to_share_nothing():
    views, _ = simulate.independent(1200, n_views=3, smoothness=0.9, random_state=0)
    _, found = asked(views, neighborhoods="time", window=40)
    assert found.parts == []
    assert not any(pair.shares for pair in found.pairs)
    assert found.common_to_all == 0
    assert found.carried.min(axis=1).max() <= 0.4  # coordinates of views that share nothing are made of each a third
    assert "No two views" in str(found)


def test_windows_of_time_tell_it_too():
    views, _ = simulate.overlapping(2000, shared=[(0, 1, 2), (1, 2)], smoothness=0.9, noise=0.05, random_state=0)
    model, found = asked(views, neighborhoods="time", window=40)
    assert parts_of(found) == {(0, 1, 2): 1, (1, 2): 1}
    assert model.n_common_ == 1


def test_the_coordinates_are_held_by_the_views_that_have_them():
    views, _ = simulate.overlapping(700, shared=[(0, 1, 2)], circles=True, random_state=0)
    _, found = asked(views)
    assert (found.carried >= 0.9).all()
    assert found.carried.shape == (2, 3)


def test_views_that_repeat_themselves_are_not_said_to_share_with_some_only():
    views, _ = simulate.icons(random_state=0, speeds=(4.1, 6, 9.7, 14.3))
    model = LocalCCA(window=7, random_state=0).fit(views)
    found = who_shares(model, views)
    assert all(pair.shares for pair in found.pairs)
    assert not any(part.exact for part in found.parts)
    assert "not known whether to others too" in str(found)


def test_more_than_one_dimension_common_to_three_views_is_found():
    from tests.support.scores import recovery

    views, truth = simulate.linear(1500, n_views=3, n_common=2, noise=0.02, random_state=0)
    model = LocalCCA(neighborhoods="knn", landmarks=400, random_state=0).fit(views)
    assert model.settings_.metric.kind == "maxvar"
    assert model.n_common_ == 2
    assert all(recovery(model.embedding_, truth.z[:, [c]]) >= 0.98 for c in range(2))


def test_views_that_run_behind_each_other_are_put_in_step():
    shared = {"shared": [(0, 1)], "n_views": 2, "smoothness": 0.9, "noise": 0.05}
    one, other = simulate.overlapping(800, **shared, random_state=0)[0]
    views = [one, np.roll(other, 40, axis=0)]
    _, found = asked(views, neighborhoods="time", window=30, lags=[0, 40])
    assert parts_of(found) == {(0, 1): 1}


def test_more_views_than_can_be_looked_at_are_refused():
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (200, 2))
    with pytest.raises(SettingsError, match="at most 8 views are examined, and there are 9"):
        asked([z + 0.1 * rng.standard_normal((200, 2)) for _ in range(9)], landmarks=30)


@pytest.mark.parametrize(
    ("shares", "p", "told"),
    [
        (None, None, "a and b: too few rows."),
        (None, 0.3, "a and b: not known whether they share anything, p = 0.300."),
        (False, 0.3, "a and b share nothing significant, p = 0.300."),
        (True, 0.026, "a and b share 2 (strength 0.90), p = 0.026."),
    ],
)
def test_what_is_known_of_a_pair_is_a_sentence(shares, p, told):
    pair = PairShares(("a", "b"), shares, p, 2, 0.9)
    assert told in str(Sharing(("a", "b"), [pair], [], np.empty((0, 2)))).splitlines()


def test_one_view_shares_with_none():
    with pytest.raises(DataError, match="this model has one"):
        asked([np.random.default_rng(0).standard_normal((200, 3))], landmarks=50)

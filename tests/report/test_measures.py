"""Measures of trust are told with what they mean."""

import pytest

from dlcca import LocalCCA, simulate
from dlcca.report import overview, page
from dlcca.report.sentences import MEANINGS, MOST_NUMBERS, measures
from tests.report.stores import night


def told(**quality):
    return {name: (value, meaning) for name, value, meaning in measures(overview.of_run(night(300, quality=quality)))}


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")
def test_every_measure_of_a_fit_has_a_meaning():
    for kind in ("time", "knn"):
        views, _truth = simulate.torus(300, random_state=0)
        found = LocalCCA(neighborhoods=kind, random_state=0).fit(views).quality_
        assert set(found) - {"notes"} <= set(MEANINGS)


def test_those_that_decide_come_first_and_one_that_is_not_known_keeps_its_name():
    found = told(far_rows=0.25, brand_new=3, p_common=0.0123456, trusted=True)
    assert list(found) == ["trusted", "p-value", "far rows", "brand new"]
    assert found["trusted"][0] == "yes"
    assert found["p-value"][0] == "0.01235"
    assert found["brand new"] == ("3", "")


def test_coordinates_are_counted_from_one_and_long_lists_and_gaps_left_out():
    found = told(
        independent_coordinates=[0, 2], half_landmarks_r2=[0.5] * (MOST_NUMBERS + 1), p_common=None, notes=["x"]
    )
    assert {name: value for name, (value, _) in found.items()} == {"independent coordinates": "1, 3"}


def test_names_are_not_taken_for_markup():
    html = page.render(overview.of_run(night(300, quality={"<b>": "<i>"})))
    assert "<b>" not in html
    assert '<th scope="row">&lt;b&gt;</th><td>&lt;i&gt;</td>' in html

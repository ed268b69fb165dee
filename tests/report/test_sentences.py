"""The headline and the sentences below it say what was found, and no more."""

import numpy as np
import pytest

from dlcca.report import overview, sentences
from dlcca.report.landmarks import Strength, strengths
from dlcca.trust.quality import LINEAR_NOTE
from tests.report.stores import night, stored
from tests.support.runs import made_up


@pytest.mark.parametrize(
    ("changed", "headline"),
    [
        ({}, "These two views share one variable"),
        ({"n_common": 2}, "These two views share two variables"),
        ({"n_common": 0, "warnings": ["x"]}, "Nothing common was found in these two views"),
        ({"warnings": ["in pieces"]}, "These two views share one variable, but do not trust this yet"),
        ({"views": {"only": 3}}, "One view, in three coordinates of its own"),
        ({"quality": {"decidable": False}}, "It is not yet known whether these two views share anything"),
    ],
)
def test_the_headline_says_what_was_found(changed, headline):
    flat = {"correlations": np.full((100, 2), 0.9)}  # as strong throughout
    assert sentences.headline(overview.of_run(made_up(**{**flat, **changed}))) == headline


def test_the_headline_says_when_it_was_strongest(tmp_path):
    found = overview.of_store(str(stored(tmp_path / "run.zarr", night(3000))))
    assert sentences.headline(found) == "These two views share one variable, strongest between 01:09 and 03:49"
    assert sentences.explained(found).startswith("It explains 4")
    assert sentences.explained(found).endswith("% of that of ecg.")


def test_a_surrogate_test_is_part_of_the_evidence():
    quality = {**made_up().quality, "p_common": 0.0256, "common_against": "shifted"}
    told = sentences.evidence(overview.of_run(made_up(quality=quality)))
    assert told.startswith("Test for a common variable: p = 0.026 (surrogates: the same views shifted in time).")
    assert "p =" not in sentences.evidence(overview.of_run(made_up()))


def test_it_is_said_whether_plain_linear_cca_would_have_done():
    said = LINEAR_NOTE + ": its variates explain ..."
    for quality, n_common, count in (
        ({"linear_cca_r2": 0.42}, 1, 1),
        ({"linear_cca_r2": 0.95, "notes": [said]}, 1, 0),
        ({"linear_cca_r2": 0.42}, 0, 0),
        ({}, 1, 0),
    ):
        found = overview.of_run(made_up(quality={**made_up().quality, **quality}, n_common=n_common))
        assert len(sentences.linear_cca(found)) == count
        assert all("gives other coordinates" in text and "R² = 0.42" in text for text in sentences.linear_cca(found))


@pytest.mark.parametrize(
    ("shares", "n_common", "told"),
    [
        ([0.984, 0.5], 1, "reproduce 0.98 of coordinate 1 and 0.50 of coordinate 2."),
        ([0.9], 1, "reproduce 0.90 of coordinate 1."),
        ([0.9], 0, "what is private to a view is reproduced as well."),
        ([0.9] * 9, 1, "0.90 of coordinate 3 and 0.90 of coordinate 4."),
    ],
)
def test_it_is_said_how_much_of_each_coordinate_is_reproduced(shares, n_common, told):
    quality = {**made_up().quality, "from_halves": shares}
    assert sentences.reproduced(overview.of_run(made_up(quality=quality, n_common=n_common))).endswith(told)


def test_it_is_not_said_where_it_is_not_known():
    assert sentences.reproduced(overview.of_run(made_up())) == ""


def test_it_is_said_what_of_all_rows_is_drawn():
    assert sentences.sample_note(overview.of_run(made_up())) == "All 200 rows are drawn."
    n = 30_000
    long = overview.of_run(made_up(n, landmarks=np.arange(0, n, 300), correlations=np.ones((100, 2))))
    told = sentences.sample_note(long)
    assert f"{len(long.rows.sample.rows):,}".replace(",", "\u202f") in told
    assert "of 30\u202f000 rows are drawn as points" in told


def strength(value):
    time = np.linspace(0, 100, len(value))
    return Strength(time, np.asarray(value, float), None, "", "")


def test_strength_without_a_peak_is_not_called_strongest_anywhere():
    rng = np.random.default_rng(0)
    assert strength(0.8 + 0.02 * rng.standard_normal(500)).strongest() is None
    assert strength(np.linspace(0.79, 0.83, 500)).strongest() is None
    assert strength(np.where(np.arange(500) < 400, 0.9, 0.2)).strongest() is None  # most of the time
    assert strength([0.1, 0.9]).strongest() is None


def test_a_peak_is_found_where_it_is():
    value = np.where((np.arange(500) > 200) & (np.arange(500) < 280), 0.9, 0.5)
    low, high = strength(value).strongest()
    assert (low, high) == pytest.approx((40, 56), abs=2.5)


def test_the_better_measure_of_strength_comes_first():
    time, rho = np.array([2.0, 1.0]), np.array([[0.5, 0.1], [0.7, 0.2]])
    local = {"strength": np.array([0.3, 0.4]), "null_edge": np.array([0.6, 0.2])}
    first, second = strengths(time, rho, local, 0.5)
    assert (first.label, first.value.tolist(), first.chance) == ("strength beyond chance", [0.4, 0.3], None)
    assert (second.value.tolist(), second.chance.tolist()) == ([0.7, 0.5], [0.2, 0.6])
    (only,) = strengths(time, rho, {}, 0.5)
    assert only.chance.tolist() == [0.5, 0.5]
    assert strengths(time, np.empty((2, 0)), local, 0.5) == []

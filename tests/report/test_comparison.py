"""The baselines in the report: a table and figures, whatever is known and whatever methods are called."""

import numpy as np
import pytest

from dlcca.report import comparison, page
from dlcca.storage.comparison import Comparison
from tests.report.test_page import parsed
from tests.support.runs import made_up

EMPTY = dict.fromkeys(key for key, _, _ in comparison.COLUMNS)
FACTS = {"rows": 60, "of_rows": 200, "coordinates": 3, "neighbors": 15, "folds": "blocked", "control": "shifted"}


def made(known=None, **facts):
    """A comparison of three methods, the last of which failed."""
    rng = np.random.default_rng(0)
    table = [
        {"method": "local CCA", **EMPTY, "min_view_r2": 0.9, "min_view_r2_control": 0.1, "gain": 0.8, "note": ""},
        {
            "method": "maps of <b>eeg</b>",
            **EMPTY,
            "min_view_r2": 0.5,
            "r2_to_local_cca": 0.25,
            "r2_from_local_cca": 0.1,
            "note": "",
        },
        {"method": "kernel CCA", **EMPTY, "note": "too <few> rows"},
    ]
    coordinates = [rng.standard_normal((60, 3)), rng.standard_normal((60, 3)), None]
    return Comparison("f", np.arange(0, 180, 3), table, coordinates, {**FACTS, **facts}, known)


def test_the_report_has_a_section_for_other_methods_only_if_they_were_compared():
    html = page.render(made_up(), compared=made())
    tags = parsed(html)
    assert tags.open == []
    assert "Beside other methods" in tags.text
    assert "60 of 200 rows, spread evenly" in tags.text
    assert "maps of <b>eeg</b>" in tags.text  # as text, and not as a tag
    assert "too <few> rows" in tags.text
    assert "Beside other methods" not in page.render(made_up())


def test_columns_without_a_figure_are_left_out():
    assert [key for key, _, _ in comparison.columns(made())] == [
        "min_view_r2", "min_view_r2_control", "gain", "r2_to_local_cca", "r2_from_local_cca",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["value", "phase", "label"])
def test_a_truth_colours_the_pictures_where_it_is_known(kind):
    truth = np.where(np.arange(60) < 5, np.nan, np.arange(60) % 7)
    of = made(truth, truth="depth", truth_kind=kind, score="R²")
    of.table[0].update(score=0.9, control=0.2)
    assert "coloured by depth" in comparison.pictures(of, np.arange(60.0)).caption
    assert comparison.columns(of)[0][1] == "R²"


@pytest.mark.parametrize(("value", "shown"), [(0.12345, "0.123"), (None, "–"), (float("nan"), "–")])
def test_what_is_not_known_is_a_dash(value, shown):
    assert comparison.cell(value) == shown


def test_a_single_outlier_does_not_hide_all_others():
    low, high = comparison._range(np.append(np.linspace(0, 1, 500), 1e6))
    assert low < 0.05
    assert 0.95 < high < 1.3

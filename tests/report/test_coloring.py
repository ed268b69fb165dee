"""Points are coloured by numbers, by labels, and by the annotations that hold at their moments."""

import numpy as np
import pytest

from dlcca.errors import DataError
from dlcca.report import rows as result_rows


def test_numbers_stay_numbers_and_texts_become_labels():
    rows = np.array([0, 2, 3])
    depth, stage = result_rows.colorings({"depth": np.arange(4), "stage": np.array(["b", "a", "", "a"])}, rows)
    assert depth.values.tolist() == [0, 2, 3]
    assert depth.labels == ()
    assert stage.labels == ("a", "b")
    np.testing.assert_array_equal(stage.values, [1, np.nan, 0])


def test_a_value_for_each_row_is_needed():
    with pytest.raises(DataError, match="a value for each of 4 rows"):
        result_rows.colorings({"depth": np.arange(5)}, np.array([0, 3]))


def test_labels_without_a_colour_of_their_own_are_others():
    texts = np.array([f"label {i:02d}" for i in range(12)] * 2 + ["label 00"])
    (made,) = result_rows.colorings({"x": texts}, np.arange(25))
    assert len(made.labels) == result_rows.MOST_LABELS + 1
    assert made.labels[-1] == "other"
    assert np.nanmax(made.values) == result_rows.MOST_LABELS


def test_an_annotation_holds_where_a_window_reaches_into_it():
    time = np.arange(0.0, 10.0)
    marks = [[2.0, 5.0, "deep"], [4.5, 4.5, "spindle"], [8.0, 30.0, "wake"]]
    labels = result_rows._in_force(time, marks, window_s=1.0)
    assert labels.tolist() == ["", "", "deep", "deep", "spindle", "", "", "", "wake", "wake"]

"""Sensors on both shoes share the gait cycle."""

import pytest

from tests.realdata.problems import compared, gait


@pytest.mark.slow
def test_the_gait_cycle_is_in_two_coordinates(tmp_path):
    problem = gait(tmp_path)
    made = compared(problem)
    ours = made.table[0]
    assert made.facts["rows"] == made.facts["of_rows"] > 1900
    assert ours["score"] >= 0.95
    assert ours["seen"] > 0.8

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


@pytest.mark.slow
@pytest.mark.parametrize(
    "q",
    [
        2,
        pytest.param(5, marks=pytest.mark.xfail(strict=False, reason="0.994, diffusion maps of both feet 0.998")),
    ],
)
def test_no_baseline_tells_the_gait_cycle_better(tmp_path, q):
    ours, *others = compared(gait(tmp_path, q)).table
    assert ours["score"] >= max(entry["score"] for entry in others)

"""The paper's experiments: the quick one on every save, all of them before a merge."""

import re
from pathlib import Path

import numpy as np
import pytest

from dlcca.reproduce import icons, square, table
from tests.help_examples import run_example


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n")


def test_the_exact_factors_invert_the_local_covariance():
    J = np.random.default_rng(0).standard_normal((5, 2, 2))
    F = square.exact_factors(J)
    np.testing.assert_allclose(
        F @ np.swapaxes(F, 1, 2) @ J @ np.swapaxes(J, 1, 2), np.broadcast_to(np.eye(2), (5, 2, 2)), atol=1e-9
    )


def test_the_square_experiment_meets_its_expectations(tmp_path):
    said = []
    section = square.run(tmp_path, said.append)
    assert [row.met for row in section.rows] == [True, True, None, None]
    assert said
    assert all(is_png(tmp_path / plate.file) for plate in section.plates)


def test_no_fit_of_the_icons_is_done_twice():
    jobs = icons.jobs()
    assert len(jobs) == len(set(jobs))


@pytest.mark.slow
def test_every_expectation_of_the_paper_is_met_by_the_example_in_the_help(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "reproduce-output"
    result = run_example("reproduce")
    assert result.exit_code == 0, result.output
    rows = table.read(out / "table.json")
    assert [row.figure for row in rows if row.met is False] == []
    assert sum(row.met is not None for row in rows) >= 20
    assert len({row.figure for row in rows}) == len(rows)
    assert (out / "table.md").stat().st_size > 0
    html = (out / "index.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'src="([^"]+)"', html))
    assert shown == {path.name for path in out.glob("*.png")}
    assert len(shown) == 13
    assert all(is_png(out / file) for file in shown)

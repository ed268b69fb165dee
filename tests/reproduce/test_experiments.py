"""The paper's experiments: the quick one on every save, all of them before a merge."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dlcca import LocalCCA, simulate
from dlcca.reproduce import Row, icons, results, square
from tests.support.help_examples import run_example
from tests.support.scores import power_shares


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
    section = square.run(said.append)
    assert [row.met for row in section.rows] == [True, True, None, None]
    assert said
    results.write_page([section], tmp_path)
    assert all(is_png(tmp_path / plate.file) for plate in section.plates)


def test_no_fit_of_the_icons_is_done_twice(monkeypatch):
    done = []
    monkeypatch.setattr(icons, "first_coordinate", lambda job: done.append(job) or np.sin(np.arange(icons.N) / 10.0))
    found = icons.Found(lambda text: None)
    assert icons.rows(found) == icons.rows(found)
    assert len(done) == len(set(done)) > 50


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """The example in the help: what it told, the folder that it wrote, and the models of the icons by their jobs.

    The figure of windows, of which nothing is expected, is drawn for two of them and the drawn icons alone; it is drawn
    whole by `make suite`.
    """
    folder, models = tmp_path_factory.mktemp("reproduced"), {}
    first_coordinate = icons.first_coordinate

    def noted(job):
        class Kept(LocalCCA):
            def fit(self, views, y=None):
                models[job] = self
                return super().fit(views, y)

        patch.setattr(icons, "LocalCCA", Kept)
        return first_coordinate(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(icons, "first_coordinate", noted)
        patch.setattr(icons, "WINDOWS", (icons.SHORT, icons.LONG))
        patch.setattr(icons, "SWEPT_SETS", range(0))
        result = run_example("reproduce")
    return result, folder / "reproduce-output", models


@pytest.mark.slow
def test_every_expectation_of_the_paper_is_met_by_the_example_in_the_help(reproduced):
    result, out, _models = reproduced
    assert result.exit_code == 0, result.output
    rows = [Row(**entry) for entry in json.loads((out / "table.json").read_text(encoding="utf-8"))]
    assert [row.figure for row in rows if row.met is False] == []
    assert sum(row.met is not None for row in rows) >= 20
    assert len({row.figure for row in rows}) == len(rows)
    assert (out / "table.md").stat().st_size > 0
    html = (out / "index.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'src="([^"]+)"', html))
    assert shown == {path.name for path in out.glob("*.png")}
    assert len(shown) == 13
    assert all(is_png(out / file) for file in shown)


@pytest.mark.slow
def test_windows_of_61_find_the_common_icon_of_most_random_sets(reproduced):
    """By measures of the tests' own, on the models of the example: to fit them again takes most of a minute."""
    _result, _out, models = reproduced
    shares = []
    for seed in range(10):
        _views, truth = simulate.icons(pictures="random", random_state=seed)
        model = models[icons.Job(1, "random", seed, window=61)]
        assert model.warnings_ == []
        shares.append(power_shares(model.embedding_[:, 0], truth.speeds, truth.common))
    assert sum(common >= 0.9 and private <= 0.08 for common, private in shares) >= 8

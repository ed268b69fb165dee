"""The tutorial on a recording: from a WFDB file to a report by one run.toml."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.stores import run as run_store
from tests.realdata.problems import strongest_frequency
from tests.recordings import shared

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


def dlcca(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.slow
def test_the_tutorial_goes_from_the_file_to_the_report(tmp_path):
    for name in ("v102s.hea", "v102s.dat"):
        shutil.copy(shared("format-samples", name), tmp_path / name)
    (tmp_path / "v102s.toml").write_text((TUTORIALS / "v102s.toml").read_text() + "\n[cluster]\nworkers = 1\n")
    document = json.loads(dlcca("run", tmp_path / "v102s.toml", "--json").stdout)
    assert (document["samples"], document["n_common"]) == (3575, 1)
    dlcca("report", tmp_path / "v102s.zarr")
    assert "These two views share one variable" in (tmp_path / "v102s.html").read_text(encoding="utf-8")

    found = run_store.read(tmp_path / "v102s.zarr")
    assert found.embedding.shape == (3743, 3)
    assert (np.isnan(found.embedding[:, 0]) == (found.reason != 0)).all()
    steady = np.where(np.isnan(found.embedding), 0, found.embedding)
    beats = [strongest_frequency(x, 1 / 0.08) for x in steady.T]
    np.testing.assert_allclose(beats, [1.71, 1.71, 3.43], atol=0.02)  # 103 beats a minute, and twice that

    made = dlcca("compare", tmp_path / "v102s.toml", "--rows", 1000, "--out", tmp_path / "out", "--json")
    ours = json.loads(made.stdout)["methods"][0]
    assert ours["seen"] > 0.8
    assert ours["seen_control"] < 0.2


def test_the_page_shows_the_run_file_as_it_is():
    def said(text):
        return [line for line in text.splitlines() if line and not line.startswith("#")]

    page = (TUTORIALS / "recording.md").read_text().partition("```toml\n")[2].partition("```")[0]
    assert said(page) == said((TUTORIALS / "v102s.toml").read_text())

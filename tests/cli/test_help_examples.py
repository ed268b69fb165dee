"""Every example in a --help works as it is printed, one after the other in one folder."""

import re
from pathlib import Path

import numpy as np
import pytest
import zarr

from dlcca.pipelines import settings
from dlcca.settings import runfile
from tests.cli.test_cli import EVERY_VERB
from tests.pipelines.nights import pipeline_file, recorded
from tests.support.doc_pages import ROOT
from tests.support.help_examples import example_of, run_example
from tests.support.page_files import RUN_ON_RECORDINGS, write_night

#: In an order in which each finds what it works on.
ON_RECORDINGS = ("schema", "plan", "ingest", "tune", "run", "transform", "refit", "export", "compare")
ON_CLUSTERS = ("cluster profiles", "cluster check")
ON_THE_DEMO = ("demo", "report", "status", "verify")
ON_PIPELINES = ("examples", "run", "backfill", "status", "history", "rollback", "retain", "page", "install")
#: Run elsewhere, for what they take: all of the paper, a server of Prefect's.
ELSEWHERE = {
    "reproduce": "tests/reproduce/test_experiments.py",
    "pipeline serve": "tests/pipelines/test_prefect.py",
}


def test_no_verb_is_left_out():
    done = {*ON_RECORDINGS, *ON_CLUSTERS, *ON_THE_DEMO, *(f"pipeline {verb}" for verb in ON_PIPELINES), *ELSEWHERE}
    assert done == set(EVERY_VERB)


@pytest.mark.parametrize(("verb", "test"), ELSEWHERE.items())
def test_examples_that_are_not_run_here_are_run_in_another_test(verb, test):
    assert re.search(rf'(?:run_example|example_of)\("{verb}"\)', (ROOT / test).read_text())


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_an_example_is_whole_on_a_narrow_terminal_and_calls_its_verb(verb):
    assert example_of(verb).startswith(f"dlcca {verb}")


def works(verb: str, *left_behind: str) -> None:
    result = run_example(verb)
    assert result.exit_code == 0, f"{example_of(verb)}: {result.output}"
    assert [name for name in left_behind if not Path(name).exists()] == []


def test_the_example_settings_are_settings():
    asked = runfile.read(settings.examples_folder() / "run.toml")
    assert list(asked.recordings) == ["brain", "heart"]
    for name in ("nightly-edf.toml", "bucket.toml"):
        assert settings.read(settings.examples_folder() / name).pipeline.name


@pytest.mark.slow
@pytest.mark.cluster
def test_examples_on_recordings_work_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("run.toml").write_text(RUN_ON_RECORDINGS)
    for night, name in enumerate(("night1", "night2", "monday", "tuesday"), start=1):
        write_night(f"{name}.edf", night)
    works("schema", "run.schema.json")
    works("plan")
    works("ingest", "views.zarr")
    works("tune", "tuned.toml")
    works("run", "run.zarr")
    works("transform", "week.zarr")
    works("refit", "both.zarr")
    works("export", "run.parquet")
    rows = zarr.open_group("run.zarr", mode="r")["time"].shape[0]
    np.savez("breaths.npz", phase=np.linspace(0, 60, rows) % (2 * np.pi))
    works("compare", "compare-output/compare.html")
    works("cluster profiles", "my-cluster/slurm.toml")
    works("cluster check")


@pytest.mark.slow
def test_examples_on_the_demo_work_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    works("demo", "demo-output/run.zarr", "demo-output/report.html")
    works("report", "report.html")
    works("status")
    works("verify")


@pytest.mark.slow
def test_examples_on_pipelines_work_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    works("pipeline examples", "my-settings/run.toml", "my-settings/nightly-edf.toml")
    pipeline_file(tmp_path, more='\n[outputs]\npage = "page.html"\n[refit]\nnew_rows = 0.5\n')
    for night in (1, 2):  # the second brings a second model, from which one can go back
        recorded(tmp_path, night)
        works("pipeline run")
    for verb in ("backfill", "status", "history", "rollback", "retain"):
        works(f"pipeline {verb}")
    works("pipeline page", "page.html")
    works("pipeline install")

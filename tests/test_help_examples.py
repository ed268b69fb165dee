"""Every example in a --help works as it is printed, one after the other in one folder."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr
from scipy.signal import lfilter

from dlcca import runfile
from dlcca.pipelines import examples, settings
from tests.help_examples import example_of, run_example
from tests.pipelines.nights import RATE, SECONDS, pipeline_file, recorded
from tests.test_cli import EVERY_VERB

RUN = """
[store]
path = "run.zarr"

[views.eeg]
source = "night1.edf"
channels = ["EEG*"]
window_s = 0.125
step_s = 0.125

[views.ecg]
source = "night1.edf"
channels = ["ECG*"]
window_s = 0.125
step_s = 0.125

[landmarks]
choice = 60

[neighborhoods]
kind = "knn"
n_neighbors = 40

[cluster]
workers = 1
"""
#: In an order in which each finds what it works on.
ON_RECORDINGS = ("plan", "ingest", "run", "transform", "refit", "export", "compare")
ON_CLUSTERS = ("cluster profiles", "cluster check")
ON_THE_DEMO = ("demo", "report", "status", "verify")
ON_PIPELINES = ("examples", "run", "backfill", "status", "history", "rollback", "retain", "page", "install")
#: Run elsewhere, for what they take: the paper in tests/reproduce, Prefect's server in tests/pipelines.
ELSEWHERE = ("reproduce", "pipeline serve")


def test_no_verb_is_left_out():
    done = {*ON_RECORDINGS, *ON_CLUSTERS, *ON_THE_DEMO, *(f"pipeline {verb}" for verb in ON_PIPELINES), *ELSEWHERE}
    assert done == set(EVERY_VERB)


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_an_example_is_whole_on_a_narrow_terminal_and_calls_its_verb(verb):
    assert example_of(verb).startswith(f"dlcca {verb}")


def write_night(path: str, night: int) -> None:
    """Two sensors as an EEG and an ECG."""
    import edfio

    rng = np.random.default_rng(night)
    z, left, right = lfilter([0.02], [1, -0.98], rng.standard_normal((3, SECONDS * RATE)), axis=1) * 5
    X = np.stack([z + left, np.tanh(z), left, z - right, np.sin(z), right], axis=1)
    X += 0.01 * rng.standard_normal(X.shape)
    names = ["EEG 1", "EEG 2", "EEG 3", "ECG 1", "ECG 2", "ECG 3"]
    signals = [
        edfio.EdfSignal(X[:, i], RATE, label=name, physical_dimension="uV", physical_range=(-20, 20))
        for i, name in enumerate(names)
    ]
    start = datetime(2021, 1, night, 22, tzinfo=UTC) + timedelta(minutes=night)
    edfio.Edf(
        signals, recording=edfio.Recording(startdate=start.date()), starttime=start.time().replace(tzinfo=None)
    ).write(path)


def works(verb: str, *left_behind: str) -> None:
    result = run_example(verb)
    assert result.exit_code == 0, f"{example_of(verb)}: {result.output}"
    assert [name for name in left_behind if not Path(name).exists()] == []


def test_the_example_settings_are_settings():
    asked = runfile.read(examples.folder() / "run.toml")
    assert list(asked.recordings) == ["brain", "heart"]
    for name in ("nightly-edf.toml", "bucket.toml"):
        assert settings.read(examples.folder() / name).pipeline.name


@pytest.mark.slow
@pytest.mark.cluster
def test_examples_on_recordings_work_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("run.toml").write_text(RUN)
    for night, name in enumerate(("night1", "night2", "monday", "tuesday"), start=1):
        write_night(f"{name}.edf", night)
    works("plan")
    works("ingest", "views.zarr")
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

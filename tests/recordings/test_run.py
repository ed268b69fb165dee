"""From a run.toml that names recordings to an embedding with times, through the command line."""

import json

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import SettingsError
from dlcca.fitting import runner
from dlcca.fitting.job import Source
from dlcca.recordings import ingest
from dlcca.settings.fit import Settings
from dlcca.settings.runfile import read
from dlcca.storage import run as run_store
from dlcca.storage.views import Reason
from tests.recordings.fakes import ArraySignal, ingested, open_fake, recipe, write

RUN = """
[store]
path = "run.zarr"

[views.left]
source = "left.npy"
channels = ["*"]
window_s = 0.2
reader = { rate = 50.0 }

[views.right]
source = ["right.npy"]
features = { kind = "delay", delay_s = 0.04 }
reader = { rate = 50.0 }

[neighborhoods]
window = 6

[landmarks]
count = 60

[cluster]
workers = 1
"""


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def recordings(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Two views of a common movement; a gap in the first."""
    t = np.arange(n) / 50
    rng = np.random.default_rng(0)
    common = np.sin(2 * np.pi * 0.31 * t)
    X = np.stack([common, np.cos(t), common**2], axis=1) + 0.02 * rng.standard_normal((n, 3))
    Y = np.stack([common**3, np.sin(1.7 * t)], axis=1) + 0.02 * rng.standard_normal((n, 2))
    X[1500:1530] = np.nan
    return X, Y


@pytest.fixture
def folder(tmp_path):
    X, Y = recordings()
    np.save(tmp_path / "left.npy", X)
    np.save(tmp_path / "right.npy", Y)
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("window_s", "windows_s"), r"\[views.left\] windows_s is not a setting; did you mean 'window_s'"),
        (('kind = "delay"', 'kind = "dealy"'), "did you mean 'delay'"),
        (("delay_s = 0.04", "delays = 4"), r"features delays is not a parameter of 'delay'; did you mean"),
        (('channels = ["*"]', "channels = [3]"), r"\[views.left\] channels = \[3\]"),
        (("window_s = 0.2", "window_s = 0"), "window_s = 0; a number above 0"),
        (("window_s = 0.2", 'scaling = "robsut"'), "did you mean 'robust'"),
        (('source = ["right.npy"]\n', ""), r"\[views.right\] lacks source"),
    ],
)
def test_a_wrong_view_says_what_is_wrong(folder, change, message):
    (folder / "run.toml").write_text(RUN.replace(*change))
    with pytest.raises(SettingsError, match=message):
        read(folder / "run.toml")


def test_views_that_are_recordings_are_told_from_arrays_of_samples(folder):
    asked = read(folder / "run.toml")
    assert list(asked.recordings) == ["left", "right"]
    assert asked.recordings["left"].source == (str(folder / "left.npy"),)
    assert asked.views["left"] == str(folder / "run.zarr" / "recordings" / "views" / "left")
    plain = '[store]\npath = "r.zarr"\n[views.a]\nsource = "a.zarr"\n'
    (folder / "run.toml").write_text(plain)
    assert read(folder / "run.toml").recordings == {}
    (folder / "run.toml").write_text(plain + '[views.b]\nsource = "b.edf"\n')
    with pytest.raises(SettingsError, match=r"\[views.a\] is an array of samples and \[views.b\] a recording"):
        read(folder / "run.toml")
    (folder / "run.toml").write_text(plain + "window_s = 1.0\n")
    assert list(read(folder / "run.toml").recordings) == ["a"]


def fitted(tmp_path, **options):
    """A run on recordings with gaps, here and without a cluster."""
    X, Y = recordings()
    file = write(tmp_path / "a.npz", ArraySignal(X, list("abc"), 50.0), ArraySignal(Y, list("de"), 50.0))
    views = {"left": recipe(file, channels=list("abc"), window_s=0.2), "right": recipe(file, channels=list("de"))}
    ingested(tmp_path / "views.zarr", **views)
    settings = Settings.from_options(landmarks=60, **options)
    places = {name: str(tmp_path / "views.zarr" / "views" / name) for name in views}
    job, choices = runner.prepared(str(tmp_path / "run.zarr"), places, settings, 0, str(tmp_path / "views.zarr"))
    runner.run(job, choices)
    return job, run_store.read(tmp_path / "run.zarr")


@pytest.mark.parametrize("options", [{"window": 6}, {"neighborhoods": "knn", "n_neighbors": 20}])
def test_the_embedding_has_a_row_for_every_window_and_nan_with_the_reason_in_gaps(tmp_path, options):
    job, run = fitted(tmp_path, **options)
    assert run.embedding.shape == (300, 2)
    assert run.time_unit == "s"
    np.testing.assert_allclose(run.time, np.arange(300) * 0.2)
    gaps = np.isnan(run.embedding).any(axis=1)
    assert np.flatnonzero(gaps).tolist() == [150, 151, 152]
    assert (run.reason == np.where(gaps, Reason.MISSING, 0)).all()
    assert not gaps[run.landmarks].any()
    assert job.n == 297
    assert run_store.damages(tmp_path / "run.zarr")["reason"] is None


def test_neighborhoods_in_time_do_not_cross_a_gap(tmp_path):
    from dlcca.fitting import landmarks, neighbors

    job, _ = fitted(tmp_path, window=6)
    rows = np.concatenate([neighbors.neighbors(job, g) for g in range(landmarks.n_groups(job))])
    assert (np.ptp(job.segments[rows], axis=1) == 0).all()
    assert job.segments.max() == 1


def test_landmarks_in_stretches_that_are_too_short_are_left_out(tmp_path):
    X = np.random.default_rng(0).standard_normal((400, 4))
    X[20:40] = X[50:55] = np.nan  # a stretch of ten rows between two gaps
    file = write(tmp_path / "a.npz", ArraySignal(X, list("abcd"), 10.0))
    views = {"left": recipe(file, channels=["a", "b"], window_s=0.1), "right": recipe(file, channels=["c", "d"])}
    ingested(tmp_path / "views.zarr", **views)
    places = {name: str(tmp_path / "views.zarr" / "views" / name) for name in views}
    settings = Settings.from_options(landmarks="all", window=15)
    job, _ = runner.prepared(str(tmp_path / "run.zarr"), places, settings, 0, str(tmp_path / "views.zarr"))
    kept = job.rows_with_full_window(np.arange(job.n))
    assert kept.tolist() == [*range(20), *range(30, job.n)]
    long = Settings.from_options(landmarks=60, window=350)
    job, _ = runner.prepared(str(tmp_path / "other.zarr"), places, long, 0, str(tmp_path / "views.zarr"))
    with pytest.raises(ValueError, match="the longest stretch without a gap has 345 rows"):
        job.rows_with_full_window(np.arange(job.n))


def test_ingest_writes_what_the_files_hold_and_says_it_for_machines(folder):
    asked = dlcca("ingest", folder / "run.toml", "--json")
    assert asked.exit_code == 0, asked.output
    said = json.loads(asked.stdout)
    assert said["rows"] == 297
    assert said["reasons"]["missing"] == 3
    group = zarr.open_group(str(folder / "run.zarr" / "recordings"), mode="r")
    assert group["views/left"].shape == (300, 30)
    assert Source("left", str(folder / "run.zarr" / "recordings" / "views" / "left")).open().shape == (297, 30)
    assert Source("right", str(folder / "run.zarr" / "recordings" / "views" / "right")).open().shape == (297, 10)


def test_ingest_without_a_place_or_with_a_wrong_view_is_bad_usage(folder):
    file = folder / "left.npy"
    assert dlcca("ingest", file).exit_code == 2
    wrong = dlcca("ingest", file, "--out", folder / "v.zarr", "--view", "eeg")
    assert (wrong.exit_code, "NAME=CHANNELS" in wrong.stderr) == (2, True)
    missing = dlcca("ingest", folder / "none.edf", "--out", folder / "v.zarr")
    assert (missing.exit_code, "none.edf" in missing.stderr) == (3, True)


def test_a_plan_before_anything_was_ingested_is_that_of_the_same_views_without_gaps(folder):
    before = dlcca("plan", folder / "run.toml", "--json")
    assert before.exit_code == 0, before.output
    assert not (folder / "run.zarr").exists()
    assert "First the recordings are ingested: 300 windows" in dlcca("plan", folder / "run.toml").stdout
    assert dlcca("plan", folder / "run.toml", "--calibrate").exit_code == 2
    X, _ = recordings()
    np.save(folder / "left.npy", np.nan_to_num(X, nan=0.5) + 1e-3 * np.random.default_rng(1).standard_normal(X.shape))
    assert dlcca("ingest", folder / "run.toml", "--quiet").stdout == ""
    after = json.loads(dlcca("plan", folder / "run.toml", "--json").stdout)
    said = json.loads(before.stdout)
    ingestion = said.pop("ingestion")
    assert (ingestion["windows"], ingestion["writes"]) == (300, 300 * 40 * 4)
    assert said == after


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_ingests_first_and_a_second_one_does_nothing(folder):
    first = dlcca("run", folder / "run.toml", "--json")
    assert first.exit_code in (0, 5), first.output
    group = zarr.open_group(str(folder / "run.zarr"), mode="r")
    embedding = group["embedding"][...]
    assert np.isnan(embedding).any(axis=1).sum() == 3
    again = dlcca("run", folder / "run.toml", "--json")
    assert again.exit_code == first.exit_code
    np.testing.assert_array_equal(zarr.open_group(str(folder / "run.zarr"), mode="r")["embedding"][...], embedding)
    np.save(folder / "left.npy", recordings()[0] + 1)
    stale = dlcca("run", folder / "run.toml")
    assert (stale.exit_code, "--from ingest" in stale.stderr) == (2, True)
    assert dlcca("run", folder / "run.toml", "--from", "ingest").exit_code == first.exit_code
    assert dlcca("report", folder / "run.zarr").exit_code == 0


def test_files_with_annotations_only_leave_a_store_without_views(tmp_path):
    from dlcca.recordings.formats.recording import Annotation

    file = write(tmp_path / "stages.npz", marks=[Annotation(0, 30, "W"), Annotation(30, 30, "N1")])
    header = ingest.only_annotations(str(tmp_path / "v.zarr"), [file], open_fake)
    assert [text for *_, text in header["annotations"]] == ["W", "N1"]
    assert header["views"] == {}
    assert ingest.only_annotations(str(tmp_path / "v.zarr"), [file], open_fake) == header


def test_quiet_says_nothing_and_a_terminal_sees_how_fast_it_goes(folder, monkeypatch, capsys):
    import sys
    import time

    from dlcca.cli import Console

    assert dlcca("ingest", folder / "run.toml", "--quiet").output == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Console(as_json=False, quiet=False, debug=False).progress(block_s=60.0) as on_progress:
        for done in range(4):
            on_progress("drafts", done, 3)
            time.sleep(0.25)  # it is drawn ten times a second
    assert "x real time" in capsys.readouterr().err

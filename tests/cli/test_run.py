"""`dlcca run` and `dlcca plan` on a run.toml, as a data engineer meets them."""

import json

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, simulate
from dlcca.cli import app
from dlcca.clusters import local
from dlcca.errors import SettingsError
from dlcca.fitting import calibration
from dlcca.settings.runfile import read
from dlcca.storage import event_log

RUN = """
[store]
path = "run.zarr"
seed = 3

[views.left]
source = "left.zarr"

[views.right]
source = "right.zarr"

[landmarks]
count = 150

[neighborhoods]
kind = "knn"
n_neighbors = 40

[cluster]
workers = 1
memory_gib = 2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    views, _truth = simulate.torus(1500, common="big", random_state=0)
    for name, X in zip(("left", "right"), views, strict=True):
        array = zarr.create_array(str(tmp_path / f"{name}.zarr"), shape=X.shape, chunks=(400, 3), dtype=X.dtype)
        array[:] = X
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_leaves_a_finished_store_and_a_second_one_computes_nothing(folder):
    first = dlcca("run", folder / "run.toml", "--json")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["n_common"] == 1
    group = zarr.open_group(str(folder / "run.zarr"), mode="r")
    views = [zarr.open_array(str(folder / f"{name}.zarr"))[:] for name in ("left", "right")]
    options = {"neighborhoods": "knn", "n_neighbors": 40, "landmarks": 150, "random_state": 3}
    expected = LocalCCA(**options).fit(views)
    np.testing.assert_allclose(group["embedding"][:], expected.embedding_, atol=1e-8, rtol=0)
    np.testing.assert_array_equal(group["landmarks"][:], expected.landmarks_)
    assert {"time", "eigenvalues", "quality"} <= set(group)
    written = {p: p.stat().st_mtime_ns for p in (folder / "run.zarr" / "stages").rglob("*") if p.is_file()}
    assert dlcca("run", folder / "run.toml", "--quiet").exit_code == 0
    after = {p: p.stat().st_mtime_ns for p in (folder / "run.zarr" / "stages").rglob("*") if p.is_file()}
    assert after == written
    assert dlcca("verify", folder / "run.zarr").exit_code == 0
    status = json.loads(dlcca("status", folder / "run.zarr", "--json").stdout)
    assert status["shapes"]["embedding"] == [1500, 2]
    assert status["cost"]["near"]["seconds"] > 0
    assert status["cost"]["near"]["tasks"] == 2
    assert "of the workers' time (" in dlcca("status", folder / "run.zarr").stdout
    assert dlcca("report", folder / "run.zarr", "--out", folder / "report.html").exit_code == 0
    plans = [event for event in event_log.read(str(folder / "run.zarr")) if event["event"] == "planned"]
    assert plans[0]["workers"] == 1
    assert plans[0]["rates"] == "a guess"
    assert set(status["cost"]) <= set(plans[0]["stages"])  # the report holds the one against the other
    text = (folder / "report.html").read_text()
    assert "had been planned for all, by rates that were a guess" in text
    assert "finished by an earlier one" in text


@pytest.mark.slow
@pytest.mark.cluster
def test_other_settings_are_refused_until_the_stage_is_named(folder):
    assert dlcca("run", folder / "run.toml", "--quiet").exit_code == 0
    (folder / "run.toml").write_text(RUN + "\n[metric]\nridge = 0.1\n")
    refused = dlcca("run", folder / "run.toml")
    assert refused.exit_code == 2
    assert "ridge 0.03" in refused.stderr
    assert "ridge 0.1" in refused.stderr
    assert "--from metric" in refused.stderr
    again = dlcca("run", folder / "run.toml", "--from", "metric", "--json")
    assert again.exit_code == 0, again.output
    chunk = next(p for p in (folder / "run.zarr/stages/kernel").rglob("distances_0/c/*/*") if p.is_file())
    content = bytearray(chunk.read_bytes())
    content[100] ^= 1
    chunk.write_bytes(bytes(content))
    damaged = dlcca("verify", folder / "run.zarr")
    assert damaged.exit_code == 3
    assert "distances_0" in damaged.stderr


def test_a_plan_tells_tasks_bytes_memory_and_time_and_computes_nothing(folder):
    told = dlcca("plan", folder / "run.toml", "--json")
    assert told.exit_code == 0, told.output
    plan = json.loads(told.stdout)
    assert plan["samples"] == 1500
    assert plan["tasks"] < 20 * 8
    assert {stage["name"] for stage in plan["stages"]} >= {"scan", "near", "metric", "kernel", "gram", "embedding"}
    assert not (folder / "run.zarr").exists()
    large = json.loads(dlcca("plan", folder / "run.toml", "--rows", 10**8, "--workers", 100, "--json").stdout)
    assert large["memory_per_worker"] < 2 * plan["memory_per_worker"]
    assert large["reads"] > 10**4 * plan["reads"]
    assert "in each of 100 workers" in dlcca("plan", folder / "run.toml", "--rows", 10**8, "--workers", 100).stdout


def test_a_plan_tells_what_a_hundred_million_samples_would_take(folder):
    told = dlcca("plan", folder / "run.toml").stdout
    assert "10^8 samples on 100 workers: " in told
    assert "tasks for each of" in told
    large = json.loads(dlcca("plan", folder / "run.toml", "--json").stdout)["large"]
    assert (large["samples"], large["workers"]) == (10**8, 100)
    assert large["tasks_per_block"] < 20
    assert large["largest_wave"] < 10**5
    assert large["memory_in_all"] > 100 * 2**20


def test_a_plan_says_where_its_rates_come_from(folder):
    rates = folder / "rates.json"
    assert "The time is a guess: run with --calibrate" in dlcca("plan", folder / "run.toml").stdout
    missing = dlcca("plan", folder / "run.toml", "--rates", rates)
    assert (missing.exit_code, "--calibrate" in missing.stderr) == (2, True)
    rates.write_text("{}")
    damaged = dlcca("plan", folder / "run.toml", "--rates", rates)
    assert (damaged.exit_code, "no file of rates, or damaged" in damaged.stderr) == (2, True)


def test_a_plan_uses_the_rates_that_were_kept(folder):
    from dlcca.fitting import runner
    from dlcca.fitting.planning import Rates, StageRate

    asked = read(folder / "run.toml")
    job, _ = runner.prepared(asked.store, asked.views, asked.settings, asked.seed)
    slow = calibration.new(Rates({"near": StageRate(client_s=5000.0)}), job, rows=1500, workers=1)
    place = calibration.usual_place(job)
    calibration.write(place, slow)
    plan = json.loads(dlcca("plan", folder / "run.toml", "--json").stdout)
    assert plan["seconds"] > 5000
    assert "calibrated on" in plan["rates"]
    place.write_text("damaged")
    told = dlcca("plan", folder / "run.toml")
    assert told.exit_code == 0
    assert "The time is a guess" in told.stdout
    assert "damaged" in told.stdout


@pytest.mark.slow
@pytest.mark.cluster
def test_a_calibrated_plan_is_kept_for_later_ones(folder, monkeypatch):
    monkeypatch.setattr(calibration, "ROWS", 400)
    made = dlcca("plan", folder / "run.toml", "--calibrate", "--rates", folder / "rates.json", "--json")
    assert made.exit_code == 0, made.output
    assert "at 400 rows with 1 worker" in json.loads(made.stdout)["rates"]
    assert not (folder / "run.zarr").exists()
    assert not list(folder.glob("dlcca-calibration-*"))
    again = dlcca("plan", folder / "run.toml", "--rates", folder / "rates.json", "--json")
    assert json.loads(again.stdout)["stages"] == json.loads(made.stdout)["stages"]
    (folder / "run.toml").write_text(RUN.replace("n_neighbors = 40", "n_neighbors = 41"))
    other = dlcca("plan", folder / "run.toml", "--rates", folder / "rates.json")
    assert other.exit_code == 2
    assert "k = 40, and this run has 41" in other.stderr


def test_what_will_not_fit_the_workers_is_refused_before_anything_runs(folder):
    (folder / "run.toml").write_text(RUN.replace("memory_gib = 2", "memory_gib = 0.2"))
    for verb in ("plan", "run"):
        refused = dlcca(verb, folder / "run.toml")
        assert refused.exit_code == 2
        assert "a worker has 0.20" in refused.stderr
        assert "[cluster] memory_gib" in refused.stderr
    assert not (folder / "run.zarr").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[store]", "[stroe]"), "did you mean 'store'"),
        (("n_neighbors", "n_neighbours"), "did you mean 'n_neighbors'"),
        (("source =", "sauce ="), "did you mean 'source'"),
        (("workers = 1", "workers = 0"), "at least 1"),
        (('path = "run.zarr"', ""), r"\[store\] path is missing"),
        (('kind = "knn"', 'kind = "kn"'), "did you mean 'knn'"),
        (("[views.left]", "[views.left"), "is not TOML"),
    ],
)
def test_a_wrong_run_file_says_what_is_wrong(folder, change, message):
    (folder / "run.toml").write_text(RUN.replace(*change))
    with pytest.raises(SettingsError, match=message):
        read(folder / "run.toml")
    assert dlcca("plan", folder / "run.toml").exit_code == 2


def test_missing_views_and_clusters_are_told_apart(folder, monkeypatch):
    monkeypatch.setattr(local, "CONNECT_S", 1)
    (folder / "run.toml").write_text(RUN.replace("left.zarr", "nowhere.zarr"))
    missing = dlcca("plan", folder / "run.toml")
    assert missing.exit_code == 4
    assert "nowhere.zarr" in missing.stderr
    (folder / "run.toml").write_text(RUN)
    unreachable = dlcca("run", folder / "run.toml", "--cluster", "tcp://127.0.0.1:9")
    assert unreachable.exit_code == 4
    assert "no Dask scheduler answers" in unreachable.stderr

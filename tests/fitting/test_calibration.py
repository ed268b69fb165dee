"""Rates measured on the first rows of a job, and the file in which they are kept."""

import json
import os
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from dlcca.errors import SettingsError, StorageError
from dlcca.fitting import calibration, gram, kernel, landmarks, pipeline, planning, runner
from dlcca.fitting.calibration import measured_run
from dlcca.fitting.planning import Rates, StageRate
from dlcca.numerics.streaming import Search
from dlcca.storage.files import files_at
from dlcca.storage.run import is_finished
from tests.fitting.jobs import KNN, TIME, recordings, small_job

RATES = Rates({"scan": StageRate(task_factor=0.1, extra_bytes=-3.0), "near": StageRate(factor=7.5)}, start_s=2.5)


@pytest.fixture
def job(tmp_path):
    return small_job(tmp_path, recordings(2), 7, **KNN)


@pytest.fixture
def kept(job, tmp_path):
    """A file of rates."""
    place = tmp_path / "rates" / "mine.json"
    calibration.write(place, calibration.new(RATES, job, rows=150, workers=2))
    return place


@pytest.mark.parametrize(
    "options",
    [
        KNN,
        {**KNN, "fusion": "average", "kernel": "sparse"},
        TIME,
        {**TIME, "fusion": "average", "bandwidth": "slope"},
        {**TIME, "bandwidth": 2.5},
    ],
    ids=["alternating", "average sparse", "dense", "average dense", "no bandwidth"],
)
def test_a_plan_counts_the_tasks_that_a_run_does(options, tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **options)
    planned = {stage.name: stage.tasks for stage in planning.plan(job, 1).stages}
    assert planned == {name: found.tasks for name, found in measured_run(job).items()}


def test_every_stage_that_a_run_leaves_is_known_by_name(job):
    pipeline.run(job)
    left = {place.name for place in (files_at(job.address).folder / "stages").iterdir() if place.is_dir()}
    assert left <= set(pipeline.on_disk())


def test_a_measured_run_is_finished_and_knows_time_and_memory_of_every_stage(job):
    found = measured_run(job)
    assert is_finished(job.address)
    assert all(stage.wall_s > 0 and stage.seconds >= 0 and stage.tasks > 0 for stage in found.values())
    assert all(stage.peak_bytes >= stage.rest_bytes > 1 << 20 for stage in found.values() if stage.peak_bytes)


def test_calibration_looks_at_the_first_rows_alone_and_leaves_nothing_behind(job, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "ROWS", 90)
    before = sorted(tmp_path.rglob("*"))
    read = []
    reading = calibration.Source.read
    monkeypatch.setattr(calibration.Source, "read", lambda s, rows: read.append((s.address, rows)) or reading(s, rows))
    rates = calibration.calibrate(job, nullcontext, workers=2)
    assert sorted(tmp_path.rglob("*")) == before
    own = {source.address for source in job.sources}
    assert {rows.stop for address, rows in read if address in own} == {90}
    assert set(rates.stages) >= {"scan", "near", "metric", "kernel", "gram", "spectrum", "embedding", "finish"}
    assert planning.plan(job, 2, rates).seconds > 0


def test_calibration_meets_few_large_and_many_small_blocks(job, monkeypatch):
    met = []
    monkeypatch.setattr(calibration, "fitted", lambda trials, workers: met.extend(trials) or {})
    monkeypatch.setattr(calibration, "measured_run", lambda job, client=None: {})
    calibration.calibrate(job, nullcontext, workers=2)
    assert [(some.n, some.rows, some.n_blocks) for some, _ in met] == [(150, 75, 2), (150, 10, 15)]
    assert {landmarks.count(some) for some, _ in met} == {45}


def test_what_asks_for_more_rows_than_there_are_is_cut_down(job):
    rng = np.random.default_rng(0)
    settings = job.settings.with_options(
        landmarks=rng.permutation(150)[:40], neighborhoods=rng.integers(0, 150, (40, 30)), n_components=39
    )
    cut = calibration.cut_down(settings, 25, 20).options()
    assert len(cut["landmarks"]) == len(np.unique(cut["landmarks"])) == 20
    assert cut["landmarks"].max() < 25
    assert cut["neighborhoods"].shape == (20, 30)
    assert cut["neighborhoods"].max() < 25
    assert cut["n_components"] == 19
    windows = calibration.cut_down(job.settings.with_options(neighborhoods="time", window=50), 25, 25).options()
    assert (windows["window"], windows["landmarks"], windows["n_neighbors"]) == (25, 25, 20)


def test_landmarks_and_neighborhoods_that_were_given_can_be_calibrated(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "ROWS", 100)
    rng = np.random.default_rng(0)
    options = {"landmarks": rng.permutation(150)[:40], "neighborhoods": rng.integers(0, 150, (40, 30))}
    job = small_job(tmp_path, recordings(2), 7, **{**KNN, **options, "fusion": "alternating"})
    assert "metric" in calibration.calibrate(job, nullcontext, workers=1).stages


def test_rates_come_back_from_their_file_as_they_were(kept, job):
    found = calibration.read(kept)
    assert found.rates == RATES
    assert found == calibration.new(RATES, job, rows=150, workers=2)
    assert found.sentence() == f"calibrated on {found.made} at 150 rows with 2 workers"
    calibration.refuse_other(found, job, kept)
    elsewhere = replace(found, machine={**found.machine, "cores": 1000})
    assert "another machine" in elsewhere.sentence()


def test_rates_hold_nothing_that_names_the_machine(kept):
    assert os.uname().nodename not in kept.read_text()
    assert str(kept.parent) not in kept.read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-40],
        lambda text: text.replace("dlcca-rates", "other"),
        lambda text: text.replace('"version": 3', '"version": 4'),
        lambda text: text.replace("7.5", '"quick"'),
        lambda text: text.replace("7.5", "NaN"),
        lambda text: text.replace("7.5", "-7.5"),
        lambda text: text.replace('"factor"', '"faktor"'),
        lambda text: "[]",
        lambda text: "",
    ],
    ids=["cut", "other", "version", "word", "nan", "negative", "key", "list", "empty"],
)
def test_a_damaged_file_of_rates_is_refused_with_what_to_do(kept, damage):
    kept.write_text(damage(kept.read_text()))
    with pytest.raises(SettingsError, match=r"mine\.json is no file of rates, or damaged .*--calibrate"):
        calibration.read(kept)


def test_a_missing_file_of_rates_is_told(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.json cannot be read: No such file.*--calibrate"):
        calibration.read(tmp_path / "none.json")


def test_rates_that_cannot_be_written_are_told(job, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        calibration.write(tmp_path / "file" / "rates.json", calibration.new(RATES, job, rows=150, workers=2))


def test_rates_of_other_settings_are_refused_and_the_setting_named(kept, job):
    other = replace(job, settings=job.settings.with_options(n_links=7))
    with pytest.raises(SettingsError, match=r"measured with links = 10, and this run has 7.*--calibrate"):
        calibration.refuse_other(calibration.read(kept), other, kept)


def test_the_usual_place_is_in_the_cache_and_differs_with_the_settings_but_not_with_the_rows(
    job, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = calibration.usual_place(job)
    assert place.is_relative_to(tmp_path / "cache" / "dlcca")
    assert calibration.usual_place(replace(job, n=100, rows=20)) == place
    assert calibration.usual_place(replace(job, settings=job.settings.with_options(n_links=7))) != place
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert calibration.usual_place(job).is_relative_to(tmp_path / ".cache" / "dlcca")


def test_the_sizes_of_another_length_are_those_of_a_job_of_that_length(tmp_path):
    (tmp_path / "short").mkdir()
    (tmp_path / "long").mkdir()
    short = small_job(tmp_path / "short", recordings(2, 2000), 250, block_rows=1024, **TIME)
    long = small_job(tmp_path / "long", recordings(2, 6000), 250, block_rows=1024, **TIME)
    planned = planning.at_scale(short, 6000, 2)
    assert landmarks.count(planned.job) == landmarks.count(long)
    assert planned.job.n == 6000
    assert planned.job.rows % 250 == 0


def test_what_is_auto_is_chosen_anew_for_another_length(job):
    asked = job.settings.with_options(landmarks="auto")
    chosen, same = planning.at_scale(job, 10**6, 2, asked=asked), planning.at_scale(job, 10**6, 2)
    assert landmarks.count(chosen.job) > landmarks.count(same.job)


def test_the_record_of_a_block_has_its_cost(job):
    pipeline.run(job)
    place = files_at(job.address).folder / "stages/near/done/00001.json"
    record = json.loads(place.read_text())
    assert record["cost"]["seconds"] > 0
    assert record["cost"]["peak_bytes"] > 1 << 20
    near = next(stage for stage in runner.begun(job.address) if stage.name == "near")
    costs = near.cost()
    assert costs["tasks"] == near.n_blocks
    place.write_text(json.dumps({**record, "cost": "?"}))
    assert "the record of block 1" in near.check()[0]  # the checksum is of the whole file


def test_the_passes_for_the_bandwidth_are_in_its_cost(job):
    pipeline.run(job)
    costs = runner.costs(job.address)
    assert costs["bandwidth"]["tasks"] == kernel.BANDWIDTH.plan(job).tasks
    assert costs["bandwidth"]["seconds"] > 0


def test_what_a_failed_pass_has_collected_is_not_in_the_cost_of_another_stage(job, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Search, "narrow", _fail)
        with pytest.raises(OSError, match="the disk is gone"):
            pipeline.run(job)
    pipeline.run(job)
    assert runner.costs(job.address)["bandwidth"]["tasks"] == kernel.BANDWIDTH.plan(job).tasks


def _fail(*_):
    raise OSError("the disk is gone")


def test_the_passes_of_lanczos_are_in_the_cost_of_the_spectrum(tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN, solver="lanczos")
    found = measured_run(job)
    assert found["spectrum"].tasks > 2 * len(gram.groups(job))
    assert "lanczos" not in found

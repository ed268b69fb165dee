"""Stages are declared: their order, names, options and words are derived from nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from dlcca.engine.stage import Stage
from dlcca.fitting import gram, kernel, landmarks, metric, pipeline, runner, scan
from dlcca.fitting.job import memory_job
from dlcca.settings.auto import choose
from dlcca.settings.fit import OPTIONS, Settings
from tests.fitting.jobs import KNN, embedding, recordings, small_job


def test_a_stage_comes_after_all_that_it_reads():
    for place, stage in enumerate(pipeline.STAGES):
        assert set(stage.after) <= set(pipeline.STAGES[:place]), stage.name


def test_names_are_known_once_and_options_exist():
    names = [stage.name for stage in pipeline.STAGES]
    assert len(set(names)) == len(names)
    for stage in pipeline.STAGES:
        assert set(stage.options) <= {*OPTIONS, "seed"}, stage.name
        assert stage.reads, stage.name
        assert stage.leaves, stage.name


def test_every_stage_is_a_map_over_blocks_or_is_driven():
    assert all((stage.compute is None) != (stage.drive is None) for stage in pipeline.STAGES)


@pytest.mark.parametrize("changed", [{"ridge": 0.1}, {"n_neighbors": 25}, {"bandwidth": 2.0}])
def test_an_option_changes_the_fingerprints_of_its_stage_and_of_later_ones_only(changed, tmp_path):
    job = small_job(tmp_path, recordings(2), 50, **KNN)
    other = replace(job, settings=job.settings.with_options(**changed))
    differs = {stage.name for stage in pipeline.STAGES if stage.fingerprint(job) != stage.fingerprint(other)}
    reads = [stage for stage in pipeline.STAGES if set(stage.options) & set(changed)]
    assert reads
    assert differs == {stage.name for stage in pipeline.STAGES if any(_is_after(stage, first) for first in reads)}


def _is_after(stage, first):
    return stage is first or any(_is_after(below, first) for below in stage.after)


def test_a_new_stage_is_planned_run_resumed_and_checked_without_being_listed_elsewhere(tmp_path, monkeypatch):
    added = Stage(
        "norms",
        _norms,
        after=[scan.MOMENTS],
        n_blocks=lambda job: job.n_blocks,
        arrays=lambda job: {"norms": ((job.n,), "float64", job.rows)},
        says=lambda job: "norms",
        reads="a block of samples",
        leaves="norms of the first view",
    )
    stages = (*pipeline.STAGES[:2], added, *pipeline.STAGES[2:])
    monkeypatch.setattr(pipeline, "STAGES", stages)
    job = small_job(tmp_path, recordings(2), 50, **KNN)
    pipeline.run(job)
    np.testing.assert_allclose(added.of(job).read_all("norms"), np.linalg.norm(recordings(2)[0], axis=1))
    assert added.of(job).missing() == []
    assert {stage.name for stage in runner.begun(job.address)} >= {"norms", "metric"}
    assert [problem for stage in runner.begun(job.address) for problem in stage.check()] == []
    before = embedding(job)
    pipeline.run(job)
    np.testing.assert_array_equal(embedding(job), before)


def _norms(job, stage, block):
    X = job.block(block)[0]
    stage.write(block, {"norms": (job.bounds(block)[0], np.linalg.norm(X, axis=1))}, {})


def test_a_stage_that_a_job_does_not_need_leaves_nothing(tmp_path):
    job = small_job(tmp_path, recordings(2), 50, **{**KNN, "solver": "lanczos"})
    pipeline.run(job)
    begun = {stage.name for stage in runner.begun(job.address)}
    assert gram.GRAM.name not in begun
    assert {metric.METRIC.name, kernel.BANDWIDTH.name} <= begun


@pytest.mark.parametrize("m", [30, 300, 5000])
def test_all_landmarks_that_are_given_are_there_whatever_number_was_requested(m):
    X = np.random.default_rng(0).standard_normal((6000, 3))
    settings = Settings.from_options(neighborhoods="knn", landmarks=200)
    job = memory_job([X, X], ["a", "b"], choose(settings, len(X), 2, [3, 3]).settings)
    rows = np.arange(m)
    landmarks.fill(job, rows, [X[rows], X[rows]])
    assert landmarks.count(job) == m
    np.testing.assert_array_equal(landmarks.rows(job), rows)
    np.testing.assert_array_equal(landmarks.points(job)[0], X[rows])

"""Rows that are read here and there are kept by the first pass."""

from dataclasses import replace

import numpy as np
import pytest

from dlcca.fitting import job as jobs
from dlcca.fitting import pipeline, scan
from dlcca.fitting.job import Source
from dlcca.numerics import landmarks
from tests.fitting.jobs import embedding, job_on, recordings, run_until, written

OPTIONS = {"neighborhoods": "knn", "landmarks": 6, "n_neighbors": 20, "neighbor_rows": 90, "n_components": 2}


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    for module in (jobs, scan, landmarks):
        monkeypatch.setattr(module, "CANDIDATES", 60)
    monkeypatch.setattr(jobs, "CHECKED_ROWS", 30)
    monkeypatch.setattr(jobs, "HALVED_ROWS", 70)
    monkeypatch.setattr(scan, "CHECKED_ROWS", 30)


@pytest.fixture
def sources(tmp_path):
    return written(tmp_path, recordings(2, n=400), 20)


def scattered(monkeypatch):
    """The numbers of scattered rows of each read from now on."""
    read, reading = [], Source.read

    def noting(source, rows):
        if not isinstance(rows, slice):
            read.append(len(rows))
        return reading(source, rows)

    monkeypatch.setattr(Source, "read", noting)
    return read


def test_after_the_first_pass_no_stage_reads_landmarks_or_checked_rows_again(sources, tmp_path, monkeypatch):
    job = job_on(tmp_path / "run.zarr", sources, **OPTIONS)
    run_until(job, "moments")
    read = scattered(monkeypatch)
    run_until(job, "near")
    assert read == []
    run_until(job, "embedding")
    before = list(read)  # surrogates read stretches
    pipeline.run(job)
    assert read == before


def test_results_are_the_same_without_kept_rows(sources, tmp_path, monkeypatch):
    kept = job_on(tmp_path / "kept.zarr", sources, **OPTIONS)
    pipeline.run(kept)
    assert scan.SCAN.of(kept).parts(0)
    monkeypatch.setattr(jobs, "KEPT_BYTES", 0)
    read = job_on(tmp_path / "read.zarr", sources, **OPTIONS)
    pipeline.run(read)
    assert not scan.SCAN.of(read).parts(0)
    np.testing.assert_array_equal(embedding(kept), embedding(read))


def test_rows_kept_for_another_seed_are_not_used(sources, tmp_path, monkeypatch):
    first = job_on(tmp_path / "run.zarr", sources, **OPTIONS)
    for block in (0, 1):  # a run that ended in its first pass
        scan.SCAN.of(first).prepare(scan.SCAN.arrays(first), says="")
        scan.compute(first, scan.SCAN.of(first).prepare(scan.SCAN.arrays(first), says=""), block)
    other = replace(first, seed=1)
    pipeline.run(other)
    assert scan.MOMENTS.of(other).facts(0)["kept"] is None
    fresh = replace(job_on(tmp_path / "fresh.zarr", sources, **OPTIONS), seed=1)
    pipeline.run(fresh)
    assert scan.MOMENTS.of(fresh).facts(0)["kept"] == 1
    np.testing.assert_array_equal(embedding(other), embedding(fresh))


def test_a_block_in_which_more_rows_are_drawn_than_there_is_room_for_keeps_none(sources, tmp_path, monkeypatch):
    usual = job_on(tmp_path / "usual.zarr", sources, **OPTIONS)
    pipeline.run(usual)
    monkeypatch.setattr(scan, "_most_kept", lambda job: 5)
    job = job_on(tmp_path / "run.zarr", sources, **OPTIONS)
    pipeline.run(job)
    assert scan.MOMENTS.of(job).facts(0)["kept"] is None
    np.testing.assert_array_equal(embedding(job), embedding(usual))


def test_of_short_and_of_very_wide_recordings_nothing_is_kept(sources, tmp_path, monkeypatch):
    job = job_on(tmp_path / "run.zarr", sources, **OPTIONS)
    assert len(job.kept_rows) >= 60
    assert not len(replace(job, n=110).kept_rows)
    assert not len(replace(job, dims=(1 << 20, 1 << 20)).kept_rows)

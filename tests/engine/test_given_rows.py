"""Row numbers that the user gave: tasks carry their digests, and stages that need them run without workers."""

import pickle

import numpy as np
import pytest

from dlcca import LocalCCA
from dlcca.engine import work
from dlcca.errors import NeighborhoodTooSmall
from dlcca.fitting import landmarks, neighbors, pipeline
from tests.fitting.jobs import KNN, embedding, recordings, small_job

ROWS = np.random.default_rng(0).integers(0, 150, (45, 60))


def job_with(folder, **options):
    return small_job(folder, recordings(2), 7, **{**KNN, "fusion": "alternating", **options})


def test_a_job_is_carried_without_its_rows_but_with_their_number(tmp_path):
    job = job_with(tmp_path, neighborhoods=ROWS)
    sent = pickle.dumps(work.carried(job))
    assert len(sent) < ROWS.nbytes / 4
    there = pickle.loads(sent)
    assert (np.shape(there.options["neighborhoods"]), len(there.options["neighborhoods"])) == (ROWS.shape, 45)
    assert neighbors.width(there) == ROWS.shape[1]


def test_workers_compute_with_rows_that_tasks_do_not_carry(tmp_path, client, monkeypatch):
    monkeypatch.setattr(work, "FEW_BYTES", 100)
    options = {"neighborhoods": ROWS, "landmarks": np.arange(1, 136, 3)}
    alone, together = job_with(tmp_path / "alone", **options), job_with(tmp_path / "together", **options)
    pipeline.run(alone)
    pipeline.run(together, client)
    np.testing.assert_array_equal(landmarks.rows(together), options["landmarks"])
    np.testing.assert_array_equal(neighbors.NEIGHBORHOODS.of(together).read_all("rows"), ROWS)
    np.testing.assert_array_equal(embedding(together), embedding(alone))


def test_what_is_small_is_carried_as_it_is(tmp_path):
    job = job_with(tmp_path, landmarks=np.arange(45))
    assert work.carried(job) is job
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize("form", [np.ndarray.tolist, lambda rows: rows.astype(np.int32), np.asfortranarray])
def test_the_same_rows_in_another_form_are_the_same_work(form, tmp_path):
    usual = job_with(tmp_path / "usual", neighborhoods=ROWS)
    other = job_with(tmp_path / "other", neighborhoods=form(ROWS))
    prints = [
        neighbors.NEIGHBORHOODS.fingerprint(job) for job in (usual, work.carried(usual), other, work.carried(other))
    ]
    assert len(set(prints)) == 1


def test_other_rows_are_other_work(tmp_path):
    jobs = [job_with(tmp_path / name, neighborhoods=rows) for name, rows in (("one", ROWS), ("two", ROWS[::-1]))]
    one, two = (neighbors.NEIGHBORHOODS.fingerprint(job) for job in jobs)
    assert one != two


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist])
def test_too_few_given_rows_for_a_metric_without_ridge_are_refused_with_advice(form):
    rows = form(np.random.default_rng(1).integers(0, 150, (45, 5)))
    model = LocalCCA(neighborhoods=rows, landmarks=np.arange(45), ridge=0, n_components=2)
    with pytest.raises(NeighborhoodTooSmall, match=r"landmark 0 has 5 neighbors.*Give more rows \(now 5\)"):
        model.fit(recordings(2))

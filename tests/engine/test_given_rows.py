"""Row numbers that the user gave, kept in the store and named in the tasks."""

import pickle

import numpy as np
import pytest

from dlcca.engine import given_rows
from dlcca.errors import DamagedBlock
from dlcca.fitting import neighbors
from tests.fitting.jobs import KNN, recordings, small_job

ROWS = np.random.default_rng(0).integers(0, 150, (45, 60))


def job_with(folder, **options):
    return small_job(folder, recordings(2), 7, **{**KNN, "fusion": "alternating", **options})


def test_a_job_is_carried_without_its_rows_and_finds_them_again(tmp_path):
    job = job_with(tmp_path, neighborhoods=ROWS)
    sent = pickle.dumps(given_rows.carried(job))
    assert len(sent) < ROWS.nbytes / 4
    there = pickle.loads(sent).options["neighborhoods"]
    np.testing.assert_array_equal(np.asarray(there), ROWS)
    assert (there.shape, there.ndim, len(there)) == (ROWS.shape, 2, 45)


def test_what_is_small_is_carried_as_it_is(tmp_path):
    job = job_with(tmp_path, landmarks=np.arange(45))
    assert given_rows.carried(job) is job
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize("form", [np.ndarray.tolist, lambda rows: rows.astype(np.int32), np.asfortranarray])
def test_the_same_rows_in_another_form_are_the_same_work(form, tmp_path):
    usual = job_with(tmp_path / "usual", neighborhoods=ROWS)
    other = job_with(tmp_path / "other", neighborhoods=form(ROWS))
    prints = [
        neighbors.NEIGHBORHOODS.fingerprint(job)
        for job in (usual, given_rows.carried(usual), other, given_rows.carried(other))
    ]
    assert len(set(prints)) == 1


def test_other_rows_are_other_work(tmp_path):
    jobs = [job_with(tmp_path / name, neighborhoods=rows) for name, rows in (("one", ROWS), ("two", ROWS[::-1]))]
    one, two = (neighbors.NEIGHBORHOODS.fingerprint(job) for job in jobs)
    assert one != two


@pytest.mark.parametrize("harm", ["truncated", "changed", "gone"])
def test_rows_that_were_damaged_are_refused(harm, tmp_path):
    carried = given_rows.carried(job_with(tmp_path, neighborhoods=ROWS))
    (file,) = (tmp_path / "run.zarr" / given_rows.FOLDER).iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(content if harm == "changed" else content[:100])
    with pytest.raises(DamagedBlock, match="damaged or gone"):
        np.asarray(carried.options["neighborhoods"])

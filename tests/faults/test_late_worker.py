"""Workers that wake when their run was begun again with another setting; `tests/faults/late_table.py` does more."""

import functools

import numpy as np
import pytest
import zarr

from dlcca.fitting import pipeline, runner, transform
from dlcca.fitting.job import Source
from dlcca.settings.fit import Settings
from dlcca.storage import run as run_store
from tests.faults import late, late_table
from tests.faults.late import MOMENTS, POINTS, STAGES, Stall
from tests.fitting.jobs import KNN, recordings, written
from tests.support import repeats


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """By solver, made when it is asked for."""
    return functools.cache(lambda solver: late.undisturbed(tmp_path_factory.mktemp("undisturbed"), (solver,)))


@pytest.mark.faults
@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("storage", "seed"), repeats.first(1, [("local", 7), ("object", 1), ("local", 0), ("local", 6), ("object", 7)])
)
def test_a_late_worker_does_not_change_the_run_that_replaced_its_own(storage, seed, reference, tmp_path):
    with late_table.stores(storage, tmp_path) as root:
        stall = Stall.of(seed)
        outcome = late.survive(stall, reference(stall.solver), tmp_path, f"{root}/{seed}/run.zarr")
    assert outcome.is_unharmed, outcome.line()


def test_a_seed_says_where_a_worker_stops_and_when_it_wakes():
    stalls = [Stall.of(seed) for seed in range(20)]
    assert stalls == [Stall.of(seed) for seed in range(20)]
    assert {(stall.solver, stall.stage) for stall in stalls} == {(s, stage) for s in STAGES for stage in STAGES[s]}
    assert {stall.point for stall in stalls} == set(POINTS)
    assert {stall.moment for stall in stalls} == set(MOMENTS)


def foreign(store, array, row):
    """Put other numbers in the place of a chunk, whole and with a good checksum: only the record tells."""
    found = zarr.open_group(str(store), mode="r+")[array]
    found[row : row + found.chunks[0]] = 7


@pytest.mark.faults
def test_a_block_of_the_embedding_that_does_not_fit_its_record_is_computed_again(tmp_path):
    views = {source.name: source.address for source in written(tmp_path, recordings(2, 3000), 1000)}
    store = tmp_path / "run.zarr"
    job, choices = runner.prepared(str(store), views, Settings.from_options(**KNN), 0)
    pipeline.run(job)
    before = zarr.open_group(str(store), mode="r")["embedding"][:]
    foreign(store, "embedding", 0)
    runner.run(job, choices)
    np.testing.assert_array_equal(run_store.read(str(store)).embedding, before)
    assert [problem for stage in runner.begun(str(store)) for problem in stage.check()] == []


@pytest.mark.faults
def test_a_block_of_new_recordings_that_does_not_fit_its_record_is_computed_again(tmp_path, monkeypatch):
    views = {source.name: source.address for source in written(tmp_path, recordings(2, 3000), 1000)}
    runner.run(*runner.prepared(str(tmp_path / "run.zarr"), views, Settings.from_options(**KNN), 0))
    sources = {name: Source(name, address) for name, address in views.items()}
    job = transform.prepared(str(tmp_path / "new.zarr"), str(tmp_path / "run.zarr"), sources)
    seal = transform._seal

    def late_seal(job):
        foreign(job.address, "distance", 0)
        seal(job)

    monkeypatch.setattr(transform, "_seal", late_seal)
    transform.run(job)
    assert not (zarr.open_group(job.address, mode="r")["distance"][:] == 7).any()

"""Neighbours in a random subset of the rows: the same in memory and in blocks, exact, and without a leak."""

import warnings

import numpy as np
import pytest

from dlcca import LocalCCA
from dlcca.errors import SettingsError, Untrusted
from dlcca.fitting import landmarks, links, neighbors, pipeline, sharing
from dlcca.settings.auto import choose, matched_rows
from dlcca.settings.fit import Settings
from tests.fitting.jobs import KNN, embedding, recordings, run_until, small_job
from tests.suite.growth import measured, sheared_and_wound

SUBSET = {**KNN, "neighbor_rows": 70}


def in_memory(K=2, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(random_state=0, **{**SUBSET, **options}).fit(recordings(K))


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("K", "options"),
    [
        (2, {}),
        (3, {"coordinates": "diffusion"}),
        (2, {"fusion": "average"}),
        (2, {"fusion": "average", "kernel": "sparse"}),
        (2, {"fusion": "view"}),
    ],
    ids=["potential", "three views", "average", "average sparse", "view"],
)
@pytest.mark.parametrize("block_rows", [20, 63])
def test_blocks_give_what_arrays_in_memory_give(tmp_path, K, options, block_rows):
    model = in_memory(K, **options)
    job = small_job(tmp_path, recordings(K), block_rows=block_rows, **{**SUBSET, **options})
    pipeline.run(job)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-8, rtol=0)
    np.testing.assert_allclose(sharing.strength_of(job), model.common_strength_, atol=1e-8, rtol=0)
    assert not (tmp_path / "run.zarr/stages/members").exists()


def test_neighbors_are_the_nearest_rows_of_the_subset(tmp_path):
    views = recordings(2)
    job = small_job(tmp_path, views, **SUBSET)
    run_until(job, "neighborhoods")
    subset, found = links.subset_rows(job), neighbors.neighbors(job, 0)
    assert len(subset) == len(set(subset)) == 70
    scaled = [(X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).sum()) for X in views]
    for landmark, near in zip(landmarks.rows(job), found, strict=True):
        D = [max(np.linalg.norm(X[row] - X[landmark]) for X in scaled) for row in subset]
        assert list(near) == list(subset[np.argsort(D, kind="stable")[:20]])


@pytest.mark.slow
def test_pynndescent_searches_the_subset_too(tmp_path):
    views = recordings(2, n=2600)
    options = {**SUBSET, "neighbor_rows": 1300, "neighbor_index": "pynndescent"}
    job = small_job(tmp_path, views, 100, block_rows=400, **options)
    run_until(job, "recall")
    exact = small_job(tmp_path / "exact", views, 100, block_rows=400, **{**options, "neighbor_index": "exact"})
    run_until(exact, "neighborhoods")
    share = np.mean(
        [len(set(a) & set(b)) / 20 for a, b in zip(*(neighbors.neighbors(j, 0) for j in (job, exact)), strict=True)]
    )
    assert share > 0.95
    assert neighbors.neighbor_recall(job) == pytest.approx(share, abs=0.02)


def test_a_subset_of_as_many_rows_as_there_are_is_all_rows():
    whole, same = in_memory(neighbor_rows="all"), in_memory(neighbor_rows=150)
    np.testing.assert_array_equal(whole.embedding_, same.embedding_)


def test_the_subset_depends_on_the_seed_and_on_nothing_else(tmp_path):
    one, other = (small_job(tmp_path / str(rows), recordings(2), block_rows=rows, **SUBSET) for rows in (20, 63))
    np.testing.assert_array_equal(links.subset_rows(one), links.subset_rows(other))
    first, second = (LocalCCA(random_state=seed, **SUBSET) for seed in (0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        assert not np.allclose(*(model.fit(recordings(2)).correlations_.mean() for model in (first, second)))


def test_fewer_rows_than_neighbors_are_refused():
    with pytest.raises(SettingsError, match="neighbor_rows=10 with n_neighbors=20; at least 20 rows"):
        in_memory(neighbor_rows=10)


@pytest.mark.parametrize(("n", "rows"), [(1500, "all"), (5000, 2000), (10**5, 4000), (10**9, 4000)])
def test_the_subset_matches_the_reach_of_the_kernel_at_any_number_of_rows(n, rows):
    chosen = choose(Settings.from_options(neighborhoods="knn"), n, 2, (3, 3))
    options = chosen.settings.options()
    assert (options["n_neighbors"], options["neighbor_rows"]) == (64, rows)
    assert "neighbor_rows" in chosen.reasons
    assert (
        choose(Settings.from_options(neighborhoods="knn", n_neighbors=64), n, 2).settings.options()["neighbor_rows"]
        == "all"
    )


def test_the_share_of_the_subset_is_the_share_of_linked_landmarks():
    assert 64 / matched_rows(64, 2000, 32) == 32 / 2000


@pytest.mark.slow
def test_private_variables_do_not_leak_as_rows_grow():
    few, many = (measured(sheared_and_wound, n, 0.0, "auto") for n in (5000, 30_000))
    assert min(few.found, many.found) > 0.99
    assert max(few.leak, many.leak) <= 0.03
    assert many.leak <= few.leak + 0.01

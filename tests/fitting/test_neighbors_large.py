"""As many landmarks as samples, in groups; neighbours by products, by a tree or by an index: the same answer."""

import functools
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

from dlcca import LocalCCA
from dlcca.errors import Untrusted
from dlcca.fitting import (
    landmarks,
    links,
    neighborhood_rows,
    neighbors,
    pipeline,
    runner,
    scan,
)
from dlcca.numerics import neighbors as neighbor_search
from dlcca.numerics.neighbors import joint_neighbors
from dlcca.settings import auto
from dlcca.settings.auto import choose, exact_seconds, index_seconds, search_by
from dlcca.settings.fit import Settings
from dlcca.storage.blocks import Blocks
from tests.fitting.jobs import KNN, TIME, embedding, recordings, run_until, small_job
from tests.support import repeats

ALL = {**KNN, "landmarks": "all", "solver": "gram"}


@functools.cache
def in_memory(K=2, kind="all"):
    options = {"all": ALL, "average": {**ALL, "fusion": "average"}, "time": {**TIME, "landmarks": "all"}}[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(random_state=0, **options).fit(recordings(K))


def assert_same(job, model, tolerance=1e-8):
    np.testing.assert_array_equal(landmarks.rows(job), model.landmarks_)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=tolerance, rtol=0)


def all_neighbors(job):
    return np.concatenate([neighbors.neighbors(job, g) for g in range(landmarks.n_groups(job))])


@pytest.fixture
def in_groups(monkeypatch):
    """Ten groups of 16 landmarks, two tasks of metrics in each, and spans of three blocks."""
    in_memory()
    monkeypatch.setattr(landmarks, "GROUP", 16)
    monkeypatch.setattr(neighborhood_rows, "LANDMARKS", 8)
    monkeypatch.setattr(neighborhood_rows, "MANY_TASKS", 1000)
    monkeypatch.setattr(neighbors, "SPAN", 3)


@pytest.fixture
def by_tree(in_groups, monkeypatch):
    in_memory(), in_memory(1), in_memory(3)
    monkeypatch.setattr(auto, "TREE_LANDMARKS", 20)
    monkeypatch.setattr(auto, "TREE_CHANNELS", 100)
    monkeypatch.setattr(neighbors, "TREE_ROWS", 64)


@pytest.mark.parametrize(("chunk_rows", "block_rows"), repeats.first(2, [(7, 11), (1000, 150), (1, 40), (7, 40)]))
def test_all_pairs_in_groups_of_landmarks_give_the_answer_in_memory(chunk_rows, block_rows, in_groups, tmp_path):
    job = small_job(tmp_path, recordings(2), chunk_rows, block_rows=block_rows, **ALL)
    pipeline.run(job)
    assert landmarks.n_groups(job) == 10
    assert links.neighbors_by(job) == links.links_by(job) == "products"
    assert_same(job, in_memory())
    np.testing.assert_array_equal(all_neighbors(job), joint_neighbors(recordings(2), np.arange(150), 20))


@pytest.mark.each_value
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("chunk_rows", [7, 1000])
def test_a_tree_gives_the_answer_in_memory(K, chunk_rows, by_tree, tmp_path):
    job = small_job(tmp_path, recordings(K), chunk_rows, **ALL)
    pipeline.run(job)
    assert links.neighbors_by(job) == links.links_by(job) == "tree"
    assert len(neighbors.shards_of(job)) == 3
    assert_same(job, in_memory(K))


def test_the_fit_in_memory_gives_the_same_by_a_tree(by_tree):
    before = in_memory()
    assert search_by("exact", 150, (4, 4)) == "tree"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        after = LocalCCA(random_state=0, **ALL).fit(recordings(2))
    np.testing.assert_array_equal(after.embedding_, before.embedding_)
    assert "neighbor_recall" not in after.quality_


def test_windows_of_time_in_groups_give_the_answer_in_memory(in_groups, tmp_path):
    options = {**TIME, "landmarks": "all"}
    job = small_job(tmp_path, recordings(2), 7, **options)
    pipeline.run(job)
    assert_same(job, in_memory(2, "time"))


def test_neighborhoods_that_were_given_are_cut_into_groups(in_groups, tmp_path):
    given = np.random.default_rng(0).integers(0, 150, (150, 12))
    job = small_job(tmp_path, recordings(2), 7, **{**ALL, "neighborhoods": given, "fusion": "alternating"})
    pipeline.run(job)
    np.testing.assert_array_equal(all_neighbors(job), given)


@pytest.mark.parametrize(("every", "k", "copied"), [(10, 3, True), (1, 20, False)])
def test_members_are_copied_where_they_are_few_and_the_answer_is_the_same(every, k, copied, in_groups, tmp_path):
    options = {**ALL, "landmarks": np.arange(0, 150, every), "n_neighbors": k}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        model = LocalCCA(random_state=0, **options).fit(recordings(2))
    neighborhood_rows.LANDMARKS = 2  # as the fixture, which puts it back
    job = small_job(tmp_path, recordings(2), 7, **options)
    pipeline.run(job)
    facts = neighborhood_rows.SURVEY.of(job).facts(0)
    rows = np.unique(all_neighbors(job))
    assert (facts["members"], facts["copied"]) == (len(rows), copied)
    assert (tmp_path / "run.zarr/stages/members").exists() == copied
    for X, found in zip(recordings(2), neighborhood_rows.values(job, rows[::2]), strict=True):
        np.testing.assert_array_equal(found, X[rows[::2]])
    assert_same(job, model)


def test_no_task_after_the_search_reads_more_than_a_group_of_landmarks(in_groups, tmp_path, monkeypatch):
    largest = Counter()
    read = Blocks.read

    def watched(stage, array, block):
        X = read(stage, array, block)
        largest[stage.name] = max(largest[stage.name], len(X))
        return X

    monkeypatch.setattr(Blocks, "read", watched)
    job = small_job(tmp_path, recordings(2), 7, **ALL)
    run_until(job, "metric")
    landmarks_read_whole = largest.pop("landmarks")  # their row numbers
    assert landmarks_read_whole == 150
    assert set(largest) >= {"points", "near", "merged", "neighborhoods"}
    assert max(largest.values()) == 16


@pytest.mark.parametrize("kind", ["products", "tree"])
def test_a_part_that_is_lost_is_the_only_one_found_again(kind, in_groups, request, tmp_path, monkeypatch):
    if kind == "tree":
        request.getfixturevalue("by_tree")
    job = small_job(tmp_path, recordings(2), 7, **ALL)
    pipeline.run(job)
    before = all_neighbors(job)
    name = "near" if kind == "products" else "shards"
    (tmp_path / f"run.zarr/stages/{name}/done/00002.json").unlink()
    (tmp_path / "run.zarr/stages/neighborhoods/done/00004.json").unlink()
    written = Counter()
    write = Blocks.write

    def counting(stage, block, parts, facts):
        written[stage.name] += 1
        write(stage, block, parts, facts)

    monkeypatch.setattr(Blocks, "write", counting)
    pipeline.run(job)
    assert written == {name: 1, "neighborhoods": 1}
    np.testing.assert_array_equal(all_neighbors(job), before)


def test_the_moments_are_read_from_one_file_whatever_the_number_of_blocks(tmp_path, monkeypatch):
    job = small_job(tmp_path, recordings(2), 7, block_rows=14, **KNN)
    for stage in (scan.SCAN, scan.MOMENTS):
        stage.run(job)
    asked = []
    entry = Blocks._entry
    monkeypatch.setattr(Blocks, "_entry", lambda stage, block: asked.append(stage.name) or entry(stage, block))
    found = scan.result(job)
    assert asked == ["moments"]
    for v, X in enumerate(recordings(2)):
        np.testing.assert_allclose(found.means[v], X.mean(axis=0), rtol=1e-13)
        assert found.spreads[v] == pytest.approx(np.sqrt(X.var(axis=0).sum()))


def test_an_index_over_few_samples_finds_all_neighbors_and_says_so(in_groups, tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **{**ALL, "neighbor_index": "pynndescent"})
    pipeline.run(job)
    assert links.neighbors_by(job) == links.links_by(job) == "pynndescent"
    assert_same(job, in_memory())
    assert links.link_recall(job) == 1.0
    quality = runner.quality_of(job)
    assert quality.measures["neighbor_recall"] == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        model = LocalCCA(random_state=0, **{**ALL, "neighbor_index": "pynndescent"}).fit(recordings(2))
    np.testing.assert_allclose(model.embedding_, in_memory().embedding_, atol=1e-8)
    assert model.quality_["neighbor_recall"] == 1.0


EXACT = """
import sys, warnings
from pathlib import Path
from dlcca.fitting import runner
from dlcca.fitting import pipeline
from tests.fitting.jobs import KNN
from tests.fitting.jobs import recordings
from tests.fitting.jobs import small_job
job = small_job(Path(sys.argv[1]), recordings(2), 7, **KNN)
pipeline.run(job)
runner.quality_of(job)
assert job.options["neighbor_index"] == "exact"
print("pynndescent" in sys.modules, "dlcca.engine.warm_up" in sys.modules)
"""


def test_where_the_search_is_exact_pynndescent_is_never_imported(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", EXACT, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["False", "False"], done.stderr


@pytest.fixture
def client():
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0")
    with cluster, Client(cluster) as one:
        yield one


def plugins(client):
    return client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.worker_plugins))


def test_workers_compile_nothing_where_the_search_is_exact(client, tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    pipeline.run(job, client)
    assert "dlcca-compiles-pynndescent" not in plugins(client)


@pytest.mark.slow
def test_workers_compile_pynndescent_once_and_shards_on_them_give_the_answer_in_memory(client, tmp_path, monkeypatch):
    views = recordings(2, 3000)
    options = {**KNN, "landmarks": 400, "n_components": 2, "neighbor_index": "pynndescent"}
    alone = small_job(tmp_path / "alone", views, 500, block_rows=500, **options)
    pipeline.run(alone)
    job = small_job(tmp_path / "cluster", views, 300, block_rows=600, **options)
    pipeline.run(job, client)
    assert "dlcca-compiles-pynndescent" in plugins(client)
    assert neighbors.neighbor_recall(job) > 0.95
    np.testing.assert_array_equal(all_neighbors(job), all_neighbors(alone))
    model = LocalCCA(random_state=0, **options).fit(views)
    assert model.quality_["neighbor_recall"] == neighbors.neighbor_recall(job)
    assert_same(job, model)


@pytest.mark.slow
def test_links_by_an_index_of_the_landmarks_are_nearly_the_true_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(landmarks, "GROUP", 256)
    views = recordings(2, 2000)
    job = small_job(tmp_path, views, 500, block_rows=500, **{**ALL, "neighbor_index": "pynndescent"})
    run_until(job, "near")
    assert links.links_by(job) == "pynndescent"
    assert links.link_recall(job) > 0.95


@pytest.mark.slow
def test_neighbors_that_are_found_badly_are_a_warning_with_advice():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((4000, 30)) for _ in range(2)]  # beyond 1 MB, pynndescent compiles for 10 s more
    options = {"n_neighbors": 64, "landmarks": 200, "neighbor_index": "pynndescent"}
    with pytest.warns(Untrusted) as told:
        LocalCCA(neighborhoods="knn", random_state=0, **options).fit(views)
    assert any("of the true neighbours" in str(one.message) and "'exact'" in str(one.message) for one in told)


def test_auto_takes_the_cheaper_search_and_says_why():
    settings = Settings.from_options(neighborhoods="knn", landmarks="all")
    few = choose(settings, 5000, 2, (64, 64))
    assert few.settings.neighborhoods.neighbor_index == "exact"
    many = choose(settings, 1_000_000, 2, (64, 64))
    assert many.settings.neighborhoods.neighbor_index == "pynndescent"
    assert "1000000 x 1000000 pairs take about" in many.reasons["neighbor_index"]
    narrow = choose(settings, 1_000_000, 2, (3, 3))
    assert narrow.settings.neighborhoods.neighbor_index == "exact"
    assert "a tree" in narrow.reasons["neighbor_index"]
    usual = choose(Settings.from_options(neighborhoods="knn"), 100_000_000, 2, (64, 64))
    assert usual.settings.neighborhoods.neighbor_index == "exact"  # of 2000 landmarks


def test_the_cost_of_all_pairs_grows_with_their_number_and_that_of_an_index_with_samples_and_landmarks():
    assert exact_seconds(2000, 300, (5, 5)) == pytest.approx(2 * exact_seconds(1000, 300, (5, 5)))
    fixed = index_seconds(2, 2, (5, 5))
    assert fixed == pytest.approx(auto.COMPILING_S, rel=1e-3)
    both = index_seconds(200_000, 200_000, (5, 5)) - fixed
    assert both < 3 * (index_seconds(100_000, 100_000, (5, 5)) - fixed)
    assert auto.SHARD_SAMPLES == neighbor_search.SHARD

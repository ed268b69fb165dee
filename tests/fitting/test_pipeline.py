"""The staged answer, from Zarr to Zarr, against that of `LocalCCA` in memory."""

import functools
import warnings
from collections import Counter

import numpy as np
import pytest
from distributed import Client, LocalCluster

from dlcca import LocalCCA
from dlcca.engine import work
from dlcca.errors import SettingsError, StaleStage, Untrusted
from dlcca.fitting import embed as embedding_stage
from dlcca.fitting import gram, kernel, landmarks, pipeline, spectrum
from dlcca.fitting.job import Job
from dlcca.storage.blocks import Blocks
from tests.fitting.jobs import KNN, TIME, embedding, job_on, recordings, small_job, written

#: Name -> number of views, and the options of the fit.
KINDS = {
    "knn alternating": (2, KNN),
    "knn alternating, 3 views": (3, KNN),
    "knn average sparse": (2, {**KNN, "fusion": "average", "kernel": "sparse"}),
    "time view dense": (2, TIME),
    "time average dense, 3 views": (3, TIME),
    "time view sparse": (2, {**TIME, "kernel": "sparse", "n_links": 20}),
    "one view": (1, TIME),
    "knn alternating, slope": (2, {**KNN, "bandwidth": "slope"}),
    "time view dense, slope": (2, {**TIME, "bandwidth": "slope"}),
    "knn alternating, neighbor": (2, {**KNN, "bandwidth": "neighbor"}),
    "time average dense, neighbor": (3, {**TIME, "bandwidth": "neighbor"}),
    "time view dense, paper": (2, {**TIME, "normalization": "paper"}),
    "time average sparse, paper": (3, {**TIME, "normalization": "paper", "kernel": "sparse", "n_links": 20}),
    "time view dense, paper, lanczos": (2, {**TIME, "normalization": "paper", "solver": "lanczos"}),
    "knn alternating dense": (2, {**KNN, "kernel": "dense"}),
    "tensor of 3 views": (3, {**TIME, "metric": "tcca", "bandwidth": "median"}),
}


def in_memory(views, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(random_state=0, **options).fit(views)


@functools.cache
def fitted(kind, n, dtype="float64"):
    K, options = KINDS[kind]
    return in_memory(recordings(K, n, dtype), options)


def assert_same(job, model, tolerance=1e-8):
    found = embedding(job)
    assert found.dtype == model.embedding_.dtype
    np.testing.assert_array_equal(landmarks.rows(job), model.landmarks_)
    np.testing.assert_allclose(spectrum.eigenvalues(job)[1:], model.eigenvalues_, atol=tolerance, rtol=0)
    np.testing.assert_allclose(found, model.embedding_, atol=tolerance, rtol=0)


def every_kind_in_chunks():
    """All kinds in chunks of 1, 7 and 1000 rows; single rows are slow to read, and most such cases are marked so."""
    for kind in KINDS:
        for rows in (7, 1000, 1):
            marks = []
            marks += [pytest.mark.slow] if rows == 1 and kind not in ("knn alternating", "time view dense") else []
            yield pytest.param(kind, rows, marks=marks)


@pytest.mark.each_value
@pytest.mark.parametrize(("kind", "chunk_rows"), list(every_kind_in_chunks()))
def test_the_staged_answer_equals_that_in_memory_for_any_chunks(kind, chunk_rows, tmp_path):
    K, options = KINDS[kind]
    job = small_job(tmp_path, recordings(K), chunk_rows, **options)
    assert job.n_blocks >= 4
    assert job.n % job.rows != 0  # the last block is ragged
    pipeline.run(job)
    assert_same(job, fitted(kind, 150))


@pytest.mark.parametrize("kind", ["knn alternating", "time view dense"])
def test_chunks_of_a_thousand_rows_with_a_ragged_end_give_the_same(kind, tmp_path):
    K, options = KINDS[kind]
    job = small_job(tmp_path, recordings(K, 2300), 1000, block_rows=1024, **options)
    assert job.n_blocks == 3
    pipeline.run(job)
    assert_same(job, fitted(kind, 2300))


@pytest.mark.parametrize("kind", ["knn alternating", "knn average sparse", "time average dense, 3 views"])
def test_views_in_float32_stay_in_it_and_agree_to_its_digits(kind, tmp_path):
    K, options = KINDS[kind]
    job = small_job(tmp_path, recordings(K, dtype="float32"), 7, **options)
    pipeline.run(job)
    assert embedding(job).dtype == np.float32
    assert_same(job, fitted(kind, 150, "float32"), tolerance=1e-4)


def test_views_may_differ_in_chunks_and_dtype(tmp_path):
    X, Y, Z = recordings(3)
    views = [X.astype("float32"), np.round(1000 * Y).astype("int16"), Z]
    job = small_job(tmp_path, views, 7, 1000, 31, **KNN)
    pipeline.run(job)
    assert_same(job, in_memory(views, KNN))


@pytest.mark.parametrize("block_rows", [1000, 11])
def test_the_answer_does_not_depend_on_the_number_of_blocks(block_rows, tmp_path):
    job = small_job(tmp_path, recordings(2), 1, block_rows=block_rows, **KNN)
    assert job.n_blocks == (14 if block_rows == 11 else 1)
    pipeline.run(job)
    assert_same(job, fitted("knn alternating", 150))


def test_more_blocks_than_groups_and_more_landmarks_than_a_block_of_them_give_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(gram, "FEWEST_GROUPS", 3)
    monkeypatch.setattr(gram, "BLOCKS_OF_GROUP", 2)
    monkeypatch.setattr("dlcca.fitting.neighborhood_rows.LANDMARKS", 16)
    job = small_job(tmp_path, recordings(2), 7, block_rows=28, **KNN)
    pipeline.run(job)
    assert gram.GRAM.of(job).n_blocks == 3
    assert_same(job, fitted("knn alternating", 150))


def test_dense_rows_made_in_many_tiles_give_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("dlcca.fitting.distances.TILE_ENTRIES", 60 * 8)
    job = small_job(tmp_path, recordings(2), 7, **TIME)
    pipeline.run(job)
    assert_same(job, fitted("time view dense", 150))


@pytest.mark.parametrize(
    "kind",
    [
        "knn alternating",
        "time view sparse",
        "time view dense",
    ],
)
def test_a_last_block_of_one_row_gives_the_same(kind, tmp_path):
    # One row is multiplied by another routine of BLAS than many are, with other rounding.
    K, options = KINDS[kind]
    options = {**options, "landmarks": 169}
    views = recordings(K, 169)
    job = small_job(tmp_path, views, 7, block_rows=28, **options)
    assert job.n % job.rows == 1
    pipeline.run(job)
    assert_same(job, in_memory(views, options))


def test_a_dense_alternating_kernel_gives_the_same(tmp_path):
    options = {**KNN, "kernel": "dense"}
    job = small_job(tmp_path, recordings(2), 7, **options)
    pipeline.run(job)
    assert_same(job, in_memory(recordings(2), options))


def test_where_samples_come_back_there_are_as_many_landmarks_as_distinct_ones(tmp_path):
    views = [np.repeat(X, 4, axis=0) for X in recordings(2, 38)]
    job = small_job(tmp_path, views, 7, **KNN)
    pipeline.run(job)
    assert landmarks.count(job) == 38
    assert_same(job, in_memory(views, KNN))


def test_a_number_for_the_bandwidth_is_used_as_it_is(tmp_path):
    options = {**TIME, "bandwidth": 2.5}
    job = small_job(tmp_path, recordings(2), 7, **options)
    pipeline.run(job)
    assert kernel.sigmas(job) == [2.5]
    assert_same(job, in_memory(recordings(2), options))


def test_landmarks_and_neighborhoods_may_be_given(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.permutation(150)[:40]
    options = {**KNN, "landmarks": rows, "neighborhoods": rng.integers(0, 150, (40, 30)), "fusion": "alternating"}
    job = small_job(tmp_path, recordings(2), 7, **options)
    pipeline.run(job)
    assert_same(job, in_memory(recordings(2), options))


@pytest.fixture
def counted(monkeypatch):
    """How often a block was written, by the name of its stage, and rows of a view read."""
    calls = Counter()
    write, read = Blocks.write, Job.read

    def counting_write(stage, block, parts, facts):
        calls[stage.name] += 1
        write(stage, block, parts, facts)

    def counting_read(job, v, rows):
        calls["read"] += 1
        return read(job, v, rows)

    monkeypatch.setattr(Blocks, "write", counting_write)
    monkeypatch.setattr(Job, "read", counting_read)
    return calls


@pytest.mark.parametrize("kind", ["knn alternating", "time average dense, 3 views"])
def test_a_second_run_computes_nothing(kind, counted, tmp_path):
    K, options = KINDS[kind]
    job = small_job(tmp_path, recordings(K), 7, **options)
    pipeline.run(job)
    assert counted["coordinates"] == counted["embedding"] == job.n_blocks
    before = embedding(job)
    counted.clear()
    pipeline.run(job)
    assert not counted
    np.testing.assert_array_equal(embedding(job), before)


def test_a_block_whose_record_is_lost_is_the_only_one_computed_again(counted, tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    pipeline.run(job)
    before = embedding(job)
    (tmp_path / "run.zarr/stages/kernel/done/00002.json").unlink()
    counted.clear()
    pipeline.run(job)
    assert counted == {"kernel": 1, "read": 2}
    np.testing.assert_array_equal(embedding(job), before)


def test_other_settings_are_refused_and_what_is_there_stays(tmp_path):
    sources = written(tmp_path, recordings(2), 7)
    job = job_on(tmp_path / "run.zarr", sources, **KNN)
    pipeline.run(job)
    before = embedding(job)
    other = job_on(tmp_path / "run.zarr", sources, **{**KNN, "ridge": 0.5})
    with pytest.raises(StaleStage, match=r"'metric' in .*ridge 0\.03.* there, .*ridge 0\.5.* now.*--from metric"):
        pipeline.run(other)
    pipeline.run(job)
    np.testing.assert_array_equal(embedding(job), before)


def test_other_recordings_are_refused(tmp_path):
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    pipeline.run(job)
    views = recordings(2)
    views[1][0, 0] += 1
    other = job_on(tmp_path / "run.zarr", written(tmp_path / "others", views, 7), **KNN)
    with pytest.raises(StaleStage, match=r"'scan' in .* other inputs"):
        pipeline.run(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**KNN, "n_neighbors": 151}, "n_neighbors=151, but the views have 150 samples"),
        ({**TIME, "window": 200}, "window=200, but the views have 150 samples"),
        ({**TIME, "landmarks": 151}, "landmarks=151, but the views have 150 samples"),
        ({**TIME, "n_components": 60}, "n_components=60 with 60 landmarks; at most 59"),
        ({**TIME, "window": "auto"}, "window='auto' is chosen by rows of the views"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_what_cannot_be_done_is_refused_before_anything_runs(options, message, tmp_path):
    with pytest.raises(SettingsError, match=message):
        small_job(tmp_path, recordings(2), 7, **options)
    assert not (tmp_path / "run.zarr").exists()


def test_progress_is_told_block_by_block(tmp_path):
    told = []
    job = small_job(tmp_path, recordings(2), 7, **KNN)
    pipeline.run(job, on_progress=lambda *news: told.append(news))
    assert [news for news in told if news[0] == "near"] == [("near", done, 4) for done in range(5)]
    assert [news for news in told if news[0] == "embedding"][-1] == ("embedding", 4, 4)
    assert told[-1] == ("checks", 2, 2)
    told.clear()
    pipeline.run(job, on_progress=lambda *news: told.append(news))
    assert all(done == of for _name, done, of in told)


@pytest.fixture
def clients():
    """Clients of clusters of so many workers, in threads of this process; loopback only."""
    opened = []

    def client(workers):
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        )
        opened.extend([cluster, Client(cluster)])
        return opened[-1]

    yield client
    for one in opened[::-1]:
        one.close()


@pytest.mark.slow
@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["knn alternating", "time average dense, 3 views"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_answer_is_the_same_to_the_bit_with_any_number_of_workers(kind, workers, clients, tmp_path):
    K, options = KINDS[kind]
    sources = written(tmp_path, recordings(K), 7)
    alone = job_on(tmp_path / "alone.zarr", sources, **options)
    pipeline.run(alone)
    assert_same(alone, fitted(kind, 150))
    job = job_on(tmp_path / "shared.zarr", sources, **options)
    pipeline.run(job, clients(workers))
    np.testing.assert_array_equal(embedding(job), embedding(alone))
    np.testing.assert_array_equal(spectrum.eigenvalues(job), spectrum.eigenvalues(alone))


@pytest.mark.parametrize("wave", [1, 3])
def test_blocks_that_wait_for_their_wave_are_all_done(wave, clients, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "WAVE", wave)
    told = []
    job = small_job(tmp_path, recordings(2), 7, block_rows=14, **TIME)
    pipeline.run(job, clients(2), on_progress=lambda *news: told.append(news))
    assert ("coordinates", 11, 11) in told
    assert_same(job, fitted("time view dense", 150))


def test_two_stores_with_one_client_do_not_take_each_others_blocks_for_their_own(clients, tmp_path, monkeypatch):
    client = clients(1)
    kept = []  # results of the first run that somebody holds on to
    submit = client.submit
    monkeypatch.setattr(client, "submit", lambda *args, **kw: kept.append(submit(*args, **kw)) or kept[-1])
    sources = written(tmp_path, recordings(2), 7)
    for name in ("one.zarr", "two.zarr"):
        job = job_on(tmp_path / name, sources, **TIME)
        pipeline.run(job, client)
        assert embedding_stage.EMBEDDING.of(job).missing() == []
        assert_same(job, fitted("time view dense", 150))


@pytest.mark.cluster
def test_workers_in_processes_of_their_own_give_the_same_to_the_bit(tmp_path):
    sources = written(tmp_path, recordings(2), 7)
    alone = job_on(tmp_path / "alone.zarr", sources, **KNN)
    pipeline.run(alone)
    job = job_on(tmp_path / "run.zarr", sources, **KNN)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        pipeline.run(job, client)
    np.testing.assert_array_equal(embedding(job), embedding(alone))

"""The spectrum by passes over the samples, against that from Gram matrices."""

import functools
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

from dlcca.errors import SettingsError
from dlcca.fitting import gram, lanczos, landmarks, pipeline, runner, spectrum
from dlcca.storage import cache
from dlcca.storage.blocks import Blocks
from tests.fitting.jobs import KNN as KNN_OPTIONS
from tests.fitting.jobs import TIME, embedding, job_on, recordings, small_job, written

KNN = {**KNN_OPTIONS, "coordinates": "diffusion"}  # which Lanczos solves for

#: Name -> number of views, and the options of the fit.
KINDS = {
    "view dense": (2, TIME),
    "view sparse": (2, {**TIME, "kernel": "sparse", "n_links": 20}),
    "average dense": (3, TIME),
    "average sparse": (2, {**KNN, "fusion": "average", "kernel": "sparse"}),
    "alternating": (2, KNN),
    "alternating, every sample a landmark": (2, {**KNN, "landmarks": 150}),
    "alternating, 3 views": (3, KNN),
    "one view": (1, TIME),
}
SLOW = ("average dense", "alternating, every sample a landmark", "one view")
SPARSE = {**TIME, "kernel": "sparse", "n_links": 20}  # takes few passes
ROWS = 84  # of a block: two blocks, the second ragged


@pytest.fixture
def no_rows_kept():
    """What a worker has kept of other tests is not to be found here."""
    cache.clear(lanczos.ROWS)


def found(job):
    """What the stage leaves: the eigenvalues, the values of the landmarks, and the embedding made with them."""
    return spectrum.eigenvalues(job), spectrum.values(job), embedding(job)


def solved_again(job, solver, client=None):
    """The same job on the same store, from its kernel on, by another solver."""
    runner.forget(job.address, "spectrum")
    other = job_on(job.address, job.sources, block_rows=job.rows, **{**job.options, "solver": solver})
    pipeline.run(other, client)
    return other


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS])
def test_lanczos_finds_what_the_gram_matrices_give(kind, tmp_path):
    K, options = KINDS[kind]
    job = small_job(tmp_path, recordings(K), 7, block_rows=ROWS, **{**options, "solver": "gram"})
    pipeline.run(job)
    S, values, coordinates = found(job)
    by_lanczos = found(solved_again(job, "lanczos"))
    np.testing.assert_allclose(by_lanczos[0], S, atol=1e-12)
    for one, other in zip(by_lanczos[1], values, strict=True):
        flip = np.sign((one * other).sum(axis=0))
        np.testing.assert_allclose(one * flip, other, atol=1e-8)
    np.testing.assert_allclose(by_lanczos[2], coordinates, atol=1e-8)


def circles(n=160, K=2):
    """Views of a common circle, evenly sampled, and nothing else: eigenvalues come in pairs."""
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return [np.column_stack([np.cos(angle + v), np.sin(angle + v)]) for v in range(K)]


def test_the_pairs_of_a_circle_span_the_same_planes(tmp_path):
    options = {**KNN, "landmarks": 160, "n_neighbors": 9, "n_links": 41, "n_components": 4}
    job = small_job(tmp_path, circles(), 7, block_rows=ROWS, **{**options, "solver": "gram"})
    pipeline.run(job)
    S, _, coordinates = found(job)
    np.testing.assert_allclose(S[1::2], S[2::2], rtol=1e-6)
    np.testing.assert_array_less(0.01, -np.diff(S)[::2])
    S_too, _, others = found(solved_again(job, "lanczos"))
    np.testing.assert_allclose(S_too, S, atol=1e-10)
    for pair in (slice(0, 2), slice(2, 4)):
        one, other = (np.linalg.qr(E[:, pair])[0] for E in (coordinates, others))
        np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-8)


def test_few_landmarks_are_solved_as_a_matrix(tmp_path):
    job = small_job(
        tmp_path, recordings(2), 7, block_rows=ROWS, **{**KNN, "landmarks": 12, "n_links": 6, "solver": "gram"}
    )
    pipeline.run(job)
    S, _, coordinates = found(job)
    S_too, _, others = found(solved_again(job, "lanczos"))
    np.testing.assert_allclose(S_too, S, atol=1e-12)
    np.testing.assert_allclose(others, coordinates, atol=1e-8)


def test_rows_that_no_worker_keeps_are_read_anew_and_give_the_same(tmp_path, monkeypatch, no_rows_kept):
    job = small_job(tmp_path, recordings(2), 7, block_rows=ROWS, **{**SPARSE, "solver": "lanczos"})
    pipeline.run(job)
    kept = found(job)[2]
    assert cache.size_of(lanczos.ROWS) > 0
    cache.clear(lanczos.ROWS)
    monkeypatch.setattr(lanczos, "KEPT_BYTES", 1000)
    np.testing.assert_array_equal(found(solved_again(job, "lanczos"))[2], kept)
    assert cache.size_of(lanczos.ROWS) == 0


def test_another_job_takes_no_rows_of_the_last_one(tmp_path, no_rows_kept):
    sources = written(tmp_path, recordings(2), 7)
    options = {**SPARSE, "solver": "lanczos"}
    pipeline.run(job_on(tmp_path / "one.zarr", sources, block_rows=ROWS, **options))
    other = job_on(tmp_path / "two.zarr", sources, block_rows=ROWS, **{**options, "bandwidth": 2.0})
    pipeline.run(other)
    S = spectrum.eigenvalues(other)
    np.testing.assert_allclose(spectrum.eigenvalues(solved_again(other, "gram")), S, atol=1e-12)


def test_nothing_of_the_way_is_kept_and_a_second_run_computes_nothing(tmp_path, monkeypatch):
    job = small_job(tmp_path, recordings(2), 7, block_rows=ROWS, **{**SPARSE, "solver": "lanczos"})
    pipeline.run(job)
    assert not (tmp_path / "run.zarr/stages/lanczos").exists()
    assert not (tmp_path / "run.zarr/stages/gram").exists()
    monkeypatch.setattr(Blocks, "write", lambda *_: pytest.fail("something was computed"))
    pipeline.run(job)


def test_a_finished_spectrum_does_not_depend_on_its_solver(tmp_path, monkeypatch):
    job = small_job(tmp_path, recordings(2), 7, block_rows=ROWS, **{**SPARSE, "solver": "gram"})
    pipeline.run(job)
    monkeypatch.setattr(Blocks, "write", lambda *_: pytest.fail("something was computed"))
    pipeline.run(job_on(tmp_path / "run.zarr", job.sources, block_rows=ROWS, **{**SPARSE, "solver": "lanczos"}))


class Killed(BaseException):
    """Nothing in the program catches it."""


@pytest.fixture
def counted(monkeypatch):
    return counting_blocks(monkeypatch)


def counting_blocks(monkeypatch):
    """Blocks of "lanczos" written, by the name of their stage; after ``end`` of them the run is killed."""
    calls = Counter()
    calls.end = None  # (blocks, whether the arrays of the next one are still written)
    write = Blocks.write

    def counting(stage, block, parts, facts):
        if stage.name.startswith("lanczos"):
            if calls.end is not None and calls.total() == calls.end[0]:
                for array, (first, X) in parts.items() if calls.end[1] else ():
                    stage.array(array)[first : first + len(X)] = X
                raise Killed
            calls[stage.name] += 1
        write(stage, block, parts, facts)

    monkeypatch.setattr(Blocks, "write", counting)
    return calls


@functools.cache
def whole_run():
    """The embedding of a run that nothing disturbed, and the blocks of its passes."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        blocks = counting_blocks(patch)
        job = small_job(Path(folder), recordings(2), 7, block_rows=ROWS, **{**KNN, "solver": "lanczos"})
        pipeline.run(job)
        return embedding(job), dict(blocks)


@pytest.mark.parametrize(
    ("after", "within"),
    [
        (1, True),
        (16, False),
        (53, True),
        *(pytest.param(k, k % 2 == 1, marks=pytest.mark.slow) for k in range(0, 100, 9)),
    ],
)
def test_a_killed_run_is_finished_by_the_next_which_makes_no_pass_again(after, within, tmp_path, monkeypatch):
    coordinates, everything = whole_run()
    assert sum(everything.values()) > 100
    blocks = counting_blocks(monkeypatch)
    blocks.end = (after, within)
    job = small_job(tmp_path, recordings(2), 7, block_rows=ROWS, **{**KNN, "solver": "lanczos"})
    with pytest.raises(Killed):
        pipeline.run(job)
    blocks.end = None
    pipeline.run(job)
    assert blocks == everything  # both runs together: every block of every pass once
    np.testing.assert_array_equal(embedding(job), coordinates)


def test_passes_that_are_damaged_or_of_other_vectors_are_made_again(counted, tmp_path):
    job = small_job(tmp_path, recordings(2), 7, block_rows=ROWS, **{**SPARSE, "solver": "lanczos"})
    counted.end = (19, False)
    with pytest.raises(Killed):
        pipeline.run(job)
    folder = tmp_path / "run.zarr/stages/lanczos"
    products = sorted((folder / "products/c").iterdir(), key=lambda path: int(path.name))
    assert len(products) >= 4
    chunk = next(path for path in products[1].rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[::-1])
    (one,) = [path for path in folder.iterdir() if path.name.startswith("0")]
    (one / "done/00001.json").write_text(json.dumps({"crc": 0}))
    counted.end = None
    counted.clear()
    pipeline.run(job)
    assert counted["lanczos/00001-0"] == 1 + len(gram.groups(job))
    assert counted["lanczos/00002-0"] == 0
    S, _, coordinates = found(job)
    again = found(solved_again(job, "gram"))
    np.testing.assert_allclose(S, again[0], atol=1e-12)
    np.testing.assert_allclose(coordinates, again[2], atol=1e-8)


def test_what_other_settings_have_left_is_no_obstacle(counted, tmp_path):
    sources = written(tmp_path, recordings(2), 7)
    counted.end = (10, False)
    with pytest.raises(Killed):
        pipeline.run(job_on(tmp_path / "run.zarr", sources, block_rows=ROWS, **{**SPARSE, "solver": "lanczos"}))
    counted.end = None
    runner.forget(str(tmp_path / "run.zarr"), "spectrum")
    other = job_on(
        tmp_path / "run.zarr", sources, block_rows=ROWS, **{**SPARSE, "solver": "lanczos", "n_components": 2}
    )
    pipeline.run(other)
    assert embedding(other).shape == (150, 2)


def test_more_coordinates_than_the_kernel_has_are_refused(tmp_path):
    views = [np.repeat(X, 30, axis=0) for X in recordings(2, 5)]
    options = {**SPARSE, "n_components": 9, "bandwidth": 1.0, "solver": "lanczos"}
    job = small_job(tmp_path, views, 7, block_rows=ROWS, **options)
    with pytest.raises(SettingsError, match=r"n_components=9, but the kernel has rank \d:"):
        pipeline.run(job)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["view dense", pytest.param("alternating", marks=pytest.mark.slow)])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_answer_is_the_same_to_the_bit_with_any_number_of_workers(kind, workers, tmp_path):
    K, options = KINDS[kind]
    options = {**options, "solver": "lanczos"}
    sources = written(tmp_path, recordings(K), 7)
    alone = job_on(tmp_path / "alone.zarr", sources, block_rows=ROWS, **options)
    pipeline.run(alone)
    job = job_on(tmp_path / "shared.zarr", sources, block_rows=ROWS, **options)
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        pipeline.run(job, client)
    np.testing.assert_array_equal(spectrum.eigenvalues(job), spectrum.eigenvalues(alone))
    np.testing.assert_array_equal(embedding(job), embedding(alone))


def test_progress_is_told_product_by_product(tmp_path):
    told = []
    job = small_job(tmp_path, recordings(2), 7, block_rows=ROWS, **{**SPARSE, "solver": "lanczos"})
    pipeline.run(job, on_progress=lambda *news: told.append(news))
    passes = [news for news in told if news[0] == "lanczos"]
    assert [done for _, done, _ in passes] == list(range(1, len(passes) + 1))
    assert ("spectrum", 1, 1) in told
    assert landmarks.count(job) == 60

"""The arithmetic of a plan, against what it means."""

import pytest

from dlcca.engine.stage import TASK_S, Stage
from dlcca.errors import SettingsError
from dlcca.fitting import pipeline
from dlcca.fitting.job import Job
from dlcca.fitting.planning import PlannedSource, Rates, StageRate, plan, refuse_too_large
from dlcca.settings.auto import choose
from dlcca.settings.fit import Settings

#: Nearest neighbours, sparse alternating kernels.
SPARSE = {
    "neighborhoods": "knn",
    "n_neighbors": 64,
    "neighbor_rows": "all",
    "neighbor_index": "exact",
    "landmarks": 2000,
    "landmark_rule": "kmeans++",
    "metric": "cca",
    "rank": 16,
    "fusion": "alternating",
    "kernel": "sparse",
    "n_links": 32,
    "bandwidth": "median",
    "solver": "gram",
    "coordinates": "diffusion",
    "n_components": 5,
}
#: Windows of time, a dense kernel of one view.
DENSE = {"neighborhoods": "time", "window": 8, "landmarks": 500, "landmark_rule": "even", "fusion": "view"}
DENSE["kernel"] = "dense"
N = 1_000_000


def job_of(n=N, rows=62_500, chunk_rows=62_500, dims=(64, 64), **options):
    """A job of views that are not there."""
    settings = choose(Settings.from_options(**{**SPARSE, **options}), n, len(dims), dims).settings
    sources = (PlannedSource(f"view {v}", "nowhere", shape=(n, d), chunks=(chunk_rows, d)) for v, d in enumerate(dims))
    return Job("nowhere/run.zarr", tuple(sources), settings, 0, n, dims, "float32", rows, "")


def stage(made, name):
    return next(stage for stage in made.stages if stage.name == name)


@pytest.mark.parametrize("options", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_what_is_done_for_each_sample_grows_with_the_samples_and_memory_does_not(options):
    once, ten = (plan(job_of(n, **options), 2) for n in (10**6, 10**7))
    for name in ("scan", "coordinates", "bandwidth"):
        assert stage(ten, name).reads == pytest.approx(10 * stage(once, name).reads)
        assert stage(ten, name).tasks == 10 * stage(once, name).tasks
    assert ten.products > 8 * once.products  # but for the choice of landmarks
    assert 5 < ten.seconds / once.seconds < 12
    assert ten.memory_per_worker < 1.2 * once.memory_per_worker


def test_the_operations_of_the_nearest_landmarks_are_those_of_the_products():
    of_all_pairs = 2 * 10**6 * 2000 * 128
    assert stage(plan(job_of(), 2), "near").products == 2 * of_all_pairs  # of the channels, and along the links' axes
    assert stage(plan(job_of(fusion="view"), 2), "near").products == of_all_pairs


def test_blocks_that_share_chunks_read_them_more_than_once():
    shared = plan(job_of(rows=50_000), 2)
    assert stage(shared, "scan").reads > 1.5 * stage(plan(job_of(), 2), "scan").reads


def test_tasks_share_the_workers_and_a_last_round_may_be_for_few_of_them():
    rates = Rates({"scan": StageRate(task_factor=1 / TASK_S, factor=0.0)})
    scan = stage(plan(job_of(), 1), "scan")
    seconds = [plan(job_of(), workers, rates).seconds_of(scan) for workers in (1, 3, 16, 100)]
    assert seconds == pytest.approx([16, 6, 1, 1])


def test_a_rate_corrects_time_and_memory():
    scan = stage(plan(job_of(), 1), "scan")
    rates = Rates(
        {
            "scan": StageRate(
                task_factor=2.0,
                factor=3.0,
                client_s=5.0,
                client_task_s=0.1,
                rest_bytes=1e8,
                extra_bytes=-1e6,
            )
        }
    )
    made = plan(job_of(), 4, rates)
    assert made.seconds_of(scan) == pytest.approx(5 + 16 * 0.1 + 4 * (2 * TASK_S + 3 * scan.work_s / 16))
    assert made.memory_of(scan) == pytest.approx(1e8 + scan.memory - 1e6)


def test_all_processes_together_are_the_client_and_the_workers_busy_or_at_rest():
    rates = Rates({name: StageRate(rest_bytes=1e8) for name in ("scan", "spectrum")}, client_bytes=5e7)
    made = plan(job_of(), 4, rates)
    assert made.memory_in_all >= 5e7 + made.memory_of(stage(made, "spectrum")) + 3e8
    assert made.memory_in_all <= 5e7 + 16 * N + 4 * made.memory_per_worker


def test_a_stage_that_only_a_measurement_on_few_rows_had_is_not_planned():
    measured = plan(job_of(), 1, Rates({"merged": StageRate(client_s=100.0)}))
    assert "merged" not in {stage.name for stage in measured.stages}
    assert measured.seconds == plan(job_of(), 1).seconds


def test_a_stage_without_a_cost_of_its_own_writes_its_arrays_in_a_task_for_each_block(monkeypatch):
    arrays = {"norms": ((N, 2), "float64", 62_500), "sums": ((3,), "float32", 3)}
    added = Stage("norms", n_blocks=lambda job: job.n_blocks, arrays=lambda job: arrays)
    monkeypatch.setattr(pipeline, "STAGES", (*pipeline.STAGES, added))
    counted = stage(plan(job_of(), 1), "norms")
    assert (counted.tasks, counted.writes) == (job_of().n_blocks, 16 * N + 12)


def test_what_the_normalization_of_the_paper_and_an_approximate_search_take_is_counted():
    literal = stage(plan(job_of(**DENSE, normalization="paper"), 1), "columns")
    assert (literal.tasks, literal.reads) == (job_of().n_blocks, job_of().pass_bytes)
    approximate = stage(plan(job_of(neighbor_index="pynndescent"), 1), "recall")
    assert (approximate.tasks, approximate.reads) == (job_of().n_blocks, job_of().pass_bytes)


def test_passes_that_the_data_decides_are_planned_as_they_were_met():
    lanczos = job_of(solver="lanczos")
    guessed = stage(plan(lanczos, 1), "spectrum")
    measured = stage(plan(lanczos, 1, Rates({"spectrum": StageRate(repeats=0.5)})), "spectrum")
    assert measured.tasks == guessed.tasks / 2
    assert measured.reads == guessed.reads / 2
    assert measured.memory == guessed.memory
    assert "gram" not in {s.name for s in plan(lanczos, 1).stages}


def test_a_block_takes_fewer_than_twenty_tasks_and_a_wave_is_bounded():
    large = plan(job_of(n=10**8, rows=65_536, chunk_rows=32_768), 100)
    assert large.tasks_per_block < 20
    assert large.largest_wave < 10**5
    assert large.tasks > large.largest_wave


@pytest.mark.parametrize(
    ("job", "worst", "advice"),
    [
        (job_of(landmarks=20_000), "spectrum", r"\[landmarks\] count \(fewer\)"),
        (job_of(rows=10**6, chunk_rows=10**6, dims=(4000, 4000), **DENSE), "scan", "smaller chunks"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_stage_and_the_setting(job, worst, advice):
    made = plan(job, 2)
    with pytest.raises(SettingsError, match=rf"'{worst}' needs .* GiB .* worker has 1\.00\. Change .*{advice}"):
        refuse_too_large(made, 2**30)
    refuse_too_large(made, made.memory_per_worker)

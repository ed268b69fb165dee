"""Rates from measurements that were made up from known rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.fitting import calibration
from dlcca.fitting.calibration import Measured, fixed_and_growing
from dlcca.fitting.pipeline import costs as counted_stages
from dlcca.fitting.planning import Rates, StageRate, plan
from tests.fitting.test_planning import job_of
from tests.numerics.cases import quick

FEW, MANY = (job_of(10_000, rows=rows, chunk_rows=rows) for rows in (5000, 625))
LARGE = job_of()
COSTS = st.floats(0.001, 10)


def fitted(trials):
    return calibration.fitted(trials, workers=2)


def trial_of(job, **stages):
    return job, stages


def measured(job, rate, name, workers=2):
    """What a stage takes if a rate is exactly right."""
    stage = next(s for s in counted_stages(job) if s.name == name)
    made = plan(job, workers, Rates({name: rate}))
    task = rate.task_factor * stage.task_s + rate.factor * stage.work_s / stage.tasks
    return Measured(
        stage.tasks, stage.tasks * task, made.seconds_of(stage), rate.rest_bytes, rate.rest_bytes + stage.memory
    )


@pytest.mark.parametrize("name", ["scan", "near", "kernel", "coordinates"])
@quick
@given(fixed=st.floats(0, 3), factor=st.floats(0.01, 1.4), client_s=COSTS)
def test_the_cost_of_a_task_and_that_of_its_rows_are_told_apart(name, fixed, factor, client_s):
    """The fixed cost is a share of that of the rows in few blocks, so that the growth is not lost beside it."""
    few = next(s for s in counted_stages(FEW) if s.name == name)
    task_factor = fixed * factor * few.work_s / few.tasks / few.task_s
    rate = StageRate(task_factor=task_factor, factor=factor, client_s=client_s, client_task_s=0.01, rest_bytes=1e8)
    trials = [trial_of(job, **{name: measured(job, rate, name)}) for job in (FEW, MANY)]
    found = Rates(fitted(trials))
    planned, true = (plan(LARGE, 2, rates) for rates in (found, Rates({name: rate})))
    stage = next(s for s in counted_stages(LARGE) if s.name == name)
    assert planned.seconds_of(stage) == pytest.approx(true.seconds_of(stage), rel=1e-3)
    assert planned.memory_of(stage) == pytest.approx(1e8 + stage.memory)


@pytest.mark.parametrize("name", ["metric", "spectrum", "landmarks"])
def test_what_depends_on_landmarks_alone_is_taken_as_measured(name):
    rate = StageRate(task_factor=0.0, factor=2.0, client_s=0.5, rest_bytes=1e8)
    trials = [trial_of(job, **{name: measured(job, rate, name)}) for job in (FEW, MANY)]
    stage = next(s for s in counted_stages(FEW) if s.name == name)
    assert plan(FEW, 2, Rates(fitted(trials))).seconds_of(stage) == pytest.approx(trials[0][1][name].wall_s, rel=0.1)


def test_more_tasks_than_are_counted_are_planned_in_the_same_proportion():
    lanczos = [job_of(10_000, rows=rows, chunk_rows=rows, solver="lanczos") for rows in (5000, 625)]
    counted = [next(s for s in counted_stages(job) if s.name == "spectrum").tasks for job in lanczos]
    met = [Measured(3 * tasks, tasks * 0.3, tasks * 0.2) for tasks in counted]
    rates = fitted([trial_of(job, spectrum=m) for job, m in zip(lanczos, met, strict=True)])
    assert rates["spectrum"].repeats == 3


def test_a_stage_that_was_not_counted_has_no_rate():
    assert fitted([trial_of(job, merged=Measured(3, 0.3, 0.5)) for job in (FEW, MANY)]) == {}


def test_unknown_memory_leaves_the_guess():
    rate = fitted([trial_of(job, scan=Measured(job.n_blocks, 1.0, 1.0)) for job in (FEW, MANY)])["scan"]
    assert (rate.rest_bytes, rate.extra_bytes) == (StageRate().rest_bytes, 0)


@quick
@given(a=COSTS, b=COSTS)
def test_two_points_of_a_line_give_the_line(a, b):
    assert fixed_and_growing([1, 8], [a + b, a + 8 * b]) == pytest.approx((a, b), rel=1e-6, abs=1e-9)


def test_a_growth_that_is_lost_in_the_noise_stays_as_expected():
    assert fixed_and_growing([0.01, 0.02], [0.7, 0.4], expected=1.0) == pytest.approx((0.535, 1.0))
    assert fixed_and_growing([0.1, 0.8], [0.4, 1.1], expected=1.0) == pytest.approx((0.3, 1.0))


def test_the_first_task_of_a_worker_is_told_apart_from_the_later_ones():
    """Each worker opens something for 0.5 s; then a task takes 10 ms and 2 µs for each of its rows."""

    def met(job):
        task = 0.01 + 2e-6 * job.rows
        each = [task + 0.5 * (block < 2) for block in range(job.n_blocks)]
        wall = 0.5 + job.n_blocks / 2 * task
        return trial_of(job, scan=Measured(job.n_blocks, sum(each), wall, each=tuple(each)))

    rate = fitted([met(FEW), met(MANY)])["scan"]
    assert rate.opening_s == pytest.approx(0.5)
    stage = next(s for s in counted_stages(LARGE) if s.name == "scan")
    truth = 0.5 + -(-stage.tasks // 2) * (0.01 + 2e-6 * LARGE.rows)
    assert plan(LARGE, 2, Rates({"scan": rate})).seconds_of(stage) == pytest.approx(truth, rel=0.05)


def test_no_part_is_below_zero_however_the_measurements_lie():
    assert fixed_and_growing([1, 8], [2.0, 1.0])[1] == 0
    assert fixed_and_growing([1, 8], [0.1, 8.0])[0] == 0
    assert fixed_and_growing([1, 8], [0.0, 0.0]) == (0, 0)
    assert fixed_and_growing([3, 3], [2.0, 4.0], when_alike="fixed") == (3, 0)
    assert fixed_and_growing([3, 3], [2.0, 4.0]) == (0, 1)
    assert fixed_and_growing([0.01, 0.01], [1.0, 1.0]) == pytest.approx((0.9, 10))

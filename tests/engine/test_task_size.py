"""How many blocks make a task, from what the last ones took; and what that does to blocks that are mapped."""

import threading
from collections import Counter

import pytest

from dlcca.engine import scheduler
from dlcca.engine.scheduler import LEAST_TASKS, SEEN, TASK_S, TASKS_OF_THREAD, Pace


def paced(seconds: float, *, blocks: int = 1, threads: int = 2) -> Pace:
    """After as many tasks as are looked at, each of so many blocks."""
    made = Pace(lambda: threads)
    for _ in range(SEEN):
        made.note(seconds, blocks)
    return made


def test_the_first_tasks_are_of_one_block():
    assert Pace(lambda: 2).blocks_of_task(10_000) == 1


@pytest.mark.parametrize("seconds", [TASK_S, 3 * TASK_S, 1000.0])
def test_a_block_that_takes_as_long_as_a_task_should_has_one_of_its_own(seconds):
    assert paced(seconds).blocks_of_task(10_000) == 1


@pytest.mark.parametrize("of_task", [2, 10, 50])
def test_quick_blocks_share_a_task_that_takes_as_long_as_it_should(of_task):
    seconds = TASK_S / of_task
    assert paced(seconds * 1.001).blocks_of_task(10_000) in (of_task - 1, of_task)
    assert paced(seconds * 8, blocks=8).blocks_of_task(10_000) in (of_task - 1, of_task)  # it is what a block takes


def test_blocks_of_no_time_at_all_still_make_a_task():
    assert 1 <= paced(0.0).blocks_of_task(100) <= 100
    assert paced(0.0).blocks_of_task(0) == 1


@pytest.mark.parametrize("left", [1, 7, 8, 9, 100, 1000])
@pytest.mark.parametrize("threads", [1, 3, 16])
def test_no_thread_is_without_tasks_for_the_sake_of_larger_ones(left, threads):
    size = paced(0.0, threads=threads).blocks_of_task(left)
    assert size == 1 or left / size >= TASKS_OF_THREAD * threads


def test_blocks_that_become_slow_get_tasks_of_their_own_again():
    made = paced(TASK_S / 100)
    assert made.blocks_of_task(10_000) > 1
    for _ in range(SEEN):
        made.note(2 * TASK_S, 1)
    assert made.blocks_of_task(10_000) == 1


def test_one_task_that_had_to_compile_does_not_tell_for_all():
    made = paced(TASK_S / 10)
    made.note(60.0, 1)
    assert made.blocks_of_task(10_000) > 1


def test_more_threads_have_more_tasks_with_the_scheduler():
    assert Pace(lambda: 1).most_tasks() == LEAST_TASKS
    assert Pace(lambda: 1000).most_tasks() == 1000 * TASKS_OF_THREAD


def test_the_threads_of_a_cluster_that_grows_are_counted_again_after_a_while(monkeypatch):
    now, threads = [100.0], [0]
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: now[0])
    made = Pace(lambda: threads[0])
    assert made.threads() == 1  # no worker is there yet
    threads[0] = 50
    now[0] += scheduler.COUNT_EVERY_S / 2
    assert made.threads() == 1
    now[0] += scheduler.COUNT_EVERY_S
    assert made.threads() == 50
    assert made.most_tasks() == 50 * TASKS_OF_THREAD
    threads[0] = 2
    now[0] += 2 * scheduler.COUNT_EVERY_S
    assert made.threads() == 2


@pytest.fixture
def small_blocks(monkeypatch):
    """As if every block took no time; the sizes of the tasks, and most blocks with the scheduler, are kept."""
    seen = {"tasks": [], "held": 0}
    more = scheduler._Tasks.more

    def watched(self):
        before = set(self.held)
        new = more(self)
        seen["tasks"] += [len(self.held[key]) for key in set(self.held) - before]
        seen["held"] = max(seen["held"], sum(map(len, self.held.values())))
        return new

    monkeypatch.setattr(scheduler._Tasks, "more", watched)
    monkeypatch.setattr(Pace, "note", lambda self, seconds, blocks: self._took.append(1e-6))
    return seen


def squared(offset, block):
    return (offset + block) ** 2


CALLS, LOCK = Counter(), threading.Lock()


def fails_once_at_each_tenth(name, block):
    with LOCK:
        CALLS[name, block] += 1
        first = CALLS[name, block] == 1
    if block % 10 == 0 and first:
        raise ValueError(f"block {block} has failed")
    return block


def always_fails_at(bad, block):
    if block == bad:
        raise ValueError(f"block {block} is bad")
    return block


MAPPED = {
    "as completed": lambda function, first, n, client, **options: sorted(
        scheduler.as_completed(function, (first,), range(n), client, **options)
    ),
    "in order": lambda function, first, n, client, **options: list(
        enumerate(scheduler.in_order(function, (first,), n, client, **options))
    ),
}


@pytest.mark.parametrize("order", MAPPED)
@pytest.mark.parametrize(("wave", "n"), [(1, 10), (5, 60), (300, 700)])
def test_blocks_that_share_a_task_have_their_own_results_in_their_own_order(client, small_blocks, order, wave, n):
    assert MAPPED[order](squared, 3, n, client, wave=wave) == [(b, (3 + b) ** 2) for b in range(n)]
    assert sum(small_blocks["tasks"]) == n
    assert small_blocks["held"] <= wave
    if wave == 300:
        assert max(small_blocks["tasks"]) > 1


@pytest.mark.parametrize("order", MAPPED)
def test_all_blocks_of_a_task_are_done_again_when_one_has_failed(client, small_blocks, order):
    assert MAPPED[order](fails_once_at_each_tenth, order, 400, client, retries=40) == [(b, b) for b in range(400)]
    assert max(small_blocks["tasks"]) > 1
    assert all(CALLS[order, block] >= 2 for block in range(0, 400, 10))


@pytest.mark.parametrize("order", MAPPED)
def test_a_bad_block_among_many_is_an_error_here(client, small_blocks, order):
    with pytest.raises(ValueError, match="block 390 is bad"):
        MAPPED[order](always_fails_at, 390, 400, client, retries=1)

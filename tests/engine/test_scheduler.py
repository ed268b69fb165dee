"""A function of numbered blocks, mapped over workers or in a loop."""

import pytest
from distributed.diagnostics.plugin import SchedulerPlugin

from dlcca.engine import scheduler as waves
from dlcca.engine.scheduler import LEAST_TASKS


def square(offset, block):
    return (offset + block) ** 2


def fails_at_three(_, block):
    if block == 3:
        raise ValueError("block 3 is bad")
    return block


@pytest.fixture(params=["loop", "workers"])
def where(request):
    return None if request.param == "loop" else request.getfixturevalue("client")


@pytest.mark.parametrize("wave", [1, 3, 100])
def test_every_block_comes_back_once_with_its_own_result(where, wave):
    found = list(waves.as_completed(square, (10,), [2, 5, 7, 11, 13], where, wave=wave))
    assert sorted(found) == [(b, (10 + b) ** 2) for b in (2, 5, 7, 11, 13)]


@pytest.mark.parametrize("wave", [1, 3, 100])
def test_results_in_order_are_in_the_order_of_the_blocks(where, wave):
    assert list(waves.in_order(square, (10,), 7, where, wave=wave)) == [(10 + b) ** 2 for b in range(7)]


def test_no_blocks_give_nothing(where):
    assert list(waves.as_completed(square, (0,), [], where)) == []
    assert list(waves.in_order(square, (0,), 0, where)) == []


def test_an_error_in_a_block_is_raised_here(where):
    with pytest.raises(ValueError, match="block 3 is bad"):
        list(waves.as_completed(fails_at_three, (0,), range(6), where, retries=0))
    with pytest.raises(ValueError, match="block 3 is bad"):
        list(waves.in_order(fails_at_three, (0,), 6, where, retries=0))


def test_a_second_call_computes_again_and_does_not_take_old_results(client):
    first = dict(waves.as_completed(square, (1,), range(3), client, name="same"))
    second = dict(waves.as_completed(square, (2,), range(3), client, name="same"))
    assert first != second


class Graphs(SchedulerPlugin):
    """The graphs that reach a scheduler: their sizes, and how many of their tasks it then holds."""

    name = "graphs"

    def __init__(self):
        self.sizes, self.held, self.seen = [], [], set()

    def update_graph(self, scheduler, *, tasks, **_):
        self.seen |= set(tasks)
        self.sizes.append(len(tasks))
        self.held.append(len(self.seen & set(scheduler.tasks)))


@pytest.fixture
def graphs(client):
    watch = Graphs()
    client.cluster.scheduler.add_plugin(watch)
    yield watch
    client.cluster.scheduler.remove_plugin(watch.name)


@pytest.mark.parametrize("mapped", [waves.as_completed, waves.in_order])
def test_the_scheduler_never_holds_more_than_a_wave(client, graphs, mapped):
    found = list(mapped(square, (0,), range(40) if mapped is waves.as_completed else 40, client, wave=4))
    assert len(found) == sum(graphs.sizes) == 40
    assert max(graphs.sizes) == 4
    assert max(graphs.held) <= 2 * 4  # finished tasks are forgotten a moment later


@pytest.mark.parametrize("mapped", [waves.as_completed, waves.in_order])
def test_blocks_go_to_the_scheduler_many_at_a_time(client, graphs, mapped):
    blocks = range(1000) if mapped is waves.as_completed else 1000
    assert len(list(mapped(square, (0,), blocks, client, wave=1000))) == 1000
    assert graphs.sizes[0] == LEAST_TASKS  # what a block takes is not known yet
    assert len(graphs.sizes) <= 1000 / (LEAST_TASKS / 2) + 1  # and never one whenever one is finished

"""The one cache of a process: made once, bounded, and emptied by one call."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from dlcca.storage import cache


@pytest.fixture(autouse=True)
def empty():
    cache.clear()
    yield
    cache.clear()


def test_a_value_is_made_once():
    made = []
    for _ in range(3):
        assert cache.get(("kind", 1), lambda: made.append(1) or "value") == "value"
    assert made == [1]
    assert cache.find(("kind", 1)) == "value"
    assert cache.find(("kind", 2)) is None


def test_a_value_that_is_none_or_false_is_kept_too():
    made = []
    for _ in range(2):
        assert cache.get(("kind", 1), lambda: made.append(1)) is None
    assert made == [1]


def test_nothing_is_kept_of_a_failure():
    with pytest.raises(ZeroDivisionError):
        cache.get(("kind", 1), lambda: 1 / 0)
    assert cache.get(("kind", 1), lambda: 5) == 5


def test_threads_wait_for_the_one_that_makes_a_value():
    made, began = [], threading.Barrier(8)

    def make():
        made.append(1)
        return object()

    def wanted():
        began.wait(10)
        return cache.get(("kind", 1), make)

    with ThreadPoolExecutor(8) as pool:
        found = [task.result() for task in [pool.submit(wanted) for _ in range(8)]]
    assert made == [1]
    assert len(set(map(id, found))) == 1


def test_a_value_may_be_made_of_another():
    assert cache.get(("sum", 2), lambda: cache.get(("sum", 1), lambda: 1, keep=2) + 1, keep=2) == 2


def test_the_value_that_was_not_used_for_the_longest_time_is_dropped_first(monkeypatch):
    monkeypatch.setattr(cache, "MAX_ENTRIES", 3)
    for number in range(3):
        cache.put(("kind", number), number)
    cache.find(("kind", 0))
    cache.put(("kind", 3), 3)
    assert [number for number in range(4) if cache.find(("kind", number)) is not None] == [0, 2, 3]


@dataclass
class Holder:
    arrays: dict[str, list[np.ndarray]]


@pytest.mark.parametrize("wrap", [lambda X: X, lambda X: (1, X), lambda X: Holder({"a": [X]})])
def test_bytes_of_arrays_are_bounded(monkeypatch, wrap):
    monkeypatch.setattr(cache, "MAX_BYTES", 25_000)
    for number in range(5):
        cache.put(("kind", number), wrap(np.zeros(1000)))
    assert [number for number in range(5) if cache.find(("kind", number)) is not None] == [3, 4]
    assert 16_000 < cache.size_of("kind") == cache.size_of() < 25_000
    assert cache.size_of("other") == 0


def test_the_last_value_is_kept_however_large_it_is(monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 10)
    cache.put(("kind", 0), np.zeros(1000))
    cache.put(("kind", 1), np.ones(1000))
    assert cache.find(("kind", 0)) is None
    assert cache.find(("kind", 1)).sum() == 1000


def test_of_a_kind_of_large_values_the_older_are_dropped_before_one_is_made():
    cache.put(("other", 0), 0)
    cache.get(("index", 0), lambda: 0, keep=1)
    cache.get(("index", 1), lambda: cache.find(("index", 0)) is None, keep=1)
    assert cache.find(("index", 1)) is True
    assert cache.find(("other", 0)) == 0


def test_one_call_empties_it():
    cache.put(("one", 0), 0)
    cache.put(("other", 0), 0)
    cache.clear("one")
    assert (cache.find(("one", 0)), cache.find(("other", 0))) == (None, 0)
    cache.clear()
    assert cache.size_of() == 0


def test_a_value_can_be_dropped_and_replaced():
    cache.put(("kind", 0), 1)
    cache.put(("kind", 0), 2)
    assert cache.find(("kind", 0)) == 2
    cache.discard(("kind", 0))
    cache.discard(("kind", 0))
    assert cache.find(("kind", 0)) is None

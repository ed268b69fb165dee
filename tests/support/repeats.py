"""What of the parameters of a test is repetition: `make test` leaves it to `make suite`.

`first` is for parameters of one kind. The mark ``each_value`` is for combinations: of all those of the parameters
of a test as many are kept as show every single value of every parameter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """Cases for `pytest.mark.parametrize`, of which those after the first ``count`` have the mark ``repeats``."""
    made = [case if isinstance(case, type(pytest.param())) else _param(case) for case in cases]
    return [
        case if number < count else pytest.param(*case.values, marks=[*case.marks, pytest.mark.repeats], id=case.id)
        for number, case in enumerate(made)
    ]


def _param(case: Any) -> Any:
    return pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)


def among(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests marked ``each_value`` that show no value of a parameter that those which are kept do not show."""
    combinations = defaultdict(list)
    for item in items:
        if item.get_closest_marker("each_value"):
            combinations[item.nodeid.partition("[")[0]].append(item)
    return [item for of_one in combinations.values() for item in _left_over(of_one)]


def _left_over(items: list[pytest.Item]) -> list[pytest.Item]:
    """All but a few items that together show every value: each time the first that shows most of what is missing."""
    shown = [{(name, repr(value)) for name, value in item.callspec.params.items()} for item in items]  # type: ignore
    missing, left = set().union(*shown), list(range(len(items)))
    while missing:
        best = max(left, key=lambda number: len(shown[number] & missing))
        missing -= shown[best]
        left.remove(best)
    return [items[number] for number in left]

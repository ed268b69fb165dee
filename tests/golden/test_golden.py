"""Small fits give the numbers that they gave before: a change of structure does not change a result."""

import json

import numpy as np
import pytest

from tests.golden.results import FILE, cases, name_of, result_of

#: Relative to the largest entry. Single precision differs between processors in its last digits, and an eigenvector
#: amplifies them by the inverse of its gap.
TOLERANCE = {"float64": 1e-8, "float32": 1e-3}


@pytest.fixture(scope="module")
def golden():
    return json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_a_small_fit_gives_the_same_result_as_before(case, golden):
    expected, found = golden[name_of(case)], result_of(case)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        scale = float(np.abs(values).max(initial=1e-300)) if np.size(values) else 1.0
        np.testing.assert_allclose(
            found[name], values, rtol=0, atol=TOLERANCE[case[2]] * max(scale, 1e-12), err_msg=name
        )


def test_every_case_has_its_result(golden):
    assert set(golden) == {name_of(case) for case in cases()}

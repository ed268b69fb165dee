"""What is known of how long tests take."""

from tests.support import durations

LOG = """
============================= slowest durations ==============================
12.50s call     tests/fitting/test_a.py::test_one[2-x y]@tests/fitting/test_a.py
0.25s setup    tests/fitting/test_a.py::test_one[1-z]@tests/fitting/test_a.py
 1.00s call     tests/test_b.py::test_two@slurm
3 passed in 20.00s
"""


def test_seconds_are_summed_over_the_parameters_of_a_test():
    assert durations.in_log(LOG) == {"tests/fitting/test_a.py::test_one": 12.75, "tests/test_b.py::test_two": 1.0}


def test_the_file_is_one_that_can_be_read():
    assert all(seconds > 0 and function.startswith("tests/") for function, seconds in durations.read().items())

"""Settings of every test process, made before any test module is imported; which tests are slow, and their order."""

import os

# pynwb caches a pickle when it is imported first; test processes that start together would read it half-written.
os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
# Matrices of tests are small: threads would wait for each other. Plugins of pytest have loaded NumPy's BLAS already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections import Counter
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

from tests.support import durations, fork_server, no_fsync, repeats  # noqa: F401  no_fsync by being imported

fork_server.use()
threadpool_limits(limits=1)

#: Files that share what takes long to make: numba compiles pynndescent anew in every process, and SLURM is started.
GROUPS = {
    "tests/fitting/test_neighbor_subset.py": "pynndescent",
    "tests/fitting/test_neighbors_large.py": "pynndescent",
    "tests/numerics/test_approximate.py": "pynndescent",
    "tests/clusters/test_slurm.py": "slurm",
    "tests/clusters/test_slurm_tutorial.py": "slurm",
}
#: Files whose tests share nothing that takes long: they go to any process, one by one.
SINGLE = {"tests/test_docs.py", "tests/test_experiments.py"}
#: What a test function may take of a plain `pytest`: parameters beyond that are slow.
QUICK_S = 0.3


def function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def group_of(nodeid: str) -> str:
    """Tests of one group are done by one process: those of a file, which share its fixtures."""
    file = nodeid.partition("::")[0]
    return nodeid if file in SINGLE else GROUPS.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole groups, in the order of the items. (Groups by marks are lost with pytest 9.2 and xdist 3.8.)"""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)  # before marks are looked at, and before xdist, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known, parameters, seen = durations.read(), Counter(map(function_of, items)), Counter()
    group_s: Counter[str] = Counter()
    for item in repeats.among(items):
        item.add_marker(pytest.mark.repeats)
    for item in items:
        function = function_of(item)
        each_s = known.get(function, 0.0) / parameters[function]
        seen[function] += 1
        if seen[function] * each_s > QUICK_S:
            item.add_marker(pytest.mark.slow)
        group_s[group_of(item.nodeid)] += each_s
    if hasattr(config, "workerinput"):  # one of several processes: what needs longest is begun first
        items.sort(key=lambda item: -group_s[group_of(item.nodeid)])  # a stable sort

"""Settings of every test process, made before any test module is imported, and the order of the tests."""

import os

# pynwb caches a pickle when it is imported first; test processes that start together would read it half-written.
os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")

import pytest

from tests.support import fork_server, no_fsync  # noqa: F401  the latter by being imported

fork_server.use()

#: What needs longest is begun first, so that no process works alone at the end: files, or what `GROUPS` calls them.
LONGEST = (
    "slurm",
    "tests/reproduce/test_experiments.py",
    "pynndescent",
)
#: Files that share what takes long to make: numba compiles pynndescent anew in every process, and SLURM is started.
GROUPS = {
    "tests/fitting/test_neighbors_large.py": "pynndescent",
    "tests/numerics/test_approximate.py": "pynndescent",
    "tests/clusters/test_slurm.py": "slurm",
    "tests/clusters/test_slurm_tutorial.py": "slurm",
}
#: Files whose tests share nothing that takes long: they go to any process, one by one.
SINGLE = {"tests/test_docs.py"}


def group_of(item: pytest.Item) -> str:
    """Tests of one group are done by one process: those of a file, which share its fixtures."""
    file, _, test = item.nodeid.partition("::")
    return f"{file}::{test}" if file in SINGLE else GROUPS.get(file, file)


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):  # one process does them in their order
        return
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(group_of(item), len(rank)))  # a stable sort
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))

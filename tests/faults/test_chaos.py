"""Runs that are killed at a random moment; `make chaos` does more of them."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults import chaos, chaos_table
from tests.faults.chaos import Outcome
from tests.faults.killing import KINDS, Kill
from tests.faults.processes import Family
from tests.support import pages, repeats

BLOCKS = {"scan": 8, "moments": 1, "near": 8}
#: In the middle of a stage each: a scheduler, a nanny, and a worker and a client both with and without processes of
#: their own for these. `make chaos` does the first hundred.
SEEDS = (2, 4, 7, 5, 16, 23)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return chaos.undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.faults
@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("seed", repeats.first(3, SEEDS))  # a scheduler, a worker, a client
def test_a_run_that_is_killed_and_resumed_is_as_if_nothing_had_happened(seed, reference, tmp_path):
    outcome = chaos.survive(Kill.of(seed, reference.blocks), reference, tmp_path)
    assert outcome.is_unharmed, chaos_table.line(outcome)


@pytest.mark.faults
@pytest.mark.slow
def test_the_seeds_tried_here_kill_whatever_there_is_with_and_without_processes_of_its_own(reference):
    tried = {(kill.kind, kill.separate) for kill in (Kill.of(seed, reference.blocks) for seed in SEEDS)}
    always = {("nanny", True), ("scheduler", True)}
    assert tried == always | {(kind, separate) for kind in ("worker", "client") for separate in (True, False)}


def test_a_seed_says_what_is_killed_and_when():
    kills = [Kill.of(seed, BLOCKS) for seed in range(40)]
    assert kills == [Kill.of(seed, BLOCKS) for seed in range(40)]
    assert {kill.kind for kill in kills[:10]} == set(KINDS)
    assert {kill.stage for kill in kills} == set(BLOCKS)
    assert all(0 <= kill.finished < BLOCKS[kill.stage] for kill in kills)
    assert {kill.separate for kill in kills if kill.kind in ("worker", "client")} == {True, False}


def test_what_a_process_has_started_is_found_when_it_is_gone_itself(tmp_path):
    family = Family(tmp_path)
    try:
        family.start("sh", "-c", "sleep 600 & exec true", log="log").wait(timeout=30)
        (left,) = family.alive()
        until = time.monotonic() + 30
        while left.cmdline()[:1] == ["sh"] and time.monotonic() < until:  # it becomes sleep in a moment
            time.sleep(0.05)
        assert left.cmdline() == ["sleep", "600"]
        assert [fault for fault in chaos._left_behind(family, set(), patience_s=0) if f"process {left.pid}" in fault]
    finally:
        family.end()
    assert family.alive() == []


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory is not in files here")
def test_memory_that_processes_share_is_found(tmp_path):
    code = (
        "import sys, time\nfrom multiprocessing import shared_memory\n"
        "made = shared_memory.SharedMemory(create=True, size=100)\n"
        "print(made.name, flush=True)\ntime.sleep(600)"
    )
    family, name = Family(tmp_path), "not made"
    try:
        family.start(sys.executable, "-c", code, log="log")
        until = time.monotonic() + 60
        while not (name := (tmp_path / "log").read_text().strip()) and time.monotonic() < until:
            time.sleep(0.05)
        assert Path("/dev/shm", name) in family.shared_memory()
    finally:
        family.end()
        Path("/dev/shm", name).unlink(missing_ok=True)  # its tracker was killed with it


UNHARMED = Outcome(Kill.of(0, BLOCKS), "near", 9, 12, recomputed=0, lost=0, difference=1e-12, seconds=3.0, faults=())


@pytest.mark.parametrize(
    "harm",
    [{"recomputed": 1}, {"lost": 1}, {"difference": 1e-7}, {"difference": float("nan")}, {"faults": ("left behind",)}],
)
def test_any_harm_counts(harm):
    assert UNHARMED.is_unharmed
    assert not replace(UNHARMED, **harm).is_unharmed


def test_a_table_is_put_into_its_place_and_adds_up(tmp_path):
    page = tmp_path / "chaos.md"
    page.write_text(f"# Title\n{chaos_table.BEGIN}\nold\n{pages.END}\nlast words\n")
    outcomes = [UNHARMED, replace(UNHARMED, kill=Kill.of(1, BLOCKS), lost=2)]
    pages.write_table(page, chaos_table.BEGIN, chaos_table.table(outcomes))
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("# Title\n")
    assert text.endswith("last words\n")
    assert "| worker | 1 | 9 | 12 | 0 | 0 | 1.0e-12 |" in text
    assert "| all | 2 | 18 | 24 | 0 | 2 | 1.0e-12 |" in text
    assert "Runs that were not as they should be: 1." in text

"""`dlcca run` on a small input, where starting and compiling are all there is; importing; and the help page."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import zarr

from benchmarks.measure import Row, Took, share, single_threaded
from dlcca import simulate

RUN = """
[store]
path = "{store}.zarr"

[views.left]
source = "left.zarr"

[views.right]
source = "right.zarr"

[landmarks]
count = 200

[neighborhoods]
kind = "knn"

[cluster]
workers = 1
"""
#: Seconds that the help page may take, and compilation.
HELP_S, COMPILING_S = 0.5, 10.0


def rows(quick: bool) -> Iterator[Row]:
    n = 2000
    imported = best_of("-c", "import dlcca") - best_of("-c", "pass")
    yield share("command", "import dlcca, less an empty Python", imported, None)
    yield share("command", "dlcca --help", best_of("-m", "dlcca", "--help"), HELP_S, "<= 1")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_inputs(folder, n)
        cache = str(folder / "numba")
        first = took(run_command(folder, "first"), NUMBA_CACHE_DIR=cache)
        second = took(run_command(folder, "second"), NUMBA_CACHE_DIR=cache)
    text = f"dlcca run on {n:,} rows, one worker"
    yield share("command", f"{text}: with nothing compiled yet", first.wall, None)
    yield share("command", f"{text}: with all compiled", second.wall, None)
    # Whatever else a run does, it does in both. Seconds of the processor: compiling is one thread's work.
    more = max(0.0, first.cpu - second.cpu)
    yield share("command", f"{text}: compilation, the first less the second", more, COMPILING_S, "<= 1", unit="CPU s")


def write_inputs(folder: Path, n: int) -> None:
    views, _truth = simulate.torus(n, random_state=0)
    for name, X in zip(("left", "right"), views, strict=True):
        array = zarr.create_array(str(folder / f"{name}.zarr"), shape=X.shape, chunks=(500, 3), dtype=X.dtype)
        array[:] = X


def run_command(folder: Path, name: str) -> list[str]:
    (folder / f"{name}.toml").write_text(RUN.format(store=name))
    return [sys.executable, "-m", "dlcca", "run", str(folder / f"{name}.toml"), "--quiet"]


def took(command: list[str], **environment: str) -> Took:
    """Seconds of a command and of all processes that it starts."""
    wall, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, capture_output=True, env={**single_threaded(), **environment})
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(time.perf_counter() - wall, cpu)


def best_of(*command: str) -> float:
    return min(took([sys.executable, *command]).wall for _ in range(3))

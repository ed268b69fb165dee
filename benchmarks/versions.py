"""Two versions of the package side by side, in turn, so that both meet the same load: seconds of common uses.

PYTHONPATH=. python benchmarks/versions.py OTHER_CHECKOUT [--rows N] [--repeats R]

The other checkout is a worktree of an earlier commit; both run with this Python and its packages.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.command import took
from benchmarks.large import write_views
from benchmarks.measure import Row, share, table

#: A use may take this many times what it takes in the other version.
MOST = 1.2
#: Uses that end quickly are repeated this many times as often as asked.
OFTEN = 4

FIT = """
import time, warnings
warnings.simplefilter("ignore")
from dlcca import LocalCCA, simulate
views, _truth = simulate.pendulums(random_state=0)
LocalCCA().fit(views)
began = time.perf_counter()
for seed in range(10):
    LocalCCA(random_state=seed).fit(views)
print((time.perf_counter() - began) / 10)
"""
TUNE = """
import time, warnings
warnings.simplefilter("ignore")
import dlcca
views, _truth = dlcca.simulate.torus(n=1000, random_state=0)
began = time.perf_counter()
dlcca.tune(views, start={"neighborhoods": "knn", "n_neighbors": 10, "fusion": "view"})
print(time.perf_counter() - began)
"""
RUN = """
[store]
path = "run.zarr"
[views.left]
source = "view0.zarr"
[views.right]
source = "view1.zarr"
[neighborhoods]
kind = "knn"
[spectrum]
n_components = 5
[cluster]
workers = 2
"""


def rows(other: Path, n: int, repeats: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_views(folder, n)
        (folder / "run.toml").write_text(RUN)
        uses: list[tuple[str, int, Callable[[Path], float]]] = [
            ("import dlcca", repeats * OFTEN, lambda at: seconds(at, folder, "-c", "import dlcca")),
            ("dlcca --help", repeats * OFTEN, lambda at: seconds(at, folder, "-m", "dlcca", "--help")),
            ("a fit of 400 frames", repeats, lambda at: printed(at, folder, FIT)),
            ("tune, torus of 1000 rows", repeats, lambda at: printed(at, folder, TUNE)),
            (f"dlcca run, {n:,} rows x 2 x 64 channels", repeats, lambda at: whole_run(at, folder)),
        ]
        return [row(what, other, times, use) for what, times, use in uses]


def row(what: str, other: Path, times: int, use: Callable[[Path], float]) -> Row:
    """The medians of both versions, run in turn; a first turn, which may compile, does not count."""
    here = Path(__file__).parents[1]
    both = [(use(here), use(other)) for _ in range(times + 1)][1:]
    ours, theirs = (statistics.median(of) for of in zip(*both, strict=True))
    print(f"{what}: {both}", file=sys.stderr, flush=True)
    return share("versions", what, ours, theirs, f"<= {MOST}")


def seconds(checkout: Path, folder: Path, *arguments: str) -> float:
    return took([sys.executable, *arguments], PYTHONPATH=str(checkout), PYTHONSAFEPATH="1", PWD=str(folder)).wall


def printed(checkout: Path, folder: Path, code: str) -> float:
    """What a program prints: the seconds of its inner part."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, cwd=folder, check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def whole_run(checkout: Path, folder: Path) -> float:
    shutil.rmtree(folder / "run.zarr", ignore_errors=True)
    return seconds(checkout, folder, "-m", "dlcca", "run", str(folder / "run.toml"), "--quiet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    found = rows(asked.other.resolve(), asked.rows, asked.repeats)
    print(table(found))
    return int(any(row.holds is False for row in found))


if __name__ == "__main__":
    sys.exit(main())

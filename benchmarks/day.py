"""A day of 64 + 8 channels at 256 Hz, from the file to an embedding, and the next day through the same model.

PYTHONPATH=. python benchmarks/day.py [--hours 24] [--folder DIR]

Two recordings are written in Zarr, a minute at a time; then `dlcca ingest`, `dlcca run` and `dlcca transform` do their
work in processes of their own, two workers, with band powers of every second. It takes the time by the clock, and the
memory of all their processes together.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zarr

from benchmarks.measure import GIB, PeakMemory, Row, share, single_threaded, table

RATE, LEFT, RIGHT = 256, 64, 8
MEMORY_GIB, WORKERS = 4, 2
RUN = """
[store]
path = "run.zarr"

[views.left]
source = "first.zarr"
channels = ["left*"]
features = "bandpower"
window_s = 1.0

[views.right]
source = "first.zarr"
channels = ["right*"]
features = "bandpower"

[neighborhoods]
kind = "time"
window = 32

[cluster]
workers = 2
"""


def rows(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from measured(Path(folder), 0.1 if quick else 24.0)


def measured(folder: Path, hours: float) -> Iterator[Row]:
    """Minutes of each step, and the peak memory of all."""
    text = f"{hours:g} h of {LEFT} + {RIGHT} channels at {RATE} Hz, {WORKERS} workers"
    for seed, name in enumerate(("first", "second")):
        write(folder / f"{name}.zarr", round(hours * 3600), seed)
    (folder / "run.toml").write_text(RUN)
    steps = {
        "ingested": ["ingest", "run.toml", "--workers", str(WORKERS)],
        "fitted": ["run", "run.toml"],
        "another day transformed": [
            "transform",
            "run.zarr",
            "second.zarr",
            "--out",
            "new.zarr",
            "--workers",
            str(WORKERS),
        ],
    }
    peak = 0
    for step, arguments in steps.items():
        with PeakMemory() as memory:
            seconds = command(folder, arguments)
        peak = max(peak, memory.children)
        yield share("day", f"{text}: {step}", seconds / 60, None, unit="min")
    yield share("day", f"{text}: memory of all processes", peak / GIB, MEMORY_GIB, "<= 1", unit="GiB")


def command(folder: Path, arguments: list[str]) -> float:
    """Seconds of a verb of the command line; 5 is also an answer: the benchmark is not about what was found."""
    began = time.perf_counter()
    # The folder is not that of the project: a relative path in PYTHONPATH would not be found from it.
    environment = {**single_threaded(), "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    done = subprocess.run(
        [sys.executable, "-m", "dlcca", *arguments, "--quiet"], cwd=folder, env=environment, check=False
    )
    if done.returncode not in (0, 5):
        raise RuntimeError(f"dlcca {' '.join(arguments)} ended with {done.returncode}")
    return time.perf_counter() - began


def write(place: Path, seconds: int, seed: int) -> None:
    """Rhythms whose strength follows something common to both sides and something of each side's own, and noise."""
    rng, c = np.random.default_rng(seed), LEFT + RIGHT
    mixing = np.random.default_rng(99)  # the same sensors on both days
    hz, phase = mixing.uniform(2, 60, c), mixing.uniform(0, 2 * np.pi, c)
    weights = mixing.standard_normal((3, c)) * np.where(np.arange(c) < LEFT, [[1], [1], [0]], [[1], [0], [1]])
    names = [f"left{i}" for i in range(LEFT)] + [f"right{i}" for i in range(RIGHT)]
    group = zarr.create_group(str(place), attributes={"rate": float(RATE), "names": names})
    array = group.create_array("samples", shape=(seconds * RATE, c), chunks=(60 * RATE, c), dtype="int16")
    for second in range(0, seconds, 60):
        n = min(60, seconds - second) * RATE
        t = (second * RATE + np.arange(n))[:, None] / RATE
        slow = np.sin(2 * np.pi * t / [[47.0, 31.0, 71.0]] + seed)
        strength = np.exp(0.5 * slow @ weights)
        X = 300 * strength * np.sin(2 * np.pi * hz * t + phase) + 30 * rng.standard_normal((n, c))
        array[second * RATE : second * RATE + n] = X.clip(-32768, 32767).astype(np.int16)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--folder", type=Path, help="where to work, and to leave all; else a scratch folder")
    asked = parser.parse_args()
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
        made = list(measured(asked.folder, asked.hours))
    else:
        with tempfile.TemporaryDirectory() as folder:
            made = list(measured(Path(folder), asked.hours))
    print(table(made))
    return int(any(row.holds is False for row in made))


if __name__ == "__main__":
    sys.exit(main())

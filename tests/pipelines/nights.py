"""Nights of a small laboratory: two sensors, one thing that both see, and all that goes wrong with files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FIRST = datetime(2021, 1, 1, 22, tzinfo=UTC)
RATE, SECONDS = 64, 40

PIPELINE = """
[pipeline]
name = "laboratory"

[sources]
files = "incoming/*.edf"
settle_s = 0
{sources}

[views.left]
channels = ["L1", "L2", "L3"]
window_s = 0.0625
step_s = 0.0625
features = "raw"

[views.right]
channels = ["R1", "R2", "R3"]

[landmarks]
count = 120

[neighborhoods]
kind = "knn"
n_neighbors = 48

[cluster]
workers = 1
{more}
"""


def pipeline_file(folder: Path, more: str = "", sources: str = "") -> Path:
    """A pipeline in a folder, with a place where files arrive."""
    (folder / "incoming").mkdir(parents=True, exist_ok=True)
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE.format(more=more, sources=sources))
    return file


def sensors(night: int, part: int = 0, *, changed: bool = False, seconds: int = SECONDS) -> tuple[NDArray, NDArray]:
    """Samples (n, 6) of one recording, and what both sensors see, (n,).

    Each sensor sees z along with something of its own. When the system has changed, the second sensor sits elsewhere:
    what it sees of z is the same, what it sees besides is not.
    """
    rng = np.random.default_rng([night, part])
    n = seconds * RATE
    t = np.arange(n) / RATE
    z = np.sin(2 * np.pi * (t / 3.1 + 0.1 * np.sin(2 * np.pi * t / 7 + rng.uniform(0, 6)) + rng.uniform()))
    own = [np.sin(2 * np.pi * (t / period + rng.uniform())) for period in (1.9, 2.3)]
    shift = 6.0 if changed else 0.0
    left = np.stack([z + 0.2 * own[0], 0.5 * z**2 + 0.6 * own[0], own[0]], axis=1)
    right = np.stack([z - 0.2 * own[1], np.tanh(z) + 0.4 * own[1], own[1] + shift], axis=1)
    X = np.concatenate([left, right], axis=1)
    return X + 0.02 * rng.standard_normal(X.shape), z


def start_of(night: int, part: int = 0) -> datetime:
    return FIRST + timedelta(days=night - 1, minutes=10 * part)


def write(path: Path, X: NDArray, start: datetime) -> Path:
    """Samples as an EDF file."""
    import edfio

    names = ["L1", "L2", "L3", "R1", "R2", "R3"]
    signals = [
        edfio.EdfSignal(X[:, i], RATE, label=name, physical_dimension="uV", physical_range=(-20, 20))
        for i, name in enumerate(names)
    ]
    made = edfio.Edf(
        signals, recording=edfio.Recording(startdate=start.date()), starttime=start.time().replace(tzinfo=None)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    made.write(path)
    return path


def recorded(folder: Path, night: int, part: int = 0, name: str = "", **options) -> Path:
    """A good recording of a night, where files arrive."""
    name = name or f"night-{night:02d}-{part}.edf"
    return write(folder / "incoming" / name, sensors(night, part, **options)[0], start_of(night, part))


def morning_after(night: int) -> datetime:
    """What the clock of the machine says when a night is worked off: days after now, as files are written now."""
    return datetime.now(UTC) + timedelta(days=night)


def run_night(file: Path, night: int):
    """The pipeline on the morning after a night."""
    from dlcca.pipelines import nightly_run as nights

    return nights.run(file, clock=lambda: morning_after(night))


def day_of(night: int) -> str:
    return start_of(night).date().isoformat()

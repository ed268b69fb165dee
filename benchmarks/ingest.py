"""Ingestion against the bare reader: seconds of the processor for the same samples, in one process and one thread.

The bare reader reads every sample as a value in the unit of its channel, and does nothing with it: in the blocks of
ingestion, and in blocks of half a size, whichever takes it less. It is measured in turn with ingestion, as often, when
all files are in the memory of the system.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, Took, timed, times_faster
from dlcca.recordings import ingest
from dlcca.recordings.ingest_job import IngestJob
from dlcca.settings.recipe import ViewRecipe

RATE, LEFT, RIGHT = 256, 64, 8
#: What a view is made of: features, window and step in seconds, and the share of the bare reader's speed it must have.
CASES: dict[str, tuple[str, float, float, str]] = {
    "raw windows": ("raw", 1.0, 1.0, ">= 0.5"),
    "band power": ("bandpower", 1.0, 1.0, ">= 0.5"),
    "raw windows, half of each overlapping": ("raw", 1.0, 0.5, ""),
    "band power, half of each overlapping": ("bandpower", 1.0, 0.5, ""),
    "spectrogram": ("spectrogram", 1.0, 1.0, ""),
    "covariance": ("covariance", 1.0, 1.0, ""),
}


def rows(quick: bool) -> Iterator[Row]:
    seconds = 300 if quick else 3600
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for kind, write in WRITERS.items():
            file = write(folder, seconds)
            for name, (features, window_s, step_s, needed) in CASES.items():
                if features == "covariance" and kind != "Zarr int16":
                    continue  # what it takes does not depend on the reader
                job = job_of(folder, file, features, window_s, step_s)
                bare, ours = both(job, file, features, window_s, step_s)
                text = f"{seconds / 60:.0f} min of {LEFT} + {RIGHT} channels at {RATE} Hz, {kind}: {name}"
                yield times_faster("ingest", text, ours.cpu, bare.cpu, needed)
            remove(file)


def recording(first: int, n: int) -> np.ndarray:
    """Samples (n, channels) of some noisy rhythms, int16; the same wherever parts begin."""
    rng = np.random.default_rng(first)
    t = np.arange(first, first + n)[:, None] / RATE
    hz = np.linspace(1, 40, LEFT + RIGHT)
    return (300 * np.sin(2 * np.pi * hz * t) + 100 * rng.standard_normal((n, LEFT + RIGHT))).astype(np.int16)


def parts(seconds: int) -> Iterator[tuple[int, np.ndarray]]:
    for second in range(0, seconds, 60):
        first = second * RATE
        yield first, recording(first, min(60, seconds - second) * RATE)


def write_zarr(folder: Path, seconds: int, dtype: str) -> str:
    """As Zarr writes by default, compressed, a minute in each chunk."""
    import zarr

    c, place = LEFT + RIGHT, folder / f"{dtype}.zarr"
    names = [f"{'a' if i < LEFT else 'b'}{i}" for i in range(c)]
    group = zarr.create_group(str(place), attributes={"rate": float(RATE), "names": names}, overwrite=True)
    array = group.create_array("samples", shape=(seconds * RATE, c), chunks=(60 * RATE, c), dtype=dtype)
    for first, X in parts(seconds):
        array[first : first + len(X)] = X
    return str(place)


def write_edf(folder: Path, seconds: int) -> str:
    """16 bits in records of a second, a tenth of a microvolt each."""
    import edfio

    place = folder / "recording.edf"
    X = np.concatenate([part for _, part in parts(seconds)])
    said: dict[str, Any] = {"physical_dimension": "uV", "digital_range": (-32768, 32767)}
    signals = [
        edfio.EdfSignal.from_digital(
            np.ascontiguousarray(x),
            RATE,
            label=f"{'a' if i < LEFT else 'b'}{i}",
            physical_range=(-3276.8, 3276.7),
            **said,
        )
        for i, x in enumerate(X.T)
    ]
    edfio.Edf(signals, data_record_duration=1).write(place)
    return str(place)


WRITERS: dict[str, Any] = {
    "EDF": write_edf,
    "Zarr int16": lambda folder, seconds: write_zarr(folder, seconds, "int16"),
    "Zarr float32": lambda folder, seconds: write_zarr(folder, seconds, "float32"),
}


def remove(file: str) -> None:
    shutil.rmtree(file) if Path(file).is_dir() else Path(file).unlink()


def recipes(file: str, features: str, window_s: float, step_s: float) -> dict[str, ViewRecipe]:
    said = {"source": [file], "features": features, "window_s": window_s, "step_s": step_s}
    return {name: ViewRecipe.of({**said, "channels": [f"{name}*"]}, name) for name in ("a", "b")}


def job_of(folder: Path, file: str, features: str, window_s: float, step_s: float) -> IngestJob:
    return ingest.prepared(str(folder / "views.zarr"), recipes(file, features, window_s, step_s))[0]


def read_only(job: IngestJob, share: float = 1.0) -> None:
    """Every sample once, in the blocks of a job or a share of them, both views together, as the reader gives them."""
    (track, _) = (view.tracks[0] for view in job.views)
    piece = track.pieces[0]
    signal = piece.file.recording.signals[piece.signal]
    columns = [column for view in job.views for column in view.tracks[0].pieces[0].columns]
    size = round(share * job.rows * job.step_s * track.rate)
    for first in range(0, piece.n, size):
        signal.read(first, min(piece.n, first + size), columns)


def both(job: IngestJob, file: str, *said: Any) -> tuple[Took, Took]:
    """The best of three of the bare reader, and of ingestion; of the latter all counts, from headers to the header."""
    read_only(job)  # the first one finds the files on the disk
    bare, ours = [], []
    for _ in range(3):
        bare += [timed(read_only, job, share) for share in (1.0, 0.5)]
        shutil.rmtree(job.address, ignore_errors=True)
        ours.append(timed(lambda: ingest.run(*ingest.prepared(job.address, recipes(file, *said)))))
    shutil.rmtree(job.address, ignore_errors=True)
    return min(bare, key=lambda t: t.cpu), min(ours, key=lambda t: t.cpu)

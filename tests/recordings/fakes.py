"""Recordings in small .npz files with a reader of their own, for the tests of what comes after the readers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import zarr

from dlcca.fitting.job import Source
from dlcca.recordings import ingest
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Signal
from dlcca.recordings.power import squares
from dlcca.settings.recipe import ViewRecipe


class ArraySignal(Signal):
    """Samples that are in memory."""

    def __init__(self, X, names, rate, start_s=0.0, drift_ppm=0.0, kinds=None) -> None:
        self.X = np.asarray(X, dtype=float).reshape(len(X), -1)
        kinds = kinds or [""] * len(names)
        self.channels = tuple(Channel(name, "uV", kind) for name, kind in zip(names, kinds, strict=True))
        self.rate, self.n, self.start_s, self.drift_ppm = rate, len(self.X), start_s, drift_ppm

    def read(self, first: int, last: int, columns: Sequence[int]) -> np.ndarray:
        assert 0 <= first <= last <= self.n
        return self.X[first:last, list(columns)]


def write(path: Path, *signals: ArraySignal, start: datetime | None = None, marks: Sequence[Annotation] = ()) -> str:
    """A file that `open_fake` opens."""
    held: dict = {"start": "" if start is None else start.isoformat(), "signals": len(signals)}
    held["marks"] = np.array([(m.onset_s, m.duration_s) for m in marks]).reshape(-1, 2)
    held["texts"] = np.array([m.text for m in marks], dtype="U40")
    for i, signal in enumerate(signals):
        held[f"X{i}"] = signal.X
        held[f"names{i}"] = np.array(signal.names, dtype="U40")
        held[f"kinds{i}"] = np.array([channel.kind for channel in signal.channels], dtype="U40")
        held[f"facts{i}"] = np.array([signal.rate, signal.start_s, signal.drift_ppm])
    with open(path, "wb") as file:
        np.savez(file, **held)
    return str(path)


def open_fake(path: str) -> Recording:
    with np.load(path) as held:
        start = str(held["start"])
        signals = []
        for i in range(int(held["signals"])):
            rate, start_s, drift = (float(x) for x in held[f"facts{i}"])
            names, kinds = (held[f"{what}{i}"].tolist() for what in ("names", "kinds"))
            signals.append(ArraySignal(held[f"X{i}"], names, rate, start_s, drift, kinds))
        marks = tuple(
            Annotation(float(on), float(lasts), str(text))
            for (on, lasts), text in zip(held["marks"], held["texts"], strict=True)
        )
    return Recording(path, "fake", tuple(signals), datetime.fromisoformat(start) if start else None, marks)


def power(X: np.ndarray, rate: float) -> np.ndarray:
    """The power spectral density of windows (w, s, c), (w, s // 2 + 1, c)."""
    return np.concatenate([Z.sum(axis=0).swapaxes(0, 1) for _, Z in squares(X, rate, 0, X.shape[1] // 2 + 1)])


def noise(n: int, channels: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, channels))


def recipe(*files: str, **values) -> ViewRecipe:
    return ViewRecipe.of({"source": list(files), **values}, "[views.x]")


class Content:
    """The arrays of a store by name; views as they are read, of valid windows and scaled."""

    def __init__(self, place: str) -> None:
        self.place, self.group = place, zarr.open_group(place, mode="r")

    def __getitem__(self, name: str):
        return Source(name, f"{self.place}/{name}").open() if name.startswith("views/") else self.group[name]


def ingested(place, client=None, on_progress=None, block=None, **recipes):
    """The header and the content of the store, made in blocks of so many windows."""
    job, line = ingest.prepared(str(place), recipes, open_fake)
    job = job if block is None else replace(job, rows=block)
    header = ingest.run(job, line, client, on_progress)
    return header, Content(str(place))

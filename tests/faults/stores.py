"""A small finished run that has everything a run may have, for tests that damage it."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from dlcca.engine import row_blocks
from dlcca.fitting import runner
from dlcca.recordings import ingest
from dlcca.settings.fit import Settings
from dlcca.storage import comparison, event_log, lock
from dlcca.storage import run as run_store
from dlcca.storage.lock import Process, surroundings
from dlcca.storage.manifest import sealed
from tests.recordings.fakes import ArraySignal, open_fake, recipe, write

OPTIONS = {"neighborhoods": "knn", "landmarks": 30, "n_neighbors": 15, "n_links": 8, "n_components": 2}


@dataclass(frozen=True)
class Finished:
    """A run of two recordings, one of which has a gap, in blocks of few rows."""

    store: Path
    recipes: dict

    def ingestion(self):
        """What ingesting it again would be."""
        job, line = ingest.prepared(f"{self.store}/recordings", self.recipes, open_fake)
        return replace(job, rows=100), line

    def job(self):
        """The job of the run, and its choices."""
        views = {name: f"{self.store}/recordings/views/{name}" for name in self.recipes}
        with patch.multiple(row_blocks, MOST_ROWS=60, LEAST_ROWS=60):
            settings = Settings.from_options(**OPTIONS)
            return runner.prepared(str(self.store), views, settings, 0, f"{self.store}/recordings")

    def run(self):
        """All of it, or what is missing."""
        with lock.held(str(self.store), "a test"), event_log.recording(str(self.store), "a test") as log:
            job, line = self.ingestion()
            ingest.run(job, line)
            runner.run(*self.job())
            return log


def samples(n=900, seed=0):
    """Two views of a common movement."""
    t, rng = np.arange(n) / 50, np.random.default_rng(seed)
    common = np.sin(2 * np.pi * 0.31 * t)
    X = np.stack([common, np.cos(t), common**2], axis=1) + 0.02 * rng.standard_normal((n, 3))
    Y = np.stack([common**3, np.sin(1.7 * t)], axis=1) + 0.02 * rng.standard_normal((n, 2))
    return X, Y


def finished(folder: Path) -> Finished:
    """The run, with a comparison, Dask's report, and the lock of a run that was killed."""
    X, Y = samples()
    X[500:520] = np.nan
    left = write(folder / "left.npz", ArraySignal(X, list("abc"), 50.0))
    right = write(folder / "right.npz", ArraySignal(Y, list("de"), 50.0))
    covariance = recipe(right, window_s=0.1, features="covariance")
    made = Finished(folder / "run.zarr", {"left": recipe(left, window_s=0.1), "right": covariance})
    log = made.run()
    log.keep_report(b"<html>a report of Dask</html>")
    log._write()
    store = str(made.store)
    found = run_store.read(store)
    rows = np.flatnonzero(~np.isnan(found.embedding[:, 0]))[:40]
    table = [{"method": "ours", "score": 0.5}]
    comparison.write(store, comparison.Comparison(found.fingerprint, rows, table, [found.embedding[rows]]))
    leave_lock(made.store)
    return made


def leave_lock(store: Path, number: int = 0) -> None:
    """The lock of a process that is no more."""
    dead = Process(*surroundings(), os.getpid(), "of another process that had this pid")
    content = {**vars(dead), "doing": "dlcca run", "since": "2026-01-01T00:00:00+00:00", "token": "t"}
    place = store / lock.name_of(number)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(sealed(content))


def files_of(store: Path) -> list[Path]:
    return sorted(file for file in store.rglob("*") if file.is_file())

"""Recordings of any length for the benchmarks, and what a run of them takes."""

import threading
import time
from pathlib import Path

import numpy as np
import psutil
import zarr

from dlcca.choices import choose
from dlcca.settings import Settings
from dlcca.stages.job import Source, make_job


def write_views(folder: Path, n: int, channels: int = 64, seed: int = 0) -> tuple[Source, ...]:
    """Two views of a common angle and an angle of their own each, mixed into many channels; float32, 8 MiB chunks."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((2, 6, channels))
    sources = []
    arrays = []
    for v in range(2):
        path = folder / f"view{v}.zarr"
        rows = (8 << 20) // (4 * channels)
        arrays.append(
            zarr.create_array(str(path), shape=(n, channels), chunks=(rows, channels), dtype="float32", overwrite=True)
        )
        sources.append(Source(f"view{v}", str(path)))
    for first in range(0, n, 65_536):
        b = min(65_536, n - first)
        z, *private = rng.uniform(0, 2 * np.pi, (3, b))
        for v, e in enumerate(private):
            hidden = np.column_stack([np.cos(z), np.sin(z), 2 * np.cos(e), 2 * np.sin(e), np.cos(z + e), np.sin(z - e)])
            X = hidden @ mixing[v] + 0.05 * rng.standard_normal((b, channels))
            arrays[v][first : first + b] = X.astype(np.float32)
    return tuple(sources)


def job_for(folder: Path, sources: tuple[Source, ...], **options):
    """A job with nearest neighbours, alternating fusion and 5 coordinates."""
    asked = {"neighborhoods": "knn", "n_components": 5, "landmarks": 2000, **options}
    n = sources[0].open().shape[0]
    settings = choose(Settings.from_options(**asked), n, len(sources)).settings
    return make_job(str(folder / "run.zarr"), sources, settings, seed=0)


class PeakMemory:
    """The largest memory (bytes, resident and not shared twice) of this process and its children, while it is open."""

    def __enter__(self):
        self.peak, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        me = psutil.Process()
        while not self._stop.wait(0.2):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, total)

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def gemm_seconds(job, client) -> tuple[float, float]:
    """Wall time of the bare matrix products on the same workers: of those that are done, and as usually counted.

    Usually neighbours of landmarks and links of samples take a product each; here both are read off one.
    """
    m, s, r = int(job.options["landmarks"]), int(job.options["n_links"]), int(job.options["rank"])
    near, linked = 2 * m * sum(job.dims), 2 * s * r * sum(job.dims)
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    futures = [client.submit(_rate, 64, m, pure=False, workers=[w]) for w in workers]
    rate = sum(client.gather(futures))
    return job.n * (near + linked) / rate, job.n * (2 * near + linked) / rate


def _rate(d, m):
    """Operations per second of a float32 product of a tile with the landmarks."""
    X, P = np.ones((2048, d), np.float32), np.ones((d, m), np.float32)
    out = np.empty((2048, m), np.float32)
    np.matmul(X, P, out=out)
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        np.matmul(X, P, out=out)
        best = min(best, time.perf_counter() - start)
    return 2 * 2048 * d * m / best

"""Recordings of any length for the benchmarks, jobs on them, and the bare products that such a job needs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.measure import PeakMemory
from dlcca.fitting import metric
from dlcca.fitting.job import Job, Source, make_job
from dlcca.settings.auto import choose
from dlcca.settings.fit import Settings

__all__ = ["PeakMemory", "Products", "job_for", "product_rate", "products", "write_views"]


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


def job_for(folder: Path, sources: tuple[Source, ...], *, store: str = "run.zarr", **options: Any) -> Job:
    """A job with nearest neighbours, alternating fusion and 5 coordinates."""
    asked = {"neighborhoods": "knn", "n_components": 5, "landmarks": 2000, **options}
    n = sources[0].open().shape[0]
    settings = choose(Settings.from_options(**asked), n, len(sources)).settings
    return make_job(str(folder / store), sources, settings, seed=0)


@dataclass(frozen=True)
class Products:
    """Operations in the products that the algebra of a job with sparse, alternating kernels needs."""

    links: float  # 2 n L d_v for each view: samples against landmarks
    linked: float  # 2 n s r d_v for each view: distances under the metrics of the linked landmarks

    @property
    def done(self) -> float:
        return self.links + self.linked


def products(job: Job) -> Products:
    m, s = int(job.options["landmarks"]), int(job.options["n_links"])
    near = 2.0 * job.n * m * sum(job.dims)
    return Products(near, 2.0 * job.n * s * metric.rank(job) * sum(job.dims))


def product_rate(job: Job, client: Any) -> float:
    """Operations per second of a float32 product of samples with the landmarks, all workers at it together."""
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    shape = (job.dims[0], int(job.options["landmarks"]))
    return sum(client.gather([client.submit(gemm_rate, *shape, pure=False, workers=[w]) for w in workers]))


def gemm_rate(d: int, m: int, rows: int = 2048, repeats: int = 20) -> float:
    """Operations per second of a float32 product of a tile (rows, d) with (d, m), at its best."""
    X, P = np.ones((rows, d), np.float32), np.ones((d, m), np.float32)
    out = np.empty((rows, m), np.float32)
    np.matmul(X, P, out=out)
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        np.matmul(X, P, out=out)
        best = min(best, time.perf_counter() - start)
    return 2 * rows * d * m / best

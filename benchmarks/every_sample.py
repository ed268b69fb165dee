"""Every sample a landmark: a torus of 200 000 samples from Zarr to Zarr; seconds, memory and quality."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zarr

from benchmarks.measure import GIB, PeakMemory, Row, share
from dlcca import simulate
from dlcca.clusters.local import local_client
from dlcca.fitting import pipeline
from dlcca.fitting.job import Source, make_job
from dlcca.settings.auto import choose
from dlcca.settings.fit import Settings
from tests.support.scores import recovery


def measure(n: int, workers: int = 2) -> dict[str, float]:
    views, truth = simulate.torus(n=n, random_state=0)
    with tempfile.TemporaryDirectory() as scratch:
        sources = []
        for v, X in enumerate(views):
            path = Path(scratch) / f"view{v}.zarr"
            zarr.save_array(str(path), np.asarray(X, np.float32))
            sources.append(Source(f"view{v}", str(path)))
        asked = Settings.from_options(neighborhoods="knn", landmarks="all", kernel="sparse", n_components=2)
        choices = choose(asked, n, len(sources), [X.shape[1] for X in views])
        job = make_job(str(Path(scratch) / "run.zarr"), tuple(sources), choices.settings, seed=0)
        with PeakMemory() as memory, local_client(workers=workers) as client:
            start = time.perf_counter()
            pipeline.run(job, client)
            seconds = time.perf_counter() - start
        some = np.random.default_rng(0).permutation(n)[:5000]
        E = zarr.open_array(str(Path(scratch) / "run.zarr" / "embedding"))[:][some]
    score = recovery(E, truth.z[some])
    return {"seconds": seconds, "bytes": memory.peak, "score": score}


def rows(quick: bool) -> Iterator[Row]:
    n = 10_000 if quick else 200_000
    found = measure(n)
    yield share("every sample", f"{n:,} rows, all of them landmarks", found["seconds"], None, unit="s")
    yield share("every sample", "memory of all processes, of 4 GiB", found["bytes"], 4 * GIB, "<= 1", unit="bytes")
    yield share("every sample", "R2 of the common variable", found["score"], 1, ">= 0.99", unit="")

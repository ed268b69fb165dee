"""Zarr to Zarr through all stages: against bare products, against ten times fewer rows, without Dask, on one worker."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.command import took
from benchmarks.large import Products, gemm_rate, job_for, product_rate, products, write_views
from benchmarks.measure import GIB, PeakMemory, Row, share, times_faster
from dlcca.clusters.local import local_client
from dlcca.fitting import neighbors, pipeline
from dlcca.fitting.job import Job, Source

#: Rows of the shorter and of the longer recording, and of one that only wakes the workers up.
SIZES, QUICK_SIZES, WARMING = (100_000, 1_000_000), (5000, 20_000), 2048
#: Memory that all processes together may take.
MEMORY_BYTES = 2 * GIB
#: Times that the command is run; the quickest counts.
RUNS = 2
RUN = """
[store]
path = "command.zarr"
[views.left]
source = "view0.zarr"
[views.right]
source = "view1.zarr"
[neighborhoods]
kind = "knn"
[landmarks]
count = 2000
[spectrum]
n_components = 5
[cluster]
workers = 2
"""
#: Stages that search the neighbours of landmarks.
SEARCH = (neighbors.INDEX_QUERIES.name, neighbors.MERGED.name, neighbors.NEIGHBORHOODS.name, neighbors.RECALL.name)


@dataclass(frozen=True)
class Measured:
    """One run of all stages."""

    n: int
    seconds: float
    stages: dict[str, float]
    rate: float  # operations per second of bare products, on all workers together
    needs: Products
    peak: int  # bytes of all processes
    workers_peak: int  # bytes of the workers


def rows(quick: bool) -> Iterator[Row]:
    """All claims on the pipeline."""
    small, large = QUICK_SIZES if quick else SIZES
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        warming = write_views(_made(folder / "warming"), WARMING)
        views = {n: write_views(_made(folder / str(n)), n) for n in (small, large)}
        shorter = run_with_workers(folder, views[small], warming, workers=2)
        longer = run_with_workers(folder, views[large], warming, workers=2)
        yield from stage_rows(shorter)
        yield from stage_rows(longer)
        yield from product_rows(shorter)
        yield from product_rows(longer)
        yield from command_rows(folder, views[small][0], longer)
        yield from memory_rows(longer)
        yield from growth_rows(shorter, longer)
        yield from search_rows(shorter, longer)
        yield from coordinates_rows(folder, views[large], warming)
        alone = run_with_workers(folder, views[large], warming, workers=1)
        what = f"{large:,} rows: two workers of one thread, against one"
        yield times_faster("workers", what, longer.seconds, alone.seconds, ">= 1.8", unit="s")
        plain = run_in_a_loop(folder, views[large], warming)
        yield from dask_rows(plain, alone)


def run_with_workers(
    folder: Path, views: tuple[Source, ...], warming: tuple[Source, ...], *, workers: int, **options: Any
) -> Measured:
    """All stages on a cluster of its own, whose workers are warm."""
    with PeakMemory() as memory, local_client(workers=workers) as client:
        warm(client, folder, warming)
        with _job(folder, views, **options) as job:
            before = product_rate(job, client)
            seconds, stages = run_stages(job, client)
            # Taken before and after: on a shared machine the rate is not what it was.
            rate = (before + product_rate(job, client)) / 2
            return Measured(job.n, seconds, stages, rate, products(job), memory.peak, memory.children)


def warm(client: Any, folder: Path, warming: tuple[Source, ...]) -> None:
    """Let every worker do all stages once, alone, so that it has imported and compiled what they need."""
    for number, worker in enumerate(client.scheduler_info(n_workers=-1)["workers"]):
        with _job(folder, warming, store=f"warming{number}.zarr") as job:
            client.submit(pipeline.run, job, pure=False, workers=[worker]).result()


def run_in_a_loop(folder: Path, views: tuple[Source, ...], warming: tuple[Source, ...]) -> Measured:
    """The same stages one block after another in this process, with one thread of arithmetic."""
    with threadpool_limits(limits=1), PeakMemory() as memory:
        with _job(folder, warming) as job:
            pipeline.run(job)
        with _job(folder, views) as job:
            seconds, stages = run_stages(job, None)
            rate = gemm_rate(job.dims[0], int(job.options["landmarks"]))
            return Measured(job.n, seconds, stages, rate, products(job), memory.peak, memory.children)


def run_stages(job: Job, client: Any) -> tuple[float, dict[str, float]]:
    """Seconds of the whole, and of each stage."""
    start, stages = time.perf_counter(), {}
    for stage in pipeline.STAGES:
        began = time.perf_counter()
        stage.run(job, client)
        stages[stage.name] = time.perf_counter() - began
    return time.perf_counter() - start, stages


@contextmanager
def _job(folder: Path, views: tuple[Source, ...], store: str = "run.zarr", **options: Any) -> Iterator[Job]:
    """A job whose store is gone afterwards."""
    job = job_for(folder, views, store=store, landmarks=min(2000, views[0].open().shape[0] // 8), **options)
    try:
        yield job
    finally:
        shutil.rmtree(job.address, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def stage_rows(run: Measured) -> Iterator[Row]:
    """Seconds of each stage, beside those of its own products."""
    own = {"near": run.needs.links, "kernel": run.needs.linked}
    for name, seconds in run.stages.items():
        against = own[name] / run.rate if name in own else None
        yield share(
            "stages", f"{run.n:,} rows, {name}" + (": against its products" if against else ""), seconds, against
        )


def product_rows(run: Measured) -> Iterator[Row]:
    text = f"{run.n:,} rows, 2 workers: all stages against bare products"
    yield share("products", text, run.seconds, run.needs.done / run.rate)


def command_rows(folder: Path, small: Source, large: Measured) -> Iterator[Row]:
    """`dlcca run` from its start to its end: against the bare products of its rows, and against ten times fewer."""
    places = {small.open().shape[0]: Path(small.address).parent, large.n: folder / str(large.n)}
    shorter, longer = (min(whole_run(at) for _ in range(RUNS)) for at in places.values())
    text = f"dlcca run, {large.n:,} rows, 2 workers"
    yield share("run", f"{text}: against bare products", longer, large.needs.done / large.rate, "<= 5")
    yield share("run", f"{min(places):,} rows against {text}", shorter, longer, "<= 0.25")


def whole_run(folder: Path) -> float:
    """Seconds of the command, with the settings of the other rows."""
    shutil.rmtree(folder / "command.zarr", ignore_errors=True)
    (folder / "run.toml").write_text(RUN)
    return took([sys.executable, "-m", "dlcca", "run", str(folder / "run.toml"), "--quiet"]).wall


def memory_rows(run: Measured) -> Iterator[Row]:
    text = f"{run.n:,} rows, 2 workers: all processes together"
    yield share("memory", text, run.peak / GIB, MEMORY_BYTES / GIB, "< 1", unit="GiB")


def growth_rows(small: Measured, large: Measured) -> Iterator[Row]:
    text = f"{large.n:,} rows against {small.n:,}"
    # As many times as long as there are more rows, and a tenth more.
    yield share("growth", f"{text}: time", large.seconds, small.seconds, f"<= {1.1 * large.n / small.n:g}")
    peaks = large.workers_peak / GIB, small.workers_peak / GIB
    yield share("growth", f"{text}: memory of the workers", *peaks, "< 1.2", unit="GiB")


def search_rows(small: Measured, large: Measured) -> Iterator[Row]:
    """Neighbours are searched in a subset of the rows, whose size does not depend on how many rows there are."""
    took = [sum(run.stages[name] for name in SEARCH) for run in (large, small)]
    yield share("search", f"{large.n:,} rows against {small.n:,}: search for neighbours", *took, "<= 1.2")


def coordinates_rows(folder: Path, views: tuple[Source, ...], warming: tuple[Source, ...]) -> Iterator[Row]:
    """Coordinates read from transition probabilities, against eigenfunctions of the same kernel."""
    took = {
        kind: run_with_workers(folder, views, warming, workers=2, coordinates=kind)
        for kind in ("diffusion", "potential")
    }
    text = f"{took['potential'].n:,} rows, 2 workers: potential coordinates against eigenfunctions"
    yield share("coordinates", text, took["potential"].seconds, took["diffusion"].seconds, "<= 1.25")


def dask_rows(plain: Measured, alone: Measured) -> Iterator[Row]:
    text = f"{plain.n:,} rows: one worker of one thread, against the same stages in a plain loop"
    yield share("dask", text, alone.seconds, plain.seconds, "<= 1.1")

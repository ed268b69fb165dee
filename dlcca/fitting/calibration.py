"""Rates of this machine, measured on the first rows of a job with the job's own settings."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.engine.planning import Rates
from dlcca.fitting import pipeline, runner
from dlcca.fitting.job import Job, Source, identity, requested_landmarks
from dlcca.fitting.rates import Measured, Trial, fitted
from dlcca.recordings import input_integrity
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.storage.files import is_remote

#: Rows that are measured, at most.
ROWS = 10_000
#: Blocks for each worker in the trials. One is made twice, because few tasks leave much to chance.
FEW, MANY = 1, 8
#: Rows and landmarks of the first, short run, in which workers import and compile what they need.
WARMING_ROWS, WARMING_LANDMARKS = 1000, 100


def calibrate(
    job: Job, opened: Callable[[], AbstractContextManager[Any]], workers: int, say: runner.Say = runner.silence
) -> Rates:
    """Measure each stage on the first rows of the job, in few large and in many small blocks.

    All is done in a scratch folder, which is removed. Stages whose cost depends on the landmarks alone meet as many
    landmarks as in the job, if there are so many rows. ``opened`` opens a client for as long as its block lasts.
    """
    beside = Path(job.address).parent  # so that the same disk is measured, if the run is on one
    on_disk = beside.is_dir() and not is_remote(job.address)
    place, n = beside if on_disk else None, min(job.n, ROWS)
    with tempfile.TemporaryDirectory(prefix="dlcca-calibration-", dir=place, ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        say("compiling")
        measured_run(_warming(job, scratch / "compiling"))  # into the cache that workers read
        began = time.perf_counter()
        with opened() as client:
            here_s = time.perf_counter() - began
            say("warming")
            runs = (measured_run(_warming(job, scratch / name), client) for name in ("cold", "warm"))
            cold_s, warm_s = (sum(stage.wall_s for stage in found.values()) for found in runs)
            trials = []
            for name, share in (("few", FEW), ("many", MANY), ("few again", FEW)):
                say(f"measuring {n} rows in {name} blocks")
                some = first_rows(job, n, -(-n // (share * workers)), scratch / name)
                trials.append(Trial(some, workers, measured_run(some, client)))
            few, many, again = trials
            others = bytes_besides_workers(client)
    rates = fitted([_quicker(few, again), many])
    return Rates(rates, start_s=here_s + max(0.0, cold_s - warm_s), client_bytes=others)


def _quicker(trial: Trial, again: Trial) -> Trial:
    """Of two equal trials each stage as it went quicker: what disturbs a measurement makes it longer."""
    stages = {}
    for name, one in trial.stages.items():
        best = min(one, again.stages.get(name, one), key=lambda found: found.seconds)
        stages[name] = replace(best, rest_bytes=one.rest_bytes, peak_bytes=one.peak_bytes)
    return replace(trial, stages=stages)


def _warming(job: Job, folder: Path) -> Job:
    n = min(job.n, ROWS, WARMING_ROWS)
    return first_rows(job, n, n, folder, most_landmarks=WARMING_LANDMARKS)


def first_rows(job: Job, n: int, rows: int, folder: Path, *, most_landmarks: int | None = None) -> Job:
    """The same job on copies of its first n rows in blocks of so many; settings that need more rows are cut down.

    A chunk of the copies is a block, as in a long recording a block is whole chunks.
    """
    sources = tuple(_copied(source, n, rows, folder / f"view{v}.zarr") for v, source in enumerate(job.sources))
    settings, inputs = cut_down(job.settings, n, most_landmarks or n), identity(sources)
    of_these = replace(job, sources=sources, inputs=inputs, n=n, rows=rows, clock="")
    return replace(of_these, address=str(folder / "run.zarr"), settings=settings)


def _copied(source: Source, n: int, rows: int, place: Path) -> Source:
    import zarr

    X, array = source.read(slice(0, n)), source.open()
    array = getattr(array, "array", array)  # of a view of recordings, its own
    # Compressed as the view is, because unpacking it is a part of the cost. Those of Zarr's second format do not fit.
    packed: Any = list(array.compressors) if array.metadata.zarr_format == 3 else "auto"
    zarr.create_array(str(place), data=X, chunks=(min(n, rows), X.shape[1]), compressors=packed)
    return Source(source.name, str(place))


def cut_down(settings: Settings, n: int, most_landmarks: int) -> Settings:
    """The settings, with no more landmarks, neighbours and coordinates than n rows have."""
    options = settings.options()
    m, kind = min(requested_landmarks(options), n, most_landmarks), options["neighborhoods"]
    given: dict[str, Any] = {}
    if not isinstance(kind, str):
        given["neighborhoods"] = np.random.default_rng(0).integers(0, n, (m, np.asarray(kind).shape[1]))
    if options["window"] != "auto":
        given["window"] = min(int(options["window"]), n)
    return settings.with_options(
        landmarks=np.linspace(0, n - 1, m).astype(np.int64) if np.ndim(options["landmarks"]) else m,
        n_neighbors=min(int(options["n_neighbors"]), n),  # of neighbor_rows, at most n are used
        n_components=min(int(options["n_components"]), m - 1),
        **given,
    )


def measured_run(job: Job, client: Any = None) -> dict[str, Measured]:
    """Run a job from its beginning to its seal, and say what each stage took."""
    pipeline.forget(client)

    def everywhere(function: Callable[[], Any]) -> list[Any]:
        return [function()] if client is None else list(client.run(function).values())

    found = {}
    for stage in (stage for stage in pipeline.STAGES if stage.is_needed(job)):
        rest, resets, began = max(everywhere(resident_bytes)), all(everywhere(forget_peak)), time.perf_counter()
        stage.run(job, client)
        wall_s, blocks = time.perf_counter() - began, stage.of(job)
        if (cost := blocks.cost())["tasks"]:
            peak = cost["peak_bytes"] if resets else 0  # else it is perhaps of an earlier stage
            each = tuple(blocks.task_seconds())
            found[stage.name] = Measured(cost["tasks"], cost["seconds"], wall_s, rest, peak, each)
    rest, began = max(everywhere(resident_bytes)), time.perf_counter()
    input_integrity.confirm(job, client)
    runner.finish(job, Choices(job.settings, {}))
    wall_s = time.perf_counter() - began
    return {**found, "finish": Measured(1, wall_s, wall_s, rest, rest)}


def resident_bytes() -> int:
    """Memory of this process now."""
    import psutil  # type: ignore[import-untyped]

    return int(psutil.Process().memory_info().rss)


def forget_peak() -> bool:
    """Have the system count the peak memory of this process from now on; whether it can.

    For processes that were started to be measured, and no others: it hides an earlier peak from everybody.
    """
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return True
    return False


def bytes_besides_workers(client: Any) -> int:
    """Memory of this process and those that it started, workers of the client left out."""
    import psutil

    workers = set() if client is None else set(client.run(os.getpid).values())
    me, total = psutil.Process(), 0
    for process in [me, *me.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            total += 0 if process.pid in workers else process.memory_info().rss
    return total

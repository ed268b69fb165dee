"""Rates of this machine, measured on the first rows of a job with the job's own settings."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.engine.planning import Rates
from dlcca.fitting import pipeline, runner
from dlcca.fitting.job import Job, Source, identity
from dlcca.fitting.rates import Measured, Trial, fitted
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.storage.cost import peak_bytes
from dlcca.storage.files import is_remote

#: Rows that are measured, at most.
ROWS = 10_000
#: Blocks for each worker in the trials. One is made twice, because few tasks leave much to chance.
FEW, MANY = 1, 8
#: Rows and landmarks of the first, short run, in which workers import and compile what they need.
WARMING_ROWS, WARMING_LANDMARKS = 1000, 100

#: Opens a client, for as long as its block lasts.
Opened = Callable[[], AbstractContextManager[Any]]
#: Called with a sentence on what is being done.
Say = Callable[[str], None]


def calibrate(job: Job, opened: Opened, workers: int, say: Say | None = None) -> Rates:
    """Measure each stage on the first rows of the job, in few large and in many small blocks.

    All is done in a scratch folder, which is removed. Stages whose cost depends on the landmarks alone meet as many
    landmarks as in the job, if there are so many rows.
    """
    on_progress = say or (lambda text: None)
    scratch = Path(tempfile.mkdtemp(prefix="dlcca-calibration-", dir=_beside(job.address)))
    n = min(job.n, ROWS)
    try:
        on_progress("compiling")
        measured_run(_warming(job, scratch / "compiling"))  # into the cache that workers read
        began = time.perf_counter()
        with opened() as client:
            here_s = time.perf_counter() - began
            on_progress("warming")
            cold_s, warm_s = (_seconds(_warming(job, scratch / name), client) for name in ("cold", "warm"))
            trials = []
            for name, share in (("few", FEW), ("many", MANY), ("few again", FEW)):
                on_progress(f"measuring {n} rows in {name} blocks")
                some = first_rows(job, n, -(-n // (share * workers)), scratch / name)
                trials.append(Trial(some, workers, pipeline.costs(some), measured_run(some, client)))
            few, many, again = trials
            others = bytes_besides_workers(client)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rates = fitted([_quicker(few, again), many])
    return Rates(rates, start_s=here_s + max(0.0, cold_s - warm_s), client_bytes=others)


def _quicker(trial: Trial, again: Trial) -> Trial:
    """Of two equal trials each stage as it went quicker: what disturbs a measurement makes it longer."""
    stages = {}
    for name, one in trial.stages.items():
        other = again.stages.get(name, one)
        best = min(one, other, key=lambda found: found.seconds)
        stages[name] = replace(best, rest_bytes=one.rest_bytes, peak_bytes=one.peak_bytes)
    return replace(trial, stages=stages)


def _seconds(job: Job, client: Any) -> float:
    began = time.perf_counter()
    measured_run(job, client)
    return time.perf_counter() - began


def _beside(address: str) -> str | None:
    """The folder of the run, so that the same disk is measured; None, for the system's choice, if it is not one."""
    folder = Path(address).parent
    return None if is_remote(address) or not folder.is_dir() else str(folder)


def _warming(job: Job, folder: Path) -> Job:
    n = min(job.n, ROWS, WARMING_ROWS)
    return first_rows(job, n, n, folder, most_landmarks=WARMING_LANDMARKS)


def first_rows(job: Job, n: int, rows: int, folder: Path, *, most_landmarks: int | None = None) -> Job:
    """The same job on copies of its first n rows in blocks of so many; settings that need more rows are cut down.

    A chunk of the copies is a block, as in a long recording a block is whole chunks.
    """
    sources = tuple(_copied(source, n, rows, folder / f"view{v}.zarr") for v, source in enumerate(job.sources))
    settings = cut_down(job.settings, n, most_landmarks or n)
    address = str(folder / "run.zarr")
    of_these: dict[str, Any] = {"sources": sources, "inputs": identity(sources), "n": n, "rows": rows, "clock": ""}
    return replace(job, address=address, settings=settings, **of_these)


def _copied(source: Source, n: int, rows: int, place: Path) -> Source:
    import zarr

    X = source.read(slice(0, n))
    chunks = (min(n, rows), X.shape[1])
    # Compressed as the view is, because unpacking it is a part of the cost.
    array = zarr.create_array(
        str(place), shape=X.shape, dtype=X.dtype, chunks=chunks, compressors=_compressors(source.open())
    )
    array[...] = X
    return Source(source.name, str(place))


def _compressors(array: Any) -> Any:
    """Those of a Zarr array of the third format; the usual ones for the second, whose do not fit."""
    return list(array.compressors) if array.metadata.zarr_format == 3 else "auto"


def cut_down(settings: Settings, n: int, most_landmarks: int) -> Settings:
    """The settings, with no more landmarks, neighbours and coordinates than n rows have."""
    options = settings.options()
    asked = options["landmarks"]
    m = min(int(asked) if np.ndim(asked) == 0 else len(asked), n, most_landmarks)
    kind = options["neighborhoods"]
    given: dict[str, Any] = {}
    if np.ndim(asked):
        given["landmarks"] = np.linspace(0, n - 1, m).astype(np.int64)
    if not isinstance(kind, str):
        given["neighborhoods"] = np.random.default_rng(0).integers(0, n, (m, np.asarray(kind).shape[1]))
    return settings.with_options(
        **{
            "landmarks": m,
            "window": min(int(options["window"]), n) if options["window"] != "auto" else "auto",
            "n_neighbors": min(int(options["n_neighbors"]), n),  # of neighbor_rows, at most n are used
            "n_components": min(int(options["n_components"]), m - 1),
            **given,
        }
    )


def measured_run(job: Job, client: Any = None) -> dict[str, Measured]:
    """Run a job from its beginning to its seal, and say what each stage took."""
    watch = _Watch(client)
    pipeline.run(job, client, watch)
    watch("finish", 0, 1)
    runner.finish(job, Choices(job.settings, {}))
    watch.end()
    costs = runner.costs(job.address)
    watch.share("bandwidth", "units", costs)
    each = {stage.name: tuple(stage.task_seconds()) for stage in runner.begun(job.address)}
    found = {}
    for name, (wall_s, rest, peak) in watch.stages.items():
        cost = costs.get(name, {"tasks": 0, "seconds": 0.0})
        if cost["tasks"] == 0:  # done by the client itself
            cost = {"tasks": 1, "seconds": wall_s}
        found[name] = Measured(cost["tasks"], cost["seconds"], wall_s, rest, peak, each.get(name, ()))
    return found


#: Steps whose progress has a name of its own, and whose cost is that of another stage.
WITHIN = {"lanczos": "spectrum"}


class _Watch:
    """Called with progress, it notes when each stage begins and ends, and the memory of the largest worker."""

    def __init__(self, client: Any) -> None:
        self.stages: dict[str, tuple[float, float, float]] = {}  # wall time, memory before, peak memory
        self._client = client
        self._name: str | None = None

    def __call__(self, name: str, done: int, blocks: int) -> None:
        name = WITHIN.get(name, name)
        if name == self._name:
            return
        self.end()
        self._name = name
        self._rest = max(self._everywhere(resident_bytes))
        self._resets = all(self._everywhere(forget_peak))
        self._peak_before = max(self._everywhere(peak_bytes))
        self._began = time.perf_counter()

    def end(self) -> None:
        """The end of the stage at hand."""
        if self._name is None:
            return
        wall_s = time.perf_counter() - self._began
        peak = max(self._everywhere(peak_bytes))
        if not self._resets and peak <= self._peak_before:
            peak = 0  # of an earlier stage: nothing is known of this one
        known = self.stages.get(self._name, (0.0, 0.0, 0.0))
        self.stages[self._name] = (known[0] + wall_s, max(known[1], self._rest), max(known[2], peak))
        self._name = None

    def share(self, stage: str, other: str, costs: dict[str, dict[str, Any]]) -> None:
        """Divide the time of a stage with another whose progress had its name, in proportion to their tasks."""
        if stage not in self.stages or other not in costs:
            return
        wall_s, rest, peak = self.stages[stage]
        both = [costs[name]["seconds"] if name in costs else 0.0 for name in (stage, other)]
        theirs = wall_s * both[1] / (sum(both) or 1.0)
        self.stages |= {stage: (wall_s - theirs, rest, peak), other: (theirs, rest, peak)}

    def _everywhere(self, function: Callable[[], Any]) -> list[Any]:
        """What a function returns on every worker, or here if there are none."""
        return [function()] if self._client is None else list(self._client.run(function).values())


def resident_bytes() -> int:
    """Memory of this process now."""
    import psutil  # type: ignore[import-untyped]

    return int(psutil.Process().memory_info().rss)


def forget_peak() -> bool:
    """Have the system count the peak memory of this process from now on; whether it can.

    For processes that were started to be measured, and no others: it hides an earlier peak from everybody.
    """
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        return True
    except OSError:
        return False


def bytes_besides_workers(client: Any) -> int:
    """Memory of this process and those that it started, workers of the client left out."""
    import psutil

    workers = set() if client is None else set(client.run(os.getpid).values())
    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            total += 0 if process.pid in workers else process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total

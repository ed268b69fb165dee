"""Rates of this machine, measured on the first rows of a job with the job's own settings."""

from __future__ import annotations

import os
import shutil
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


def calibrate(
    job: Job, opened: Callable[[], AbstractContextManager[Any]], workers: int, say: runner.Say = runner.silence
) -> Rates:
    """Measure each stage on the first rows of the job, in few large and in many small blocks.

    All is done in a scratch folder, which is removed. Stages whose cost depends on the landmarks alone meet as many
    landmarks as in the job, if there are so many rows. ``opened`` opens a client for as long as its block lasts.
    """
    beside = Path(job.address).parent  # so that the same disk is measured, if the run is on one
    on_disk = beside.is_dir() and not is_remote(job.address)
    scratch = Path(tempfile.mkdtemp(prefix="dlcca-calibration-", dir=beside if on_disk else None))
    n = min(job.n, ROWS)
    try:
        say("compiling")
        measured_run(_warming(job, scratch / "compiling"))  # into the cache that workers read
        began = time.perf_counter()
        with opened() as client:
            here_s = time.perf_counter() - began
            say("warming")
            cold_s, warm_s = (_seconds(_warming(job, scratch / name), client) for name in ("cold", "warm"))
            trials = []
            for name, share in (("few", FEW), ("many", MANY), ("few again", FEW)):
                say(f"measuring {n} rows in {name} blocks")
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
        best = min(one, again.stages.get(name, one), key=lambda found: found.seconds)
        stages[name] = replace(best, rest_bytes=one.rest_bytes, peak_bytes=one.peak_bytes)
    return replace(trial, stages=stages)


def _seconds(job: Job, client: Any) -> float:
    began = time.perf_counter()
    measured_run(job, client)
    return time.perf_counter() - began


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
        cost = costs.get(name)
        if cost is None or cost["tasks"] == 0:  # done by the client itself
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

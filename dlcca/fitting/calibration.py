"""Rates of this machine, measured on the first rows of a job with the job's own settings.

The cost of a task as such and that of its rows are separated by runs in blocks of two sizes: with few large and with
many small blocks of the same rows, the work is the same and the number of tasks differs. The first task of a worker
opens what the later ones use, so that it takes longer; where workers do several tasks, this is separated from both.

Rates are kept in a file: one for each kind of job on each kind of machine, in the user's cache folder.
"""

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.engine.stage import StagePlan, fingerprint, repeated
from dlcca.errors import SettingsError
from dlcca.fitting import kernel, landmarks, links, metric, neighbors, pipeline, runner
from dlcca.fitting.job import Job, Source, identity, requested_landmarks
from dlcca.fitting.planning import BASE_BYTES, Rates, StageRate
from dlcca.recordings import input_integrity
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.storage import places
from dlcca.storage.files import atomic_file, is_remote

#: Rows that are measured, at most.
ROWS = 10_000
#: Blocks for each worker in the trials. One is made twice, because few tasks leave much to chance.
FEW, MANY = 1, 8
#: Rows and landmarks of the first, short run, in which workers import and compile what they need.
WARMING_ROWS, WARMING_LANDMARKS = 1000, 100
#: Growth with the work of a task cannot be measured if that differs by less than this share.
ALIKE = 0.2
#: No guess of a speed is further off than this; a cost beyond it does not come from the work that was counted.
MOST = 10.0
#: A growth that, as guessed, is less than this share of the cost is lost in the noise of a measurement.
LOST = 0.15
#: Tasks of a worker from which its first one can be distinguished.
FEWEST_TASKS = 3
FORM, VERSION = "dlcca-rates", 3
#: Settings that a cost per row depends on, beside the sizes.
_OPTIONS = ("metric", "landmark_rule", "fusion", "kernel", "solver", "coordinates", "neighbor_index", "bandwidth")


@dataclass(frozen=True)
class Measured:
    """One stage of one run."""

    tasks: int
    seconds: float  # of all tasks together, on the workers
    wall_s: float  # from the beginning of the stage to that of the next
    rest_bytes: float = 0  # of the largest worker, before the stage began; 0 if not known
    peak_bytes: float = 0  # of the largest worker, within the stage; 0 if not known
    each: tuple[float, ...] = ()  # seconds of the tasks, those that began first first; none if not known


#: One run: its job, and its stages by their names.
Trial = tuple[Job, Mapping[str, Measured]]


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
            trials: list[Trial] = []
            for name, share in (("few", FEW), ("many", MANY), ("few again", FEW)):
                say(f"measuring {n} rows in {name} blocks")
                some = first_rows(job, n, -(-n // (share * workers)), scratch / name)
                trials.append((some, measured_run(some, client)))
            others = bytes_besides_workers(client)
        (first, few), many, (_, again) = trials
        rates = fitted([(first, _quicker(few, again)), many], workers)  # which looks at the views once more
    return Rates(rates, start_s=here_s + max(0.0, cold_s - warm_s), client_bytes=others)


def _quicker(stages: Mapping[str, Measured], again: Mapping[str, Measured]) -> dict[str, Measured]:
    """Of two equal trials each stage as it went quicker: what disturbs a measurement makes it longer."""
    found = {}
    for name, one in stages.items():
        best = min(one, again.get(name, one), key=lambda measured: measured.seconds)
        found[name] = replace(best, rest_bytes=one.rest_bytes, peak_bytes=one.peak_bytes)
    return found


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


def fitted(trials: Sequence[Trial], workers: int) -> dict[str, StageRate]:
    """The rate of every stage that was counted and measured.

    The trials have as many workers, and differ in the rows of their blocks.
    """
    both: dict[str, list[tuple[StagePlan, Measured]]] = {}
    for job, stages in trials:
        for stage in pipeline.costs(job):
            if stage.name in stages:
                both.setdefault(stage.name, []).append((stage, stages[stage.name]))
    return {name: _rate(known, workers) for name, known in both.items()}


def _rate(known: Sequence[tuple[StagePlan, Measured]], workers: int) -> StageRate:
    measured = [found for _, found in known]
    first, repeats = measured[0], measured[0].tasks / known[0][0].tasks
    counted = [repeated(stage, repeats) for stage, _ in known]
    opening_s = _opening(measured, workers)
    each = [_later_task(found, workers, opening_s) for found in measured]
    fixed, factor = fixed_and_growing([stage.work_s / max(1, stage.tasks) for stage in counted], each, expected=1.0)
    waiting = [
        max(0.0, found.wall_s - opening_s - -(-found.tasks // workers) * seconds)
        for found, seconds in zip(measured, each, strict=True)
    ]
    client_s, client_task_s = fixed_and_growing([found.tasks for found in measured], waiting, when_alike="fixed")
    is_known = first.rest_bytes > 0 and first.peak_bytes > 0
    return StageRate(
        task_factor=fixed / counted[0].task_s,
        factor=factor,
        opening_s=opening_s,
        client_s=client_s,
        client_task_s=client_task_s,
        rest_bytes=first.rest_bytes or BASE_BYTES,
        extra_bytes=first.peak_bytes - first.rest_bytes - counted[0].memory if is_known else 0.0,
        repeats=repeats,
    )


def _opening(measured: Sequence[Measured], workers: int) -> float:
    """Seconds that the first task of a worker takes beyond its later ones; 0 where it is not known."""
    known = [found.each for found in measured if len(found.each) >= FEWEST_TASKS * workers]
    return min((max(0.0, float(np.mean(each[:workers]) - np.median(each[workers:]))) for each in known), default=0.0)


def _later_task(found: Measured, workers: int, opening_s: float) -> float:
    """Seconds of a task that is not the first of its worker."""
    if len(found.each) >= FEWEST_TASKS * workers:
        return float(np.median(found.each[workers:]))
    tasks = max(1, found.tasks)
    return max(0.0, found.seconds - min(workers, tasks) * opening_s) / tasks


def fixed_and_growing(
    x: Sequence[float], y: Sequence[float], *, when_alike: str = "growing", expected: float | None = None
) -> tuple[float, float]:
    """The parts a and b, neither below 0, of y = a + b x, by least squares of relative errors.

    Where all x are alike, y is taken for "growing" (b x) or for "fixed" (a). Where they differ, and yet so little that
    the ``expected`` b would not show in y, b cannot be measured, and the expected one is returned.
    """
    X, Y = np.asarray(x, float), np.asarray(y, float)
    if not X.max() > (1 + ALIKE) * X.min():
        fixed, growing = float(Y.mean()), 0.0
        if when_alike != "fixed" and X.any():
            growing = min(fixed / float(X.mean()), MOST)
            fixed = max(0.0, fixed - growing * float(X.mean()))
        return fixed, growing
    if not Y.any():
        return 0.0, 0.0
    if expected is not None and expected * (X.max() - X.min()) < LOST * Y.max():
        return max(0.0, float(np.mean(Y - expected * X))), expected
    from scipy.optimize import nnls

    weight, scale = 1 / np.maximum(Y, 1e-3 * Y.max()), X.max()
    (a, b), _ = nnls(np.column_stack([weight, weight * X / scale]), weight * Y)
    return float(a), float(b / scale)


@dataclass(frozen=True)
class Calibration:
    """Rates, and where they come from."""

    rates: Rates
    made: str  # a day
    rows: int
    workers: int
    machine: dict[str, Any]
    settings: dict[str, Any]  # see `settings_that_matter`

    def sentence(self) -> str:
        """For people."""
        rows = f"{self.rows:,}".replace(",", " ")
        said = f"calibrated on {self.made} at {rows} rows with {self.workers} worker{'s' * (self.workers != 1)}"
        return said if self.machine == machine() else f"{said}, on another machine or with other packages"


def new(rates: Rates, job: Job, rows: int, workers: int) -> Calibration:
    """Rates that were measured now."""
    today = datetime.now(UTC).date().isoformat()
    return Calibration(rates, today, rows, workers, machine(), settings_that_matter(job))


def settings_that_matter(job: Job) -> dict[str, Any]:
    """What rates depend on besides the machine; not the rows, to which they are applied."""
    known = {
        "dims": job.dims,
        "itemsize": job.itemsize,
        "m": landmarks.count(job),
        "k": neighbors.width(job),
        "r": metric.rank(job),
        "q": job.q,
        "sought": links.n_neighbors(job),
        "links": links.n_links(job),
        "kept": kernel.n_kept(job),
        "used_views": job.fusion.used_views(job.K),
        **{name: job.options[name] for name in _OPTIONS},
    }
    return json.loads(json.dumps(known, default=str))


def machine() -> dict[str, Any]:
    """What a speed depends on; nothing that identifies one machine."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "cores": os.cpu_count(),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas.get('name')} {blas.get('version')}",
    }


def usual_place(job: Job) -> Path:
    """The file in the user's cache folder for jobs of this kind on this kind of machine."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    folder = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"  # a relative one is to be ignored
    return folder / "dlcca" / "rates" / f"{fingerprint(settings_that_matter(job), machine())[:16]}.json"


def refuse_occupied(place: Path, inputs: Iterable[str | Path] = ()) -> None:
    """An error if rates cannot be written there: another file is there, which is not one of rates, damaged or not."""

    def is_ours(path: Path) -> bool:
        return f'"{FORM}"'.encode() in places.starts_with(path, 4000) or path.stat().st_size == 0

    places.refuse_file(place, is_ours, "a file of rates", inputs=inputs, setting="--rates")


def write(place: Path, found: Calibration) -> None:
    """Write the file atomically."""
    content = json.dumps({"format": FORM, "version": VERSION, **asdict(found)}, indent=2)
    with atomic_file(place) as scratch:
        scratch.write_text(content, encoding="utf-8")


def read(place: Path) -> Calibration:
    """The rates in a file, or an error that says what to do about it."""
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        if (content.pop("format"), content.pop("version")) != (FORM, VERSION):
            raise ValueError(f"it is not {FORM} of version {VERSION}")
        rates = content.pop("rates")
        stages = {str(name): StageRate(**_numbers(rate)) for name, rate in rates.pop("stages").items()}
        return Calibration(Rates(stages, **_numbers(rates)), **content)
    except OSError as error:
        raise SettingsError(
            f"the rates at {place} cannot be read: {error.strerror or error}. Run dlcca plan with --calibrate first."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{place} is no file of rates, or damaged ({error}). Run dlcca plan with --calibrate to write it anew."
        ) from error


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if not isinstance(value, int | float) or value != value or (value < 0 and name != "extra_bytes"):
            raise ValueError(f"{name} is {value!r}")
    return values


def refuse_other(found: Calibration, job: Job, place: Path) -> None:
    """An error if the rates were measured with settings that make them others."""
    for name, value in settings_that_matter(job).items():
        if (there := found.settings.get(name)) != value:
            raise SettingsError(
                f"the rates in {place} were measured with {name} = {there}, and this run has {value}. Run dlcca plan "
                "with --calibrate, or name another file with --rates."
            )

"""A worker that stalls in the middle of a block and wakes when its run was begun again with another setting.

A seed decides the stage, the block, the point at which the worker stops (see `tests.faults.stalling`), and when it
wakes. Its client is killed while it is stopped; the run is begun again with another ridge and ``--from metric``, on a
cluster of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr

from dlcca.fitting import pipeline, runner
from dlcca.storage.files import files_at, is_remote, zarr_store
from dlcca.storage.manifest import put_group
from tests.faults.processes import Cluster, Family
from tests.fitting.jobs import recordings, written

PATIENCE_S = 180
ROWS, BLOCKS = 4096, 4
OLD, NEW = 0.03, 2.0  # ridges
TOLERANCE = 1e-8

RUN = """
[store]
path = "{store}"
seed = 3

[views.one]
source = "{views}/view1.zarr"

[views.two]
source = "{views}/view2.zarr"

[landmarks]
count = 60

[neighborhoods]
kind = "knn"
n_neighbors = 24

[metric]
ridge = {ridge}

[spectrum]
solver = "{solver}"

[cluster]
workers = 1
"""

#: Points of a block at which the worker stops, in their order.
POINTS = ("begin", "computed", "chunk", "moved", "record")
#: When the worker wakes: its stage has begun in the new run, a later one has, the new run is over.
MOMENTS = ("begun", "passed", "over")
#: Stages that are computed by workers, and the one after which each has passed; by solver.
STAGES = {
    "gram": {"metric": "kernel", "kernel": "gram", "gram": "spectrum", "coordinates": "embedding", "embedding": ""},
    "lanczos": {"metric": "kernel", "lanczos": "coordinates", "coordinates": "embedding"},
}
_CASES = [(solver, stage) for solver, stages in STAGES.items() for stage in stages]


@dataclass(frozen=True)
class Stall:
    """What a seed says."""

    seed: int
    solver: str
    stage: str
    block: int
    point: str
    moment: str

    @classmethod
    def of(cls, seed: int) -> Stall:
        rng = np.random.default_rng(seed)
        solver, stage = _CASES[seed % len(_CASES)]
        block = 1 if stage == "lanczos" else 0 if stage in ("metric", "gram") else int(rng.integers(BLOCKS))
        return cls(seed, solver, stage, block, POINTS[seed % len(POINTS)], MOMENTS[seed % len(MOMENTS)])

    @property
    def environment(self) -> dict[str, str]:
        known = {"STAGE": self.stage, "BLOCK": str(self.block), "POINT": self.point}
        return {f"DLCCA_STALL_{key}": value for key, value in known.items()}


@dataclass(frozen=True)
class Reference:
    """Runs that nothing has disturbed."""

    views: Path
    templates: dict[str, Path]  # by solver: stores of the old setting, finished as far as the metric
    embeddings: dict[str, np.ndarray]  # by solver: of the new setting


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    stall: Stall
    error: str  # of the late block, on its worker
    difference: float  # to the run that nothing has disturbed
    seconds: float
    faults: tuple[str, ...]

    @property
    def is_unharmed(self) -> bool:
        return not self.faults and self.difference <= TOLERANCE

    def line(self) -> str:
        stall = self.stall
        text = (
            f"seed {stall.seed}: block {stall.block} of {stall.stage} ({stall.solver}) stopped at {stall.point!r}, "
            f"woke {stall.moment!r}, difference {self.difference:.1e}, {self.seconds:.1f} s; {self.error or 'no error'}"
        )
        return "\n    ".join([text, *(f"FAULT: {fault}" for fault in self.faults)])


def undisturbed(folder: Path, solvers: tuple[str, ...] = tuple(STAGES)) -> Reference:
    """The recordings; the run of the new setting, and that of the old one up to the metric."""
    written(folder, recordings(2, ROWS), 1024)
    templates, embeddings = {}, {}
    for solver in solvers:
        templates[solver], clean = folder / f"{solver}-old.zarr", folder / f"{solver}-new.zarr"
        for store, ridge in ((templates[solver], OLD), (clean, NEW)):
            _run_here(_written_toml(folder, str(store), folder, ridge, solver))
        embeddings[solver] = embedding(str(clean))
        assert np.abs(embedding(str(templates[solver])) - embeddings[solver]).max() > 0.01
        put_group(str(templates[solver]), {})
        names = pipeline.on_disk()
        for name in names[names.index("metric") :]:
            shutil.rmtree(templates[solver] / "stages" / name, ignore_errors=True)
        shutil.rmtree(templates[solver] / "embedding")
    return Reference(folder, templates, embeddings)


def _run_here(toml: Path) -> None:
    from dlcca.settings import runfile

    asked = runfile.read(toml)
    runner.run(*runner.prepared(asked.store, asked.views, asked.settings, asked.seed))


def _written_toml(folder: Path, store: str, views: Path, ridge: float, solver: str) -> Path:
    toml = folder / f"ridge-{ridge}.toml"
    toml.write_text(RUN.format(store=store, views=views, ridge=ridge, solver=solver))
    return toml


def embedding(store: str) -> np.ndarray:
    group = zarr.open_group(zarr_store(store), mode="r")
    return np.asarray(group["embedding"][:])


def survive(stall: Stall, reference: Reference, folder: Path, store: str) -> Outcome:
    """Run, stop the worker, kill the client, begin again, wake the worker, and look at what is there."""
    began, faults = time.monotonic(), []
    marks = folder / "marks"
    marks.mkdir()
    _copied(reference.templates[stall.solver], store)
    tomls = [_written_toml(folder, store, reference.views, ridge, stall.solver) for ridge in (OLD, NEW)]
    preload = {"DASK_DISTRIBUTED__WORKER__PRELOAD": str(Path(__file__).with_name("stalling.py"))}
    with (
        _family(folder / "old", {**stall.environment, **preload, "DLCCA_STALL_MARKS": str(marks)}) as late,
        _family(folder / "new", {}) as family,
    ):
        cluster = Cluster(late, workers=1)
        cluster.mend()
        client = late.start(*_command(tomls[0]), "--cluster", cluster.address, log="run.log")
        if not _comes(lambda: (marks / "stopped").exists() and (marks / "stopped").read_text() != "", client):
            return Outcome(stall, "", np.inf, 0, (f"the worker never stopped: {_said(late)}",))
        worker = int((marks / "stopped").read_text())
        client.kill()
        client.wait(timeout=30)
        before = _state(store, stall.stage)
        run = family.start(*_command(tomls[1]), "--from", "metric", log="run.log")
        _comes(lambda: _is_time(stall, store, before), run)
        if stall.moment == "over":
            faults += _ended(run, family)
        os.kill(worker, signal.SIGCONT)
        if not _comes(lambda: (marks / "over").exists()):
            faults.append(f"the late block was never over: {_said(late)}")
        if stall.moment != "over":
            faults += _ended(run, family)
    faults += _verified(store)
    error = (marks / "error").read_text()[:200] if (marks / "error").exists() else ""
    return Outcome(stall, error, _difference(store, reference, stall), time.monotonic() - began, tuple(faults))


def _copied(template: Path, store: str) -> None:
    if not is_remote(store):
        shutil.copytree(template, store)
        return
    files = files_at(store)
    for file in template.rglob("*"):
        if file.is_file():
            files.put(file.relative_to(template).as_posix(), file.read_bytes())


def _command(toml: Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "dlcca", "run", str(toml), "--quiet")


@contextmanager
def _family(folder: Path, environment: dict[str, str]) -> Iterator[Family]:
    folder.mkdir()
    family = Family(folder, environment)
    try:
        yield family
    finally:
        family.end()


def _comes(happens, run: subprocess.Popen[bytes] | None = None) -> bool:
    """Wait until something happens; False if the run is over before, or never ends."""
    end = time.monotonic() + PATIENCE_S
    while not happens():
        if time.monotonic() > end or (run is not None and run.poll() is not None):
            return happens()
        time.sleep(0.005)
    return True


def _state(store: str, stage: str) -> bytes | None:
    return files_at(store).get(f"stages/{stage}/stage.json")


def _is_time(stall: Stall, store: str, before: bytes | None) -> bool:
    """Whether the worker is to wake: the new run does its stage, or has done it."""
    if stall.moment == "over":
        return True
    later = STAGES[stall.solver][stall.stage] if stall.moment == "passed" else ""
    if later:
        return _state(store, later) is not None
    return _state(store, stall.stage) not in (before, None)


def _ended(run: subprocess.Popen[bytes], family: Family) -> list[str]:
    try:
        code = run.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return [f"the new run has not ended for {PATIENCE_S} s"]
    return [] if code == 0 else [f"the new run ended with {code}: {_said(family)}"]


def _said(family: Family) -> str:
    return "\n".join(log.read_text(errors="replace")[-1500:] for log in family.folder.glob("*.log"))


def _verified(store: str) -> list[str]:
    from typer.testing import CliRunner

    from dlcca.cli import app

    done = CliRunner().invoke(app, ["verify", store])
    return [] if done.exit_code == 0 else [f"dlcca verify ended with {done.exit_code}: {done.output[-1000:]}"]


def _difference(store: str, reference: Reference, stall: Stall) -> float:
    try:
        found = embedding(store)
    except (KeyError, OSError, ValueError):
        return float("inf")
    expected = reference.embeddings[stall.solver]
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max())

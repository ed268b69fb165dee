"""Runs that are killed at a random moment and resumed by the same command.

A seed decides what is killed (a worker, its nanny, the scheduler or the client), in which stage, after how many of its
blocks, and how many milliseconds after that. Nannies and schedulers of a local cluster live in the process of the
client; to be killed by themselves they are processes of their own, and the run is told their address.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import zarr

from tests.faults.killing import Kill, moment_comes, victim_of
from tests.faults.processes import Cluster, Family
from tests.fitting.jobs import recordings, written

#: What a run may take, killed or not, on a machine that has other things to do.
PATIENCE_S = 180
ROWS = 8192  # in 8 blocks
TOLERANCE = 1e-8

RUN = """
[store]
path = "run.zarr"
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

[cluster]
workers = 2
"""

#: The time of its last change, and the content.
Record = tuple[int, bytes]


@dataclass(frozen=True)
class Reference:
    """A run that nothing has disturbed."""

    views: Path  # the folder of its recordings
    embedding: np.ndarray
    blocks: dict[str, int]  # of every stage, in the order of the stages


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    kill: Kill
    hit: str  # the stage that was being done
    at_kill: int  # blocks finished by then
    before: int  # blocks finished when the run was resumed
    recomputed: int  # of those finished at the kill or before the resume
    lost: int  # blocks without a record at the end
    difference: float  # the largest, to the run that nothing has disturbed
    seconds: float
    faults: tuple[str, ...]  # whatever else is not as it should be

    @property
    def is_unharmed(self) -> bool:
        return not (self.faults or self.recomputed or self.lost) and self.difference <= TOLERANCE


def undisturbed(folder: Path) -> Reference:
    """Recordings, and what comes of them in one process without any cluster."""
    from dlcca.fitting import runner
    from dlcca.settings import runfile

    written(folder, recordings(2, ROWS), 1024)
    (folder / "run.toml").write_text(RUN.format(views=folder))
    asked = runfile.read(folder / "run.toml")
    job, choices = runner.prepared(asked.store, asked.views, asked.settings, asked.seed)
    runner.run(job, choices)
    blocks = {stage.name: stage.n_blocks for stage in runner.begun(asked.store)}
    return Reference(folder, embedding(folder), blocks)


def embedding(folder: Path) -> np.ndarray:
    return zarr.open_group(str(folder / "run.zarr"), mode="r")["embedding"][:]


def survive(kill: Kill, reference: Reference, folder: Path) -> Outcome:
    """Run, kill, resume, and look at what is there."""
    began = time.monotonic()
    (folder / "run.toml").write_text(RUN.format(views=reference.views))
    whole = {f"{stage}/done/{block:05d}.json" for stage, count in reference.blocks.items() for block in range(count)}
    faults: list[str] = []
    with _family(folder) as family:
        cluster = Cluster(family) if kill.separate else None
        hit, at_kill, shared = _killed_run(kill, family, cluster, folder / "run.zarr", faults, len(whole))
        before = records(folder / "run.zarr")
        _resume(family, cluster, faults)
        if cluster is not None:
            cluster.stop()
        faults += _left_behind(family, shared)
    after = records(folder / "run.zarr")
    faults += _verified(folder / "run.zarr")
    return Outcome(
        kill=kill,
        hit=hit,
        at_kill=len(at_kill),
        before=len(before),
        recomputed=len({name for known in (at_kill, before) for name in known if known[name] != after.get(name)}),
        lost=len(whole - set(after)),
        difference=_difference(folder, reference),
        seconds=time.monotonic() - began,
        faults=tuple(faults),
    )


def records(store: Path) -> dict[str, Record]:
    """The records of finished blocks, by their place below the stages."""
    found = {}
    for file in (store / "stages").rglob("done/*.json"):
        if not file.name.startswith("."):
            found[str(file.relative_to(store / "stages"))] = (file.stat().st_mtime_ns, file.read_bytes())
    return found


@contextmanager
def _family(folder: Path) -> Iterator[Family]:
    family = Family(folder)
    try:
        yield family
    finally:
        family.end()


def _killed_run(
    kill: Kill, family: Family, cluster: Cluster | None, store: Path, faults: list[str], blocks: int
) -> tuple[str, dict[str, Record], set[Path]]:
    """Start a run and kill what is to be killed: the stage that was hit, the blocks of then, and the shared memory."""
    run = _command(family, cluster)
    if not moment_comes(kill, store, run, PATIENCE_S):
        faults.append(f"the run was over before {kill.finished} blocks of {kill.stage!r} were seen")
    shared = family.shared_memory()
    hit, known = _stage_at_hand(store), records(store)
    victim = victim_of(kill, run, cluster)
    if victim is None:
        faults.append(f"there was no {kill.kind} to kill")
    else:
        os.kill(victim, signal.SIGKILL)
    expected = {"worker": (0,), "nanny": (0,), "scheduler": (4,), "client": (-signal.SIGKILL,)}[kill.kind]
    if kill.kind == "scheduler" and len(known) == blocks:
        expected = (0, 4)  # the seal needs no scheduler: whoever has all blocks may come to the end without
    faults += _ended(run, expected, family, "the run that was killed")
    if kill.kind == "client" and cluster is None:  # the workers must see by themselves that they are alone
        faults += [f"{process.pid} has outlived its client" for process in family.await_end()]
    return hit, known, shared


def _command(family: Family, cluster: Cluster | None) -> subprocess.Popen[bytes]:
    """The command, the same whenever it is given."""
    where = []
    if cluster is not None:
        cluster.mend()
        where = ["--cluster", cluster.address]
    return family.start(sys.executable, "-m", "dlcca", "run", "run.toml", "--quiet", *where, log="run.log")


def _stage_at_hand(store: Path) -> str:
    """The stage that was begun last."""
    begun = {file.parent: file.stat().st_mtime_ns for file in (store / "stages").rglob("stage.json")}
    return str(max(begun, key=begun.__getitem__).relative_to(store / "stages")) if begun else "none"


def _ended(run: subprocess.Popen[bytes], expected: tuple[int, ...], family: Family, what: str) -> list[str]:
    try:
        code = run.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return [f"{what} has not ended for {PATIENCE_S} s"]
    said = (family.folder / "run.log").read_text(errors="replace")[-2000:]
    return [] if code in expected else [f"{what} ended with {code}, not with one of {expected}: {said}"]


def _resume(family: Family, cluster: Cluster | None, faults: list[str]) -> None:
    faults += _ended(_command(family, cluster), (0,), family, "the run that was resumed")


def _left_behind(family: Family, shared: set[Path], patience_s: float = 30) -> list[str]:
    """Processes, shared memory and folders for temporary files that should be gone."""
    left = [f"process {process.pid} ({_told(process)})" for process in family.await_end(patience_s)]
    left += [f"shared memory {file}" for file in shared if file.exists()]
    left += [f"the folder {folder}" for folder in family.scratch()]
    return [f"{one} is left behind" for one in left]


def _told(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "gone"


def _verified(store: Path) -> list[str]:
    from typer.testing import CliRunner

    from dlcca.cli import app

    done = CliRunner().invoke(app, ["verify", str(store)])
    return [] if done.exit_code == 0 else [f"dlcca verify ended with {done.exit_code}: {done.output[-1000:]}"]


def _difference(folder: Path, reference: Reference) -> float:
    try:
        found = embedding(folder)
    except (KeyError, OSError):
        return float("inf")
    if found.shape != reference.embedding.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - reference.embedding).max())

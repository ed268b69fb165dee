"""datafold's methods, in an environment of their own, against ours on the same arrays and with one thread.

datafold needs NumPy below 1.27 and scikit-learn 1.2, which need Python 3.11 or older.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.dense_kernel import model_and_samples
from benchmarks.measure import GIB, Row, left_out, share, single_threaded, timed, times_faster
from dlcca import LocalCCA, simulate
from dlcca.fitting import distances
from dlcca.numerics.distances import linked_distances
from dlcca.numerics.kernels import relative_rows
from dlcca.numerics.topk import block_links
from dlcca.settings.fit import Settings
from tests.support.scores import recovery

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-datafold"
WANTED = ("datafold", "numpy<1.27", "scikit-learn==1.2.*")
NEWEST = (3, 11)
#: Coordinates of JointlySmoothFunctions that are tried; the best of them counts.
TRIED = (2, 3, 5, 9)


@dataclass(frozen=True)
class Peer:
    """What a peer's method took, and its coordinates."""

    wall: float
    cpu: float
    peak: int
    coordinates: NDArray


class NoPeer(Exception):
    """datafold cannot be had here; the message says why."""


def rows(quick: bool) -> Iterator[Row]:
    try:
        python = environment()
    except NoPeer as why:
        yield left_out("datafold", str(why))
        return
    yield from jointly_smooth_rows(python, 2000 if quick else 10_000, quick)
    yield from roseland_rows(python, 5000 if quick else 50_000)
    yield from diffusion_rows(python, 2000 if quick else 10_000)


def environment() -> Path:
    """The Python of datafold's environment, which is made if it is not there."""
    python, finished = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "finished"
    if finished.exists() and finished.read_text() == "\n".join(WANTED):
        return python
    if sys.version_info[:2] > NEWEST:
        raise NoPeer(f"datafold needs Python {NEWEST[0]}.{NEWEST[1]} or older; this is {sys.version.split()[0]}")
    _call([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], "make an environment for datafold")
    install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q", "--prefer-binary", *WANTED]
    _call(install, "install datafold")
    finished.write_text("\n".join(WANTED))
    return python


def _call(command: list[str], aim: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NoPeer(f"could not {aim}: {last}")


def run_peer(python: Path, method: str, views: list[NDArray]) -> Peer:
    """A method of datafold in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        paths = [folder / f"view{v}.npy" for v in range(len(views))]
        for path, X in zip(paths, views, strict=True):
            np.save(path, X)
        script = Path(__file__).with_name("datafold_peer.py")
        done = subprocess.run(
            [str(python), str(script), method, str(folder / "out.npy"), *map(str, paths)],
            capture_output=True,
            text=True,
            check=False,
            env=single_threaded(),
        )
        if done.returncode:
            raise RuntimeError(f"datafold's {method} failed:\n{done.stderr}")
        took: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return Peer(took["wall"], took["cpu"], took["peak_bytes"], np.load(folder / "out.npy"))


def jointly_smooth_rows(python: Path, n: int, quick: bool) -> Iterator[Row]:
    """Speed and quality on two tori: how well the common angle is read off, and how much of a private one remains."""
    views, truth = simulate.torus(n, random_state=0)
    model = LocalCCA(neighborhoods="knn", random_state=0)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit([X[:1200] for X in views])
        ours = timed(model.fit, views, repeats=3)
    peer = run_peer(python, "jointly smooth", views)
    text = f"{n:,} rows: the whole fit, against JointlySmoothFunctions"
    needed = "" if quick else ">= 10"
    yield times_faster("datafold", f"{text}, one thread", ours.cpu, peer.cpu, needed)
    yield times_faster("datafold", f"{text}, one thread", ours.wall, peer.wall, needed, unit="s")
    best = max(TRIED, key=lambda q: recovery(peer.coordinates[:, :q], truth.z))
    found, theirs = recovery(model.embedding_, truth.z), recovery(peer.coordinates[:, :best], truth.z)
    # Both are next to perfect: a difference of a thousandth is none.
    text = f"{n:,} rows: R² of the common angle in 2 coordinates, against its best {best}"
    yield share("datafold", text, found, theirs, ">= 0.999", unit="")
    leaks = (
        max(0.0, recovery(coordinates, truth.nuisance[0]))
        for coordinates in (model.embedding_, peer.coordinates[:, :best])
    )
    ours_leak, their_leak = leaks
    text = f"{n:,} rows: R² of what is private to view 1 (its {their_leak:.3f}), against 0.02"
    yield share("datafold", text, ours_leak, 0.02, "<= 1", unit="")
    yield share("datafold", f"{n:,} rows: peak memory of JointlySmoothFunctions", peer.peak / GIB, None, unit="GiB")


def roseland_rows(python: Path, n: int) -> Iterator[Row]:
    """Kernel rows under local metrics, dense and sparse, against a kernel of plain distances and its SVD."""
    r, s = Settings().metric.rank, Settings().kernel.n_links
    model, X = model_and_samples(n, 500, 100, r)

    def dense() -> None:
        for D in distances.tiles(model, [X]):
            relative_rows(D, 100.0)

    def sparse() -> None:
        (links,) = block_links([X], model.points, [1.0], s)
        relative_rows(linked_distances(X, model.points[0], model.factors[0], links), 100.0)

    peer = run_peer(python, "roseland", [X])
    text = f"{n:,} x 100, 500 landmarks: kernel stage"
    with threadpool_limits(limits=1):
        for name, make in (("sparse", sparse), ("dense", dense)):
            make()  # compiles, if need be
            yield times_faster(
                "datafold", f"{text}, {name}, against Roseland", timed(make, repeats=3).cpu, peer.cpu, ">= 2"
            )


def diffusion_rows(python: Path, n: int) -> Iterator[Row]:
    """DiffusionMaps knows one kernel of all channels and no views; it holds n x n, so n stays small."""
    views, truth = simulate.torus(n, random_state=0)
    model = LocalCCA(neighborhoods="knn", random_state=0)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = timed(model.fit, views, repeats=3)
    peer = run_peer(python, "diffusion maps", views)
    yield times_faster("datafold", f"{n:,} rows: the whole fit, against DiffusionMaps", ours.cpu, peer.cpu)
    found, theirs = recovery(model.embedding_, truth.z), recovery(peer.coordinates[:, :2], truth.z)
    yield share("datafold", f"{n:,} rows: R² of the common angle, against DiffusionMaps", found, theirs, unit="")
    yield share("datafold", f"{n:,} rows: peak memory of DiffusionMaps", peer.peak / GIB, None, unit="GiB")

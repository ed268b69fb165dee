"""Real recordings as views with a truth: how each is made of its files, following the README beside them.

A recipe in a run.toml cuts windows evenly in time. One sample per beat, and digits, which have no time at all, are not
that: their views are made here with NumPy and given as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr

from dlcca.compare import compare, comparison
from dlcca.compare.truth import Truth
from dlcca.fitting import runner
from dlcca.recordings import ingest
from dlcca.recordings.formats import open_recording
from dlcca.settings.runfile import RunFile, read
from dlcca.storage import run as run_store
from dlcca.storage.comparison import Comparison
from tests.support.recordings import shared

KNN = 'kind = "knn"'  # a beat, a stride or a digit is a state, and not a stretch of time


@dataclass(frozen=True)
class Problem:
    """A run file whose views are made, and what is known of each row."""

    asked: RunFile
    truth: Truth | None


def principal(X: np.ndarray, count: int) -> np.ndarray:
    """Scores (n, count) of the leading principal components."""
    X = np.asarray(X, np.float64)
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return U[:, :count] * s[:count]


def run(problem: Problem) -> None:
    """All stages of its run, without a cluster."""
    asked = problem.asked
    clock = asked.ingested if asked.recordings else ""
    runner.run(*runner.prepared(asked.store, asked.views, asked.settings, asked.seed, clock))


def compared(problem: Problem) -> Comparison:
    """Its run, held against the baselines and the control as `dlcca compare` does."""
    run(problem)
    return compare(problem.asked, truth=problem.truth)


def scores(problem: Problem) -> dict[str, float]:
    """Score of each method, ours first, on the rows of a finished run of arrays; without controls."""
    asked, truth = problem.asked, problem.truth
    job, _ = runner.prepared(asked.store, asked.views, asked.settings, asked.seed)
    embedding = run_store.read(asked.store).embedding
    fold = truth.folds("random" if truth.is_sorted else "blocked")
    views = {source.name: job.read(v, slice(0, job.n)) for v, source in enumerate(job.sources)}
    methods = comparison.baseline_methods(job, job.n, embedding.shape[1])
    others = {name: truth.score(method(views).embedding, fold) for name, method in methods}
    return {comparison.LOCAL_CCA: truth.score(embedding, fold), **others}


def of_arrays(folder: Path, views: dict[str, np.ndarray], truth: Truth, settings: str) -> Problem:
    """A problem of arrays of which every row is a sample."""
    folder.mkdir(parents=True, exist_ok=True)
    text = '[store]\npath = "run.zarr"\n'
    for name, X in views.items():
        zarr.create_array(folder / f"{name}.zarr", data=X)
        text += f'[views.{name}]\nsource = "{name}.zarr"\n'
    (folder / "run.toml").write_text(text + settings)
    return Problem(read(folder / "run.toml"), truth)


def of_recordings(folder: Path, text: str) -> RunFile:
    """A run file whose views are made of recordings, which are read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.toml").write_text(text)
    asked = read(folder / "run.toml")
    ingest.run(*ingest.prepared(asked.ingested, asked.recordings))
    return asked


def settings(q: int, neighborhoods: str = KNN, kernel: str = "") -> str:
    return f"[neighborhoods]\n{neighborhoods}\n[kernel]\n{kernel}\n[spectrum]\nn_components = {q}\n"


# Breaths in the heart: BIDMC.


def bidmc(folder: Path, record: int, q: int = 5) -> Problem:
    """One sample per beat: 0.64 s of ECG around R, 0.8 s of PPG after R, 10 principal components each."""
    path = shared("bidmc-sample", f"bidmc_{record}.npz")
    ecg, ppg, rate = _heart(path)
    with np.load(path) as known:
        beats, breaths = known["rpeaks"].astype(int), known["breaths_ann1"]
    half, after = int(0.32 * rate), int(0.8 * rate)
    beats = beats[(beats >= half) & (beats + after <= len(ppg))]
    around = np.stack([ecg[r - half : r + half].ravel() for r in beats])
    following = np.stack([ppg[r : r + after] for r in beats])
    views = {"ecg": principal(around, 10), "ppg": principal(following, 10)}
    return of_arrays(folder, views, Truth(phase_between(breaths, beats), "phase", "breath phase"), settings(q))


def _heart(path: str) -> tuple[np.ndarray, np.ndarray, float]:
    """All leads of the ECG, (n, 3), the PPG, (n,), and their rate, as the reader gives them."""
    ecg, ppg = open_recording(path, array=["ecg", "ppg"]).signals
    leads = ecg.read(0, ecg.n, range(len(ecg.channels)))
    return leads, ppg.read(0, ppg.n, [0])[:, 0], float(ecg.rate)


def phase_between(marks: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The phase, 0 to 2π from each mark to the next, of some moments; NaN before the first and after the last."""
    phase = 2 * np.pi * np.interp(at, marks, np.arange(len(marks)), left=np.nan, right=np.nan)
    return phase % (2 * np.pi)


# Two feet: gait.

GAIT = """
[store]
path = "run.zarr"
[views.left]
source = "{path}"
channels = ["left.*"]
window_s = 0.25
step_s = 0.01953125          # 4 samples
scaling = "none"             # the README's windows are not scaled: see `gait`
resample = "nearest"         # 0.25 s are 51.2 samples
pca_components = 15
[views.right]
source = "{path}"
channels = ["right.*"]
scaling = "none"
resample = "nearest"
pca_components = 15
"""


def gait(folder: Path, q: int = 2) -> Problem:
    """Windows of 0.25 s of the inertial sensor on each shoe, 15 principal components, every 4 samples.

    Robust scaling suits them badly: a foot rests for a good part of a stride, so quartiles are narrow, and the
    impact of the heel becomes all there is.
    """
    path = shared("gait-imu", "gait.npz")
    asked = of_recordings(folder, GAIT.format(path=path) + settings(q))
    with np.load(path) as known:
        phase, rate = known["phase_left"], float(known["fs"])
    time = zarr.open_array(f"{asked.ingested}/time", mode="r")[:]
    middle = np.round((time + 0.125) * rate).astype(int)
    return Problem(asked, Truth(phase[np.minimum(middle, len(phase) - 1)], "phase", "phase of the left foot"))


# Two cameras: the mouse.

MOUSE = """
[store]
path = "run.zarr"
[views.side]
source = "{path}"
window_s = 0.004             # a frame
scaling = "none"             # pixels have a unit in common
pca_components = 30
flat_s = 0.0                 # pixels of the background do not change
saturated_s = 0.0
reader = {{ roi = [0, 168, 0, 396], scale = 4, projection = 1000 }}
[views.below]
source = "{path}"
scaling = "none"
pca_components = 30
flat_s = 0.0
saturated_s = 0.0
reader = {{ roi = [168, 406, 0, 396], scale = 4, projection = 1000 }}
"""


def mouse(folder: Path, q: int = 3) -> Problem:
    """Frames of a running mouse from the side and from below, 4 x 4 pixels averaged, 30 principal components.

    Windows of time, as by default: the two cameras see one movement. A PCA takes 4096 features at most and there are
    5841 pixels, so they are projected to 1000 at random before.
    """
    text = MOUSE.format(path=shared("mirror-mouse", "mirror_mouse.mp4"))
    return Problem(of_recordings(folder, text + settings(q, neighborhoods="")), None)


def strongest_frequency(x: np.ndarray, rate: float) -> float:
    """Where the amplitude spectrum of a series (n,) is largest, in Hz.

    Under a Hann window, as in the report, and padded with zeros to 16 times the length, which interpolates between the
    bins: 994 frames at 250 Hz last 4 s, so that bins are 0.25 Hz apart.
    """
    n = len(x)
    amplitude = np.abs(np.fft.rfft((x - x.mean()) * np.hanning(n), 16 * n))
    return float(np.fft.rfftfreq(16 * n, 1 / rate)[amplitude.argmax()])


# Digits in two kinds of features.


def mfeat(folder: Path, q: int = 9, fusion: str = "auto", pair: tuple[str, str] = ("fou", "kar")) -> Problem:
    """Two kinds of features of 2000 digits (Fourier and Karhunen-Loève), z-scores, 30 principal components."""
    with np.load(shared("mfeat-digits", "mfeat.npz")) as known:
        views = {name: known[name].astype(float) for name in pair}
        labels = known["label"]
    views = {name: principal((X - X.mean(axis=0)) / X.std(axis=0), 30) for name, X in views.items()}
    return of_arrays(folder, views, Truth(labels, "label", "digit"), settings(q, kernel=f'fusion = "{fusion}"'))

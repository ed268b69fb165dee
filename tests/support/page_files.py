"""What the reader of a page has before he begins: recordings, arrays and finished runs, as small as will do."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA
from dlcca.cli import app
from tests.fitting.jobs import recordings
from tests.pipelines.nights import pipeline_file, recorded
from tests.support import doc_pages

RATE = 64

#: A run on recordings in which neighbours are alike, of some hundred rows.
RUN_ON_RECORDINGS = """
[store]
path = "run.zarr"

[views.eeg]
source = "night1.edf"
channels = ["EEG*"]
window_s = 0.125
step_s = 0.125

[views.ecg]
source = "night1.edf"
channels = ["ECG*"]
window_s = 0.125
step_s = 0.125

[landmarks]
count = 60

[neighborhoods]
kind = "knn"
n_neighbors = 40

[cluster]
workers = 1
"""

RUN_ON_ARRAYS = """
[store]
path = "{store}"

[views.left]
source = "left.zarr"

[views.right]
source = "right.zarr"

[landmarks]
count = 60

[neighborhoods]
window = 9

[cluster]
workers = 1
"""


def give(*arguments: str) -> None:
    """A command that was given before the page begins."""
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output


def write_edf(path: str, minutes: int, signals: dict[str, np.ndarray]) -> None:
    """Signals as an EDF file that begins so many minutes after ten in the evening."""
    import edfio

    start = datetime(2021, 1, 1, 22) + timedelta(minutes=minutes)
    edfio.Edf(
        [
            edfio.EdfSignal(x, RATE, label=name, physical_dimension="uV", physical_range=(-40, 40))
            for name, x in signals.items()
        ],
        recording=edfio.Recording(startdate=start.date()),
        starttime=start.time(),
    ).write(path)


def write_night(path: str, night: int, seconds: int = 40) -> None:
    """Two sensors as an EEG and an ECG, of which some channels follow the same wandering."""
    from scipy.signal import lfilter

    rng = np.random.default_rng(night)
    z, left, right = lfilter([0.02], [1, -0.98], rng.standard_normal((3, seconds * RATE)), axis=1) * 5
    X = np.stack([z + left, np.tanh(z), left, z - right, np.sin(z), right])
    X += 0.01 * rng.standard_normal(X.shape)
    names = ("EEG 1", "EEG 2", "EEG 3", "ECG1", "ECG2", "ECG3")
    write_edf(path, 2 * night, dict(zip(names, X, strict=True)))


def write_rhythms(path: str, night: int, minutes: int) -> None:
    """Rhythms of brain and heart whose strength rises and falls together within minutes; others do so by themselves."""
    rng = np.random.default_rng(night)
    t = np.arange(minutes * 60 * RATE) / RATE

    def strength() -> np.ndarray:
        knots = np.arange(0, t[-1] + 120, 120)
        return 1 + 6 * np.interp(t, knots, rng.uniform(size=len(knots)))

    def rhythm(hz: float) -> np.ndarray:
        return np.sin(2 * np.pi * hz * t + rng.uniform(0, 6))

    common, brain, heart = strength(), strength(), strength()
    noise = rng.standard_normal((4, len(t)))
    signals = {
        "EEG 1": common * rhythm(2) + brain * rhythm(20) + noise[0],
        "EEG 2": common * rhythm(10) - brain * rhythm(21) + noise[1],
        "ECG": common * rhythm(6) + heart * rhythm(15) + noise[2],
        "Resp": common * rhythm(3) + heart * rhythm(11) + noise[3],
    }
    write_edf(path, 60 * night, signals)


def for_the_readme() -> None:
    """Two nights and the next one; the run file that the page shows, done in this process."""
    write_rhythms("night1.edf", 1, 40)
    write_rhythms("night2.edf", 2, 40)
    write_rhythms("tomorrow.edf", 3, 15)
    (shown,) = [block.text for block in doc_pages.blocks(doc_pages.ROOT / "README.md") if block.language == "toml"]
    Path("run.toml").write_text(shown + "\n[cluster]\nworkers = 1\n")


def two_nights() -> None:
    write_night("night1.edf", 1)
    write_night("night2.edf", 2)


def week_of_recordings() -> None:
    """A finished run on a night, the days after it, a run and a model of arrays, and arrays that are new."""
    Path("run.toml").write_text(RUN_ON_RECORDINGS)
    write_night("night1.edf", 1)
    for night, name in enumerate(("monday", "tuesday", "wednesday"), start=2):
        write_night(f"{name}.edf", night, 80)
    give("run", "run.toml", "--quiet")
    arrays("arrays.zarr", "arrays.toml")
    old = {name: zarr.open_array(f"{name}.zarr", mode="r")[:] for name in ("left", "right")}
    LocalCCA(landmarks=60, window=9, random_state=0).fit(old).save("saved.zarr")
    give("run", "arrays.toml", "--quiet")


def arrays(store: str = "run.zarr", file: str = "run.toml") -> None:
    """Views as arrays, further rows of them, and a run file."""
    for name, X in zip(("left", "right"), recordings(2, 600), strict=True):
        zarr.save_array(f"{name}.zarr", X[:400])
        zarr.save_array(f"new-{name}.zarr", X[400:])
    Path(file).write_text(RUN_ON_ARRAYS.format(store=store))


def run_with_labels() -> None:
    """A finished run, and what is known of each of its rows."""
    arrays()
    give("run", "run.toml", "--quiet")
    rows = np.arange(400)
    Path("hypnogram.csv").write_text("stage\n" + "".join(f"N{1 + i // 150}\n" for i in rows))
    np.savez("truth.npz", phase=rows / 10 % (2 * np.pi))


def pipeline_of_two_nights() -> None:
    """A pipeline with a model for each of its nights, so that there is one to go back to."""
    pipeline_file(Path.cwd(), more='\n[outputs]\npage = "page.html"\n[refit]\nnew_rows = 0.5\n')
    recorded(Path.cwd(), 1)
    give("pipeline", "run", "pipeline.toml", "--quiet")
    recorded(Path.cwd(), 2)


#: The pages that begin with something at hand.
PREPARED: dict[str, Callable[[], None]] = {
    "README.md": for_the_readme,
    "docs/how-to/new-recordings.md": week_of_recordings,
    "docs/how-to/pipelines.md": pipeline_of_two_nights,
    "docs/how-to/recordings.md": two_nights,
    "docs/how-to/report.md": run_with_labels,
    "docs/how-to/resume.md": arrays,
    "docs/how-to/tune.md": arrays,
}

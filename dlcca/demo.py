"""The demonstration: two movies of coupled pendulums, from simulation to report."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca import simulate
from dlcca.errors import Untrusted
from dlcca.estimator import LocalCCA
from dlcca.report import overview, page
from dlcca.report.figures import COLORS, INK, WIDE, Panel, panel
from dlcca.simulate import Truth
from dlcca.storage import model as model_store
from dlcca.storage import places
from dlcca.storage import run as run_store
from dlcca.storage.run import Run

#: Frames of the movies that the report shows.
FRAMES = 6


@dataclass(frozen=True)
class Demo:
    """The files and the results of the demonstration."""

    store: Path
    report: Path
    run: Run
    summary: str
    found: dict[str, float]  # |correlation| of the first coordinate with each pendulum


def run(out: Path, say: Callable[[str], None]) -> Demo:
    """Simulate, fit, store and report, in ``out``; other files there are kept."""
    store, report = out / "run.zarr", out / "report.html"
    # Before any work is done: can its results be written?
    places.refuse_folder(out)
    places.refuse_store(store, run_store.FORM, setting="--out", replace=True)
    page.refuse_foreign(report)
    say("simulating two movies of coupled pendulums")
    arrays, truth = simulate.pendulums(private=True, swing=2, random_state=0)
    views = {"movie 1": arrays[0], "movie 2": arrays[1]}
    say("fitting local canonical correlation analysis")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # reasons stay in `warnings_`
        model = LocalCCA(n_components=3, random_state=0).fit(views)
    fingerprint = run_store.fingerprint(views, model.settings_.to_dict())
    result = model._as_run(truth.time, time_unit="s", fingerprint=fingerprint)
    say(f"writing {store}")
    run_store.write(store, result, lambda group: model_store.write(group, *model._saved()))
    say(f"drawing {report}")
    known, coordinate = pendulums(truth), result.embedding[:, 0]
    found = {name: float(abs(np.corrcoef(coordinate, z)[0, 1])) for name, z in known.items()}
    hertz, names = truth.omega / (2 * np.pi), ("common, slow", "common, fast", "private 1", "private 2")
    text = page.render(
        overview.of_store(str(store), known=known),
        title="dlcca demo: two movies of coupled pendulums",
        lead=sentence(found),
        known=[movies(truth), against(result, truth, found), together(result, truth)],
        marks=dict(zip(names, hertz.tolist(), strict=True)),
    )
    page.write(report, text)
    return Demo(store, report, result, model.summary(), found)


def pendulums(truth: Truth) -> dict[str, NDArray]:
    """Displacements (n,) of the pendulums that the first coordinate is compared with."""
    return {
        "common pendulum": truth.z[:, 0],
        "private pendulum of movie 1": truth.nuisance[0][:, 0],
        "private pendulum of movie 2": truth.nuisance[1][:, 0],
    }


def sentence(found: dict[str, float]) -> str:
    """What the first coordinate is, in words."""
    common, *private = found.values()
    others = " and ".join(f"{value:.2f}" for value in private)
    verb = "follows" if common > 0.9 else "does not follow"
    return (
        f"The first coordinate {verb} the coupled pendulum: |correlation| {common:.2f} with its displacement, "
        f"{others} with those of the two private pendulums."
    )


def movies(truth: Truth) -> Panel:
    """Frames of both movies."""
    rows = np.linspace(0, len(truth.time) // 6, FRAMES).astype(int)

    def paint(figure: Any) -> None:
        axes = figure.subplots(2, FRAMES)
        for v, movie in enumerate(truth.movies):
            for ax, row in zip(axes[v], rows, strict=True):
                ax.imshow(movie[row], cmap="bone", vmin=0, vmax=1)
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(False)
                if v == 0:
                    ax.set_title(f"{truth.time[row]:.2f} s")
            axes[v, 0].set_ylabel(f"movie {v + 1}")

    caption = (
        "The left pendulums of the two movies are coupled by a spring; the right ones are private, slow in the first "
        "movie and fast in the second. The method sees 200 random projections of each frame, and nothing else."
    )
    return panel("What the two cameras see", caption, paint, label="Frames of the two movies", size=(WIDE[0], 2.75))


def against(result: Run, truth: Truth, found: dict[str, float]) -> Panel:
    """The first coordinate against the displacement of each pendulum."""

    def paint(figure: Any) -> None:
        axes = figure.subplots(1, len(found), sharey=True)
        for i, (ax, (name, z)) in enumerate(zip(axes, pendulums(truth).items(), strict=True)):
            ax.scatter(z, result.embedding[:, 0], s=9, linewidths=0, color=COLORS[0] if i == 0 else COLORS[1])
            ax.set(title=f"{name}\n|correlation| {found[name]:.2f}", xlabel="displacement [pixels]")
        axes[0].set_ylabel("coordinate 1")

    caption = (
        "A straight line where the coordinate has found a pendulum, anything else where it does not depend on it. "
        "The sign of a coordinate is arbitrary."
    )
    title = "The first coordinate against each pendulum"
    return panel(title, caption, paint, label="Coordinate against pendulums", size=(WIDE[0], 4.0))


def together(result: Run, truth: Truth) -> Panel:
    """The first coordinate and the common pendulum over time."""
    z = truth.z[:, 0] / truth.z[:, 0].std()
    coordinate = result.embedding[:, 0]
    sign = np.sign(np.corrcoef(z, coordinate)[0, 1])

    def paint(figure: Any) -> None:
        ax = figure.subplots()
        ax.plot(result.time, z, color=INK, alpha=0.35, linewidth=5, label="common pendulum")
        ax.plot(result.time, sign * coordinate, color=COLORS[0], linewidth=1.6, label="coordinate 1")
        ax.set(xlabel="time [s]", ylabel="in standard deviations")
        ax.margins(x=0.01)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2)

    caption = "The displacement of the first movie's coupled pendulum, and the coordinate found without knowing it."
    title = "The first coordinate and the common pendulum over time"
    return panel(title, caption, paint, label="Coordinate and pendulum over time", size=WIDE)

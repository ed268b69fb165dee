"""The figures of the pages, drawn anew with every build into ``_figures`` (not committed).

Each function below is a figure and its name the name of the file. They compute what they show, with the package
itself, in some seconds altogether. ``python docs/extensions/figures.py`` draws the picture of the README.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dlcca import LocalCCA, baselines, simulate
from dlcca.numerics.metrics.cca import local_cca

BLUE, RED, GREY = "#1f5fa8", "#c8261f", "#777777"
STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "dlcca",  # the same figure gives the same file
}
#: Points of a cloud are drawn as pixels, for thousands of them would make a large file.
CLOUD = {"s": 4, "rasterized": True}


def canvas(columns: int, *, width: float = 9.0, height: float = 3.1) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns)))


def likeness(a: NDArray, b: NDArray) -> float:
    """|correlation| of two series."""
    return float(abs(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]))


def local_distances() -> Figure:
    """A bent sheet: the common variable, and how far all samples are from one of them by two measures."""
    views, truth = simulate.spiral(4000, random_state=0)
    X = views[0]
    i = int(np.argmin((truth.z[:, 0] - 0.5) ** 2 + (truth.nuisance[0][:, 0] - 0.5) ** 2))
    joint = np.hstack([V / np.sqrt(V.var(axis=0).sum()) for V in views])
    near = np.argsort(((joint - joint[i]) ** 2).sum(axis=1))[:64]
    P, _, rho = local_cca(views[0][None, near], views[1][None, near], ridge=0.03)
    plain = np.linalg.norm(X - X[i], axis=1)
    local = np.linalg.norm((X - X[i]) @ (P[0] * rho[0]), axis=1)
    shown = (
        (truth.z[:, 0], "viridis", "the common variable z"),
        (plain, "magma", "plain distance from one sample"),
        (local, "magma", "distance by its local metric"),
    )
    figure, axes = canvas(3)
    for ax, (values, colors, title) in zip(axes, shown, strict=True):
        ax.scatter(X[:, 0], X[:, 1], c=values, cmap=colors, vmax=np.quantile(values, 0.9), **CLOUD)
        ax.plot(*X[i, :2], "o", color=RED, ms=8, mec="white")
        ax.set(title=title, xlabel="channel 1", ylabel="channel 2")
    return figure


def embeddings() -> Figure:
    """Two tori: what local CCA keeps of them, and what a diffusion map of one of them keeps."""
    views, truth = simulate.torus(1500, random_state=0)
    ours = LocalCCA(neighborhoods="knn", random_state=0).fit(views).embedding_
    alone = baselines.diffusion_maps(views).embedding
    around, along = (np.arctan2(both[:, 1], both[:, 0]) for both in (truth.z, truth.nuisance[0]))
    figure, axes = canvas(3)
    panels = ((ours, around, "local CCA, by the common angle"), (ours, along, "local CCA, by a private angle"))
    panels += ((alone, around, "diffusion map of one torus,\nby the common angle"),)
    for ax, (Z, angle, title) in zip(axes, panels, strict=True):
        dots = ax.scatter(*Z.T, c=angle, cmap="twilight", **CLOUD)
        ax.set(title=title, xlabel="coordinate 1", ylabel="coordinate 2", xticks=[], yticks=[])
    figure.colorbar(dots, ax=axes, label="angle [rad]")
    return figure


def common_motion() -> Figure:
    """Two pendulums that a spring couples move together, and are not functions of each other."""
    _, moving = simulate.pendulums(random_state=0)
    figure, (course, against) = canvas(2)
    course.plot(moving.time, moving.displacement, lw=1.4)
    course.legend(["movie 1", "movie 2"], loc="upper right", frameon=True)
    course.set(title="the coupled pendulum in each movie", xlabel="time [s]", ylabel="displacement [pixels]")
    against.scatter(*moving.displacement.T, color=BLUE, **CLOUD)
    against.set(title="no function leads from one to the other", xlabel="in movie 1", ylabel="in movie 2")
    return figure


def draw_found(ax: Any, tried: Any, found: list[tuple[float, float]], base: int = 10) -> None:
    """|correlation| of the first coordinate with the coupled and with the private pendulum, over a setting."""
    for values, name, color in zip(np.transpose(found), ("coupled", "private"), (BLUE, RED), strict=True):
        ax.semilogx(tried, values, "o-", color=color, label=f"{name} pendulum", base=base)
    ax.set(ylabel="|correlation| of coordinate 1", ylim=(0, 1.05))
    ax.legend(loc="center left")


def ridges() -> Figure:
    """The first coordinate of two movies with private pendulums, over the ridge."""
    views, truth = simulate.pendulums(private=True, random_state=0)
    tried = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3])
    found = []
    for ridge in tried:
        first = LocalCCA(n_components=1, ridge=ridge, landmarks=200).fit(views).embedding_
        found.append((likeness(first, truth.z), likeness(first, truth.nuisance[0])))
    figure, (ax, chance) = canvas(2)
    draw_found(ax, tried, found)
    ax.axvline(0.03, color=GREY, ls="--", lw=1)
    ax.text(0.031, 0.5, "default", color=GREY)
    ax.set(title="two movies, windows of 8 frames", xlabel="ridge")
    sizes = np.array([8, 12, 16, 24, 32, 48, 64, 96, 128, 256])
    rng = np.random.default_rng(0)
    for ridge, color in ((0.0, RED), (0.03, BLUE)):
        X, Y = rng.standard_normal((2, 200, sizes[-1], 8))
        tops = [np.median(local_cca(X[:, :k], Y[:, :k], ridge=ridge)[2][:, 0]) for k in sizes]
        chance.semilogx(sizes, tops, "o-", color=color, label=f"ridge {ridge:g}", base=2)
    chance.set(title="two views of 8 channels that share nothing", xlabel="samples in the neighborhood")
    chance.set(ylabel="largest correlation found", ylim=(0, 1.05))
    chance.legend()
    return figure


def windows() -> Figure:
    """How well the coupled pendulum is found, over the window."""
    views, truth = simulate.pendulums(private=True, n_projections=50, random_state=0)
    tried = (4, 8, 15, 31, 61)
    found = []
    for window in tried:
        first = LocalCCA(n_components=1, window=window, landmarks=200).fit(views).embedding_
        found.append((likeness(first, truth.z), likeness(first, truth.nuisance[0])))
    figure, (ax,) = canvas(1, width=5.5)
    draw_found(ax, tried, found, base=2)
    ax.set_xticks(tried, tried)
    ax.set(xlabel="window [frames]")
    return figure


def readme() -> Figure:
    """Two movies, and what is found in them."""
    views, truth = simulate.pendulums(private=True, swing=4, random_state=0)
    first = LocalCCA(n_components=1, window=8).fit(views).embedding_[:, 0]
    alone = baselines.diffusion_maps(views, 1).embedding[:, 0]
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=[1, 1, 1.9])
    for v, movie in enumerate(truth.movies):
        for column, frame in enumerate((0, int(truth.z.argmin()))):
            ax = figure.add_subplot(grid[v, column])
            ax.imshow(movie[frame], cmap="gray", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[], title=f"movie {v + 1}, {truth.time[frame]:.1f} s")
    series = (
        (first, "local CCA: the coupled pendulum", truth.z),
        (alone, "one movie alone: the private one", truth.nuisance[0]),
    )
    for row, (values, title, known) in enumerate(series):
        ax = figure.add_subplot(grid[row, 2])
        sign = np.sign(np.corrcoef(values, known[:, 0])[0, 1])
        for line, color, width in ((known[:, 0], "#bbbbbb", 3), (sign * values, BLUE, 1.3)):
            ax.plot(truth.time, (line - line.mean()) / line.std(), color=color, lw=width)
        ax.set(title=title, yticks=[], xlabel="time [s]" if row else "")
        ax.legend(["truth", "found"], loc="upper right", fontsize=8, framealpha=0.8, frameon=True)
    return figure


FIGURES = (local_distances, embeddings, common_motion, ridges, windows)


def draw(folder: Path) -> None:
    """All figures of the pages, as SVG."""
    folder.mkdir(exist_ok=True)
    for figure in FIGURES:
        save(figure, folder / f"{figure.__name__.replace('_', '-')}.svg")


def save(figure: Any, path: Path) -> None:
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some figures show what goes wrong
        drawn = figure()
        drawn.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: draw(Path(app.srcdir) / "_figures"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(inspect.getfile(draw)).parents[1] / "two-movies.png"
    save(readme, target)

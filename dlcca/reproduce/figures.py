"""The figures, like the paper's. Numbers in, figures out; nothing is computed here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dlcca.reproduce.measures import Shares, Spectrum

BLUE, RED, GREEN, BLACK, PINK, GREY = "#1f5fa8", "#c8261f", "#1a8a3a", "#222222", "#e0559b", "#888888"
#: Frequencies to mark in a spectrum, behind their name and colour.
Marks = tuple[str, str, Sequence[float] | NDArray]
#: Shares over x, by name.
Lines = Mapping[str, Sequence[Shares]]
#: The four icons' marks, in the paper's colours.
ICON_COLOURS = (RED, GREEN, BLACK, PINK)


def _grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, NDArray]:
    """A figure and its axes (rows, columns). Without pyplot: no state is shared, no window system needed."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def point_sets(z: NDArray, X: NDArray) -> Figure:
    """The hidden square and what is seen of it."""
    figure, axes = _grid(1, 2, 9, 4.2)
    titles = ("(a) hidden samples z", "(b) observations x")
    for ax, points, title, name in zip(axes[0], (z, X), titles, "zx", strict=True):
        dots = ax.scatter(*points.T, c=z[:, 0], s=12, cmap="viridis")
        ax.set(title=title, xlabel=f"${name}_1$ (no unit)", ylabel=f"${name}_2$ (no unit)")
    figure.colorbar(dots, ax=axes[0, 1], label="$z_1$ (no unit)")
    return figure


def distance_scatter(true: NDArray, estimates: Mapping[str, NDArray]) -> Figure:
    """Estimated squared distances against the true ones, on one scale."""
    figure, axes = _grid(1, len(estimates), 9, 4.4, sharey=True)
    highest = float(true.max())
    top = 1.05 * max(float(np.quantile(estimate, 0.99)) for estimate in estimates.values())
    for ax, (title, estimate) in zip(axes[0], estimates.items(), strict=True):
        ax.plot(true, estimate, ".", color=BLUE, ms=1.5, alpha=0.15, rasterized=True)
        ax.plot([0, highest], [0, highest], "--", color=RED, lw=1.5, label="equal")
        above = int((estimate > top).sum())
        note = f"\n({above} of {len(true)} pairs are above the frame)" if above else ""
        ax.set(title=title + note, xlabel="true $|z_i - z_j|^2$ (units of z, squared)", ylim=(0, top))
    axes[0, 0].set_ylabel("estimate (units of z, squared)")
    axes[0, 0].legend(loc="upper left", framealpha=1)
    return figure


def frames(rows: Mapping[str, Sequence[NDArray]], titles: Sequence[str], height: float) -> Figure:
    """Pictures, with a label for each row and a title for each column; ``height`` of a row in inches."""
    figure, axes = _grid(len(rows), len(titles), 9, height * len(rows) + 0.35)
    brightest = max(float(picture.max()) for pictures in rows.values() for picture in pictures)
    for line, (label, pictures) in zip(axes, rows.items(), strict=True):
        for ax, picture in zip(line, pictures, strict=True):
            ax.imshow(picture, cmap="gray", vmin=0, vmax=brightest)
            ax.set(xticks=[], yticks=[])
        line[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=10)
    return figure


def spectra(grid: Sequence[Mapping[str, tuple[Spectrum, Sequence[Marks]]]], *, unit: str, highest: float) -> Figure:
    """Spectra of first coordinates by title, in rows and columns, with marked frequencies."""
    figure, axes = _grid(len(grid), len(grid[0]), 10, 2 * len(grid) + 0.9, sharex=True, sharey=True)
    for line, panels in zip(axes, grid, strict=True):
        for ax, (title, (of, marks)) in zip(line, panels.items(), strict=True):
            ax.plot(of.frequency, np.sqrt(of.power), color=BLUE, lw=1.4, label="first coordinate")
            for name, colour, frequencies in marks:
                for i, frequency in enumerate(frequencies):
                    label = name if i == 0 else None
                    ax.axvline(frequency, color=colour, ls="--", lw=1.2, label=label, zorder=1)
            ax.set_title(title, loc="left", fontsize=11)
            ax.set(xlim=(0, highest), ylim=(0, 1.02))
    for ax in axes[-1]:
        ax.set_xlabel(f"frequency ({unit})")
    figure.supylabel("amplitude, total power 1 (no unit)", fontsize=10)
    _legend_below(figure, axes[0, -1])
    return figure


def _legend_below(figure: Figure, ax: Axes, columns: int = 5) -> None:
    """One legend for all panels, outside of them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9.5)


def shares(x: Sequence[int], columns: Mapping[str, Lines], *, xlabel: str, bounds: Sequence[float] = ()) -> Figure:
    """Shares of power at the common and the private harmonics over x, a column for each title.

    With ``bounds`` on both shares, values are points beside each other, because many are equal; else lines.
    """
    figure, axes = _grid(2, len(columns), 10, 5.8, sharex=True, sharey=True)
    styles = ((BLUE, "o"), (RED, "^"), (PINK, "s"), (BLACK, "x"), (GREEN, "+"))
    for column, (title, lines) in zip(axes.T, columns.items(), strict=True):
        for i, ((name, found), (colour, marker)) in enumerate(zip(lines.items(), styles, strict=False)):
            at = np.asarray(x) + (0.13 * (i - 2) if bounds else 0)
            for ax, values in zip(column, ([s.common for s in found], [s.private for s in found]), strict=True):
                ax.plot(at, values, marker, ls="" if bounds else "-", color=colour, lw=1.4, ms=5, label=name)
        for ax, bound in zip(column, bounds, strict=False):
            ax.axhline(bound, color=GREY, ls="--", lw=1.2)
        column[0].set(title=title, xticks=x, ylim=(-0.04, 1.04))
        column[1].set_xlabel(xlabel)
    for ax, whose in zip(axes[:, 0], ("common icon's", "private icons' own"), strict=True):
        ax.set_ylabel(f"share of power,\n{whose} harmonics")
    _legend_below(figure, axes[0, 0], columns=3)
    return figure

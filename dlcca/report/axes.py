"""What is drawn on matplotlib's axes, for the report and for `model.plot` alike: arrays in, artists on the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report.moments import Moments
from dlcca.report.spectrum import Spectrum
from dlcca.report.strength import Strength

#: Colours of lines, and of time from its beginning to its end; readable on white and on black.
COLORS = ("#3d84d6", "#e0763a", "#3aa070", "#b466c8", "#c79a1e", "#d6566a")
TIME_COLORS = ("#3566d0", "#b4539f", "#e8923c")
#: Above this many points they are drawn as pixels, inside of a figure of lines.
VECTOR_POINTS = 3000
#: Points along a line; a longer one is drawn through the extremes of as many stretches.
LINE_POINTS = 1500


def time_colors() -> Any:
    """The colours of time as a map of matplotlib."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("time", TIME_COLORS)


def draw_embedding(
    ax: Any, E: NDArray, color: NDArray, *, coordinates: Sequence[int] = (0, 1), cmap: Any = None, **style: Any
) -> Any:
    """Points of E (p, q) in two coordinates, or in three on axes that have them; ``color`` (p,) is a number each."""
    flat = getattr(ax, "name", "") != "3d"
    shown = list(coordinates)[: 2 if flat else 3]
    many = len(E) > VECTOR_POINTS
    look = {"s": 3 if many else 10, "linewidths": 0, "rasterized": many, "cmap": cmap or time_colors()}
    points = ax.scatter(*(E[:, i] for i in shown), c=color, **{**look, **style})
    names = [f"coordinate {i + 1}" for i in shown]
    ax.set(xlabel=names[0], ylabel=names[1])
    if flat:
        ax.set_aspect("equal", "datalim")  # a circle is to look like one
    else:
        ax.set_zlabel(names[2])
    return points


def draw_bands(ax: Any, E: NDArray, band: NDArray, shares: NDArray, *, coordinates: Sequence[int] = (0, 1)) -> None:
    """Crosses of one standard error, ``band`` (p, q), each way around points E (p, q); and what comes again, (q,)."""
    a, b = list(coordinates)[:2]
    ax.errorbar(
        E[:, a], E[:, b], band[:, b], band[:, a], fmt="none", ecolor="#888888", elinewidth=0.7, alpha=0.6, zorder=0
    )
    ax.set(xlabel=f"coordinate {a + 1} ({shares[a]:.0%} again)", ylabel=f"coordinate {b + 1} ({shares[b]:.0%} again)")


def draw_eigenvalues(ax: Any, values: NDArray, *, ink: str | None = None) -> None:
    """Bars of the eigenvalues (q,), and the largest gap between two that follow each other."""
    q = len(values)
    bars = ax.bar(np.arange(1, q + 1), values, width=0.6, color=COLORS[0])
    if q <= 12:
        ax.bar_label(bars, fmt="%.3f", padding=3, fontsize=10, **({} if ink is None else {"color": ink}))
        ax.set_xticks(np.arange(1, q + 1))
    gap = largest_gap(values)
    if gap is not None:
        after, size = gap
        top, bottom = values[after - 1], values[after]
        ax.hlines([top, bottom], [after, after], [after + 0.5] * 2, color=COLORS[1], linewidth=1)
        arrow = {"arrowstyle": "<->", "color": COLORS[1], "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (after + 0.5, bottom), (after + 0.5, top), arrowprops=arrow)
        height = max(top, bottom + 0.15)  # above the label of the next bar
        ax.text(after + 0.58, height, f"gap {size:.2f}", color=COLORS[1], va="center", gid="gap")
    room = max(0.6, (6 - q) / 2)  # a few bars do not grow as wide as the figure
    ax.set(xlabel="coordinate", ylabel="eigenvalue", ylim=(0, 1.12), xlim=(1 - room, q + room))


def largest_gap(values: NDArray) -> tuple[int, float] | None:
    """After which coordinate eigenvalues fall most, counted from 1, and by how much; None for a single one."""
    falls = -np.diff(np.asarray(values, np.float64))
    if not len(falls):
        return None
    at = int(np.argmax(falls))
    return at + 1, float(falls[at])


def draw_spectrum(
    ax: Any, found: Spectrum, unit: str, *, marks: Mapping[str, float] | None = None, most: int = 4, ink: str = "gray"
) -> None:
    """A line for each coordinate; ``marks`` are known frequencies, by name."""
    marks = marks or {}
    highest = max([found.enough, *(1.15 * mark for mark in marks.values())])
    seen = found.frequency <= highest
    count = min(found.amplitude.shape[1], most)
    for i in range(count):
        line = stretched(found.frequency[seen], found.amplitude[seen, i])
        ax.plot(*line, label=f"coordinate {i + 1}", color=COLORS[i % len(COLORS)], zorder=3 - i / count)
    top = float(found.amplitude[seen, :count].max() or 1.0) * 1.06
    for name, mark in marks.items():
        ax.axvline(mark, color=ink, alpha=0.5, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        ax.text(mark, top, name, rotation=35, rotation_mode="anchor", fontsize=10)
    ax.set(xlabel=f"frequency [{unit}]", ylabel="amplitude", xlim=(0, highest), ylim=(0, top))


def draw_strength(ax: Any, found: Strength, moments: Moments, *, as_line: bool = True) -> None:
    """Strength over time with its course, and the band of what views that share nothing would reach."""
    if found.band is not None:
        low, high = found.band.T
        label = "by chance"
        ax.fill_between(found.time, low, high, color=COLORS[1], alpha=0.18, linewidth=0, label=label, gid="chance")
        ax.plot(found.time, high, color=COLORS[1], linewidth=1.2, linestyle=(0, (4, 3)))
    if as_line:
        x, y = stretched(found.time, found.value)
        ax.plot(x, y, color=COLORS[0], linewidth=0.9, alpha=0.55, label="at the landmarks")
        middles, medians = found.course()
        if len(middles) < len(found.time):
            ax.plot(middles, medians, color=COLORS[0], linewidth=2.4, label="median")
    else:
        ax.plot(found.time, found.value, ".", color=COLORS[0], markersize=3, label="at the landmarks")
    top = float(np.nanmax(found.value, initial=0.0))
    if found.band is not None:
        top = max(top, float(np.nanmax(found.band)))
    ax.set(ylabel=found.label, ylim=(0, 1.02 if top <= 1 else 1.05 * top))
    ax.margins(x=0.01)
    moments.dress(ax)


def stretched(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    """A long line as the extremes of its stretches, drawn alike with far fewer points."""
    width = len(x) // LINE_POINTS
    if width < 2:
        return x, y
    n = len(x) // width * width
    parts = y[:n].reshape(-1, width)
    lows_and_highs = np.column_stack([parts.min(axis=1), parts.max(axis=1)]).ravel()
    return np.append(np.repeat(x[:n:width], 2), x[n:]), np.append(lows_and_highs, y[n:])

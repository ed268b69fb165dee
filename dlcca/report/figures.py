"""The figures of a report: a run in, panels with inline SVG out.

Text and axes are drawn in the colour of the page's text, so that a figure suits light pages, dark pages and paper.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.stores.run import Run

#: Colours of lines, and of time from its beginning to its end; readable on white and on black.
COLORS = ("#3d84d6", "#e0763a", "#3aa070", "#b466c8", "#c79a1e", "#d6566a")
TIME_COLORS = ("#3566d0", "#b4539f", "#e8923c")
#: Sizes in inches that come out alike in the page's columns, one or two of them wide.
NARROW, WIDE = (6.3, 3.4), (13.0, 3.4)
#: Stands for the page's own text colour until the figure is in the page.
INK = "#010203"

#: Above this many samples points are thinned, and drawn as pixels inside the SVG.
VECTOR_SAMPLES = 3000
MOST_POINTS = 20_000
#: A line is drawn through the extremes of this many stretches.
STRETCHES = 1500
#: Coordinates that are drawn; further ones say little, and lines would cover each other.
MOST_COORDINATES = 4

_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "font.family": "sans-serif",
    "svg.fonttype": "none",  # text stays text: smaller, selectable, in the page's font
    "svg.hashsalt": "dlcca",  # the same run gives the same file
    "axes.prop_cycle": f"cycler('color', {list(COLORS)})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}


@dataclass(frozen=True)
class Panel:
    """A figure with its title and a sentence on how to read it."""

    title: str
    caption: str
    picture: str  # SVG
    wide: bool = False


def drawn(paint: Callable[[Any], None], label: str, *, size: tuple[float, float] = NARROW) -> str:
    """The SVG of what ``paint`` puts on a figure of this size in inches; ``label`` is read to those who cannot see."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        paint(figure)
        out = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, dpi=160, metadata=nothing)
    return _inline(out.getvalue(), label)


def _inline(svg: str, label: str) -> str:
    """An SVG file as a part of a page: no headers, no size of its own, names that no other figure has."""
    name = re.sub(r"\W+", "-", label.lower()).strip("-")
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', svg)
    body = re.sub(r"<style.*?</style>", "", svg[svg.index(">") + 1 :], flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(|xlink:href=")#', rf"\1#{name}-", body)
    body = body.replace(INK, "currentColor")
    return f'<svg {box.group() if box else ""} role="img" aria-label="{escape(label)}">{body}'


def time_label(run: Run) -> str:
    """What stands under an axis of time."""
    return "time [s]" if run.time_unit == "s" else "sample"


def has_clock(run: Run) -> bool:
    """Whether the order of the samples means something; neighbours in state need none."""
    return run.time_unit == "s" or run.settings.get("neighborhoods", {}).get("kind") != "knn"


def panels(run: Run, marks: Mapping[str, float] | None = None) -> list[Panel]:
    """All figures that this run has something to show in; ``marks`` are known frequencies, by name."""
    made = [embedding(run), coordinates(run), spectra(run, marks or {}), eigenvalues(run)]
    narrow = [panel for panel in made if panel is not None]
    last = correlations(run, wide=len(narrow) % 2 == 0)  # two columns: no gap before or after it
    return narrow if last is None else [*narrow, last]


def embedding(run: Run) -> Panel | None:
    """The first coordinates against each other, coloured by time."""
    q = run.embedding.shape[1]
    if q < 2:
        return None
    shown = _thinned(len(run.embedding))

    def paint(figure: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        colors = LinearSegmentedColormap.from_list("time", TIME_COLORS)
        axes = figure.subplots(1, min(q - 1, 2), squeeze=False)[0]
        for other, ax in enumerate(axes, start=1):
            points = ax.scatter(
                run.embedding[shown, 0],
                run.embedding[shown, other],
                c=run.time[shown],
                cmap=colors,
                s=9 if len(shown) <= VECTOR_SAMPLES else 2,
                linewidths=0,
                rasterized=len(shown) > VECTOR_SAMPLES,
            )
            ax.set(xlabel="coordinate 1", ylabel=f"coordinate {other + 1}")
            ax.set_aspect("equal", "datalim")  # a circle is to look like one
        bar = figure.colorbar(points, ax=list(axes), label=time_label(run))
        bar.outline.set_visible(False)

    caption = "One point for each sample. When one variable is common, the points lie along a curve: further "
    caption += "coordinates then bend with the first and tell nothing new."
    if len(shown) < len(run.embedding):
        caption += f" {len(shown)} of {len(run.embedding)} samples are shown."
    return Panel("The samples in their common coordinates", caption, drawn(paint, "Embedding, coloured by time"))


def coordinates(run: Run) -> Panel:
    """Every coordinate over time, one below the other."""
    count = min(run.embedding.shape[1], MOST_COORDINATES)

    def paint(figure: Any) -> None:
        axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        for i, ax in enumerate(axes):
            _plot(ax, run, run.time, run.embedding[:, i], color=COLORS[i], linewidth=1.2)
            ax.set(ylabel=f"coord. {i + 1}")
            ax.margins(x=0.01)
        axes[-1].set_xlabel(time_label(run))

    caption = "What each coordinate does in the course of the recording. Coordinates have mean square one and no unit."
    if count < run.embedding.shape[1]:
        caption += f" The first {count} of {run.embedding.shape[1]} are shown."
    size = (NARROW[0], max(NARROW[1], 1.2 * count))
    title = "Coordinates over time" if has_clock(run) else "Coordinates, sample by sample"
    return Panel(title, caption, drawn(paint, "Coordinates over time", size=size))


def spectra(run: Run, marks: Mapping[str, float]) -> Panel | None:
    """The amplitude spectrum of every coordinate, if the samples are evenly spaced in time."""
    step = _even_step(run.time) if has_clock(run) else None
    if step is None:
        return None
    count = min(run.embedding.shape[1], MOST_COORDINATES)
    frequencies, amplitudes = _spectrum(run.embedding[:, :count], step)
    highest = max([_enough(frequencies, amplitudes), *(1.15 * mark for mark in marks.values())])
    seen = frequencies <= highest
    unit = "Hz" if run.time_unit == "s" else "cycles per sample"

    def paint(figure: Any) -> None:
        ax = figure.subplots()
        for i in range(count):
            line = stretched(frequencies[seen], amplitudes[seen, i])
            ax.plot(*line, label=f"coord. {i + 1}", color=COLORS[i], zorder=3 - i / count)
        top = amplitudes.max() * 1.06
        for name, mark in marks.items():
            ax.axvline(mark, color=INK, alpha=0.5, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
            ax.text(mark, top, name, rotation=35, rotation_mode="anchor", fontsize=10)
        ax.set(xlabel=f"frequency [{unit}]", ylabel="amplitude", xlim=(0, highest), ylim=(0, top))
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=count)

    caption = "Which oscillations each coordinate holds" + (
        "; dashed lines mark frequencies that are known to be in the recordings." if marks else "."
    )
    size = (NARROW[0], 4.2 if marks else NARROW[1])
    return Panel("Spectra of the coordinates", caption, drawn(paint, "Spectra of the coordinates", size=size))


def eigenvalues(run: Run) -> Panel:
    """The eigenvalues of the diffusion, without the trivial 1."""
    q = len(run.eigenvalues)

    def paint(figure: Any) -> None:
        ax = figure.subplots()
        bars = ax.bar(np.arange(1, q + 1), run.eigenvalues, width=0.6, color=COLORS[0])
        if q <= 12:
            ax.bar_label(bars, fmt="%.3f", padding=3, fontsize=10, color=INK)
            ax.set_xticks(np.arange(1, q + 1))
        room = max(0.5, (6 - q) / 2)  # a few bars do not grow as wide as the figure
        ax.set(xlabel="coordinate", ylabel="eigenvalue", ylim=(0, 1.12), xlim=(1 - room, q + room))

    caption = "How slowly diffusion forgets each coordinate: near 1 it varies slowly over the data and is well "
    caption += "determined, near 0 it is fine detail or noise. The trivial eigenvalue 1 is left out."
    return Panel("Eigenvalues", caption, drawn(paint, "Eigenvalues"))


def correlations(run: Run, *, wide: bool = True) -> Panel | None:
    """The local correlations at the landmarks, with what independent views reach by chance."""
    r = run.correlations.shape[1] if run.correlations.ndim == 2 else 0
    if r == 0 or len(run.views) < 2:
        return None
    order = np.argsort(run.time[run.landmarks], kind="stable")
    time, rho = run.time[run.landmarks][order], run.correlations[order]
    edge = run.quality.get("null_edge")

    def paint(figure: Any) -> None:
        ax = figure.subplots()
        for i, (name, alpha) in enumerate((("first", 1.0), ("second", 0.6), ("third", 0.4))[:r]):
            style: dict[str, Any] = {"color": COLORS[0], "alpha": alpha, "linewidth": 1.4 if i == 0 else 1}
            _plot(ax, run, time, rho[:, i], label=name, **style)
        if edge is not None:
            ax.axhline(edge, color=COLORS[1], linestyle=(0, (4, 3)), linewidth=1.4, label="chance")
        ax.set(xlabel=time_label(run), ylabel="correlation", ylim=(0, 1.02))
        ax.margins(x=0.01)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=4)

    caption = "How closely the views move together around each landmark, along their best directions. Above the dashed "
    caption += "line is what independent views would hardly ever reach."
    picture = drawn(paint, "Local correlations at the landmarks", size=WIDE if wide else NARROW)
    return Panel("Local correlations", caption, picture, wide)


def _plot(ax: Any, run: Run, time: NDArray, values: NDArray, **style: Any) -> None:
    """Values over time as a line, or as points where the order of the samples means nothing."""
    if has_clock(run):
        ax.plot(*stretched(time, values), **style)
        return
    shown = _thinned(len(values))
    few = len(shown) <= VECTOR_SAMPLES
    points = {"linestyle": "", "marker": ".", "markersize": 4 if few else 1.5, "rasterized": not few}
    ax.plot(time[shown], values[shown], **style, **points)


def stretched(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    """A long line as the extremes of its stretches, drawn alike with far fewer points."""
    width = len(x) // STRETCHES
    if width < 2:
        return x, y
    n = len(x) // width * width
    parts = y[:n].reshape(-1, width)
    lows_and_highs = np.column_stack([parts.min(axis=1), parts.max(axis=1)]).ravel()
    return np.append(np.repeat(x[:n:width], 2), x[n:]), np.append(lows_and_highs, y[n:])


def _thinned(n: int) -> NDArray[np.int64]:
    """Rows of the points that are drawn."""
    return np.arange(0, n, max(1, -(-n // MOST_POINTS)))


def _even_step(time: NDArray) -> float | None:
    """The time between samples, if it is the same throughout."""
    steps = np.diff(time)
    even = len(steps) > 2 and steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-4)
    return float(np.mean(steps)) if even else None


def _spectrum(X: NDArray, step: float) -> tuple[NDArray, NDArray]:
    """Frequencies and amplitudes of the columns of X under a Hann window, padded to a smooth curve."""
    n = len(X)
    window = np.hanning(n)[:, None]
    padded = 4 * n if n <= MOST_POINTS else n
    X = X - np.nanmean(X, axis=0)
    X = np.where(np.isnan(X), 0, X)  # rows that were left out of the fit
    amplitudes = np.abs(np.fft.rfft(X * window, padded, axis=0)) * 2 / window.sum()
    return np.fft.rfftfreq(padded, step), amplitudes


def _enough(frequencies: NDArray, amplitudes: NDArray) -> float:
    """The frequency below which nearly all of the power lies."""
    power = np.cumsum((amplitudes**2).sum(axis=1))
    at = int(np.searchsorted(power, 0.98 * power[-1]))
    return float(min(1.4 * frequencies[at], frequencies[-1]))

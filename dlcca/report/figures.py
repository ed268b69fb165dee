"""Figures: what is drawn on matplotlib's axes, for the report and for `model.plot` alike, and inline SVG for a page.

In a page, text and axes have the colour of the page's text, so that a figure suits light pages, dark pages and paper.
"""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report.landmarks import Strength
from dlcca.report.spectrum import Spectrum
from dlcca.report.time_axis import TimeAxis

#: Colours of lines, and of time from its beginning to its end; readable on white and on black.
COLORS = ("#3d84d6", "#e0763a", "#3aa070", "#b466c8", "#c79a1e", "#d6566a")
TIME_COLORS = ("#3566d0", "#b4539f", "#e8923c")
#: Above this many points they are drawn as pixels, inside of a figure of lines.
VECTOR_POINTS = 3000
#: Points along a line; of a longer one the envelope is drawn.
LINE_POINTS = 1500
Size = tuple[float, float]
#: Sizes in inches that come out alike in the page's columns, one or two of them wide.
NARROW, WIDE = (6.3, 3.4), (13.0, 3.4)
#: Placeholder for the text colour of the page.
INK = "#010203"

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


def time_colors() -> Any:
    """The colours of time as a colormap."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("time", TIME_COLORS)


def draw_embedding(ax: Any, E: NDArray, color: NDArray, *, coordinates: Sequence[int] = (0, 1), **style: Any) -> Any:
    """Points of E (p, q) in two coordinates, or in three on axes that have them; ``color`` (p,) is a number each."""
    flat = getattr(ax, "name", "") != "3d"
    shown = list(coordinates)[: 2 if flat else 3]
    many = len(E) > VECTOR_POINTS
    look = {"c": color, "s": 3 if many else 10, "linewidths": 0, "rasterized": many, "cmap": time_colors()}
    points = ax.scatter(*(E[:, i] for i in shown), **{**look, **style})
    names = [f"coordinate {i + 1}" for i in shown]
    ax.set(xlabel=names[0], ylabel=names[1])
    if flat:
        ax.set_aspect("equal", "datalim")  # a circle has to look like one
    else:
        ax.set_zlabel(names[2])
    return points


def draw_bands(ax: Any, E: NDArray, band: NDArray, shares: NDArray, *, coordinates: Sequence[int] = (0, 1)) -> None:
    """Crosses of one standard error, ``band`` (p, q), around points E (p, q); ``shares`` (q,) label the axes."""
    a, b = list(coordinates)[:2]
    look = {"fmt": "none", "ecolor": "#888888", "elinewidth": 0.7, "alpha": 0.6, "zorder": 0}
    ax.errorbar(E[:, a], E[:, b], band[:, b], band[:, a], **look)
    ax.set(xlabel=reproduced_label(a, shares), ylabel=reproduced_label(b, shares))


def reproduced_label(i: int, shares: Sequence[float] | NDArray) -> str:
    """The label of the axis of a coordinate, with the share of it that fits to halves of the samples reproduce."""
    return f"coordinate {i + 1} ({shares[i]:.2f} reproduced)"


def draw_eigenvalues(ax: Any, values: NDArray, *, ink: str | None = None) -> None:
    """Bars of the eigenvalues (q,), and the largest gap between two that follow each other."""
    q = len(values)
    bars = ax.bar(np.arange(1, q + 1), values, width=0.6, color=COLORS[0])
    if q <= 12:
        ax.bar_label(bars, fmt="%.3f", padding=3, fontsize=10, **({} if ink is None else {"color": ink}))
        ax.set_xticks(np.arange(1, q + 1))
    if gap := largest_gap(values):
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
    """After which coordinate eigenvalues drop most, counted from 1, and by how much; None for a single one."""
    falls = -np.diff(np.asarray(values, np.float64))
    return (int(np.argmax(falls)) + 1, float(falls.max())) if len(falls) else None


def draw_spectrum(
    ax: Any, found: Spectrum, unit: str, *, marks: Mapping[str, float] | None = None, most: int = 4, ink: str = "gray"
) -> None:
    """A line for each coordinate; ``marks`` are known frequencies, by name."""
    marks = marks or {}
    highest = max([found.enough, *(1.15 * mark for mark in marks.values())])
    seen = found.frequency <= highest
    count = min(found.amplitude.shape[1], most)
    for i in range(count):
        line = envelope(found.frequency[seen], found.amplitude[seen, i])
        ax.plot(*line, label=f"coordinate {i + 1}", color=COLORS[i % len(COLORS)], zorder=3 - i / count)
    top = float(found.amplitude[seen, :count].max() or 1.0) * 1.06
    for name, mark in marks.items():
        ax.axvline(mark, color=ink, alpha=0.5, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        ax.text(mark, top, name, rotation=35, rotation_mode="anchor", fontsize=10)
    ax.set(xlabel=f"frequency [{unit}]", ylabel="amplitude", xlim=(0, highest), ylim=(0, top))


def draw_strength(ax: Any, found: Strength, time_axis: TimeAxis, *, as_line: bool = True) -> None:
    """Strength over time with its running median, and the range for views that share nothing."""
    top = float(np.nanmax(found.value, initial=0.0))
    if found.chance is not None:
        top = max(top, float(np.nanmax(found.chance)))
        look = {"color": COLORS[1], "alpha": 0.18, "linewidth": 0, "label": "by chance", "gid": "chance"}
        ax.fill_between(found.time, 0, found.chance, **look)
        ax.plot(found.time, found.chance, color=COLORS[1], linewidth=1.2, linestyle=(0, (4, 3)))
    if as_line:
        x, y = envelope(found.time, found.value)
        ax.plot(x, y, color=COLORS[0], linewidth=0.9, alpha=0.55, label="at the landmarks")
        middles, medians = found.course()
        if len(middles) < len(found.time):
            ax.plot(middles, medians, color=COLORS[0], linewidth=2.4, label="median")
    else:
        ax.plot(found.time, found.value, ".", color=COLORS[0], markersize=3, label="at the landmarks")
    ax.set(ylabel=found.label, ylim=(0, 1.02 if top <= 1 else 1.05 * top))
    ax.margins(x=0.01)
    time_axis.apply(ax)


def envelope(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    """A long line as the extremes of its stretches: it looks the same, with far fewer points."""
    width = len(x) // LINE_POINTS
    if width < 2:
        return x, y
    n = len(x) // width * width
    parts = y[:n].reshape(-1, width)
    lows_and_highs = np.column_stack([parts.min(axis=1), parts.max(axis=1)]).ravel()
    return np.append(np.repeat(x[:n:width], 2), x[n:]), np.append(lows_and_highs, y[n:])


@dataclass(frozen=True)
class Panel:
    """A figure with its title and caption."""

    title: str
    caption: str
    picture: str  # SVG, and data for a script
    wide: bool = False
    still: bool = False  # hidden where the explorer shows the same


def panel(
    title: str, caption: str, paint: Callable[[Any], Any], *, label: str = "", size: Size = NARROW, still: bool = False
) -> Panel:
    """A panel with the SVG of what ``paint`` draws on a figure of this size in inches.

    ``label`` is for screen readers, the title if not given. A `Reading` that ``paint`` returns becomes a data block.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure, out = Figure(figsize=size, layout="constrained"), io.StringIO()
        read = paint(figure)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, dpi=160, metadata=nothing)
        picture = _inline(out.getvalue(), label or title)
        if isinstance(read, Reading):
            picture = f"{picture}\n{data_block(read.document(size), 'reading')}"
    return Panel(title, caption, picture, size[0] == WIDE[0], still)


@dataclass(frozen=True)
class Reading:
    """Values of lines over x, shown at the pointer."""

    axes: Sequence[Any]  # one below the other, with one x axis
    x: NDArray  # (t,) rising
    lines: Mapping[str, NDArray]  # (t,) each
    unit: str  # of x: "time", or the text behind the number

    def document(self, size: Size) -> dict[str, Any]:
        """For a script: the numbers, and the place of the axes in a picture of this size in inches."""
        first, last = self.axes[0].get_position(), self.axes[-1].get_position()
        width, height = 72 * size[0], 72 * size[1]
        box = (first.x0 * width, (1 - first.y1) * height, first.width * width, (first.y1 - last.y0) * height)
        lines = {name: envelope(self.x, y) for name, y in self.lines.items()}
        x = next(iter(lines.values()))[0]
        return {
            "box": [_short(v) for v in box],
            "xlim": [float(v) for v in self.axes[0].get_xlim()],
            "unit": self.unit,
            "x": [_short(v, 9) for v in x],
            "lines": {name: [_short(v) for v in y] for name, (_, y) in lines.items()},
        }


def data_block(document: Any, name: str) -> str:
    """Data in a page, for its script; escaped, so that nothing in it can end the block or run."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'<script type="application/json" class="{name}">{safe}</script>'


def _short(value: float, digits: int = 4) -> float | None:
    """A number with few digits; None for NaN and infinity, which JSON does not have."""
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def _inline(svg: str, label: str) -> str:
    """An SVG file as a part of a page: without headers and size, and with ids that no other figure has."""
    name = re.sub(r"\W+", "-", label.lower()).strip("-")
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', svg)
    body = re.sub(r"<style.*?</style>", "", svg[svg.index(">") + 1 :], flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(|xlink:href=")#', rf"\1#{name}-", body)
    body = body.replace(INK, "currentColor")
    return f'<svg {box.group() if box else ""} role="img" aria-label="{escape(label)}">{body}'

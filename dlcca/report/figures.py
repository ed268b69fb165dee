"""How figures are drawn for a page: inline SVG in the page's own colours, with the numbers behind it for a script.

Text and axes are drawn in the colour of the page's text, so that a figure suits light pages, dark pages and paper.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report.axes import COLORS, TIME_COLORS, VECTOR_POINTS, stretched

__all__ = ["COLORS", "INK", "NARROW", "TIME_COLORS", "VECTOR_POINTS", "WIDE", "Panel", "Reading", "drawn", "time_label"]

#: Sizes in inches that come out alike in the page's columns, one or two of them wide.
NARROW, WIDE = (6.3, 3.4), (13.0, 3.4)
#: Stands for the page's own text colour until the figure is in the page.
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


@dataclass(frozen=True)
class Panel:
    """A figure with its title and a sentence on how to read it."""

    title: str
    caption: str
    picture: str  # SVG, and numbers for a script
    wide: bool = False
    still: bool = False  # left out where a script shows the same, to be turned and searched


@dataclass(frozen=True)
class Reading:
    """What a pointer on a figure is told: values of lines over x."""

    axes: Sequence[Any]  # one below the other, with one x axis
    x: NDArray  # (t,) rising
    lines: Mapping[str, NDArray]  # (t,) each
    unit: str  # of x: "time", or what stands behind the number

    def document(self, size: tuple[float, float]) -> dict[str, Any]:
        """For a script: the numbers, and where in a picture of this size in points the axes are."""
        first, last = self.axes[0].get_position(), self.axes[-1].get_position()
        width, height = size
        box = (first.x0 * width, (1 - first.y1) * height, first.width * width, (first.y1 - last.y0) * height)
        lines = {name: stretched(self.x, y) for name, y in self.lines.items()}
        x = next(iter(lines.values()))[0]
        return {
            "box": [_short(v) for v in box],
            "xlim": [float(v) for v in self.axes[0].get_xlim()],
            "unit": self.unit,
            "x": [_short(v, 9) for v in x],
            "lines": {name: [_short(v) for v in y] for name, (_, y) in lines.items()},
        }


def drawn(paint: Callable[[Any], Any], label: str, *, size: tuple[float, float] = NARROW) -> str:
    """The SVG of what ``paint`` puts on a figure of this size in inches; ``label`` is read to those who cannot see.

    A `Reading` that ``paint`` returns is kept beside it, for a script that tells values.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        read = paint(figure)
        out = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, dpi=160, metadata=nothing)
        picture = _inline(out.getvalue(), label)
        if not isinstance(read, Reading):
            return picture
        points = (72 * size[0], 72 * size[1])
        return f"{picture}\n{data_block(read.document(points), 'reading')}"


def data_block(document: Any, name: str) -> str:
    """Numbers in a page, for its script; nothing in them can end the block or run."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'<script type="application/json" class="{name}">{safe}</script>'


def time_label(run: Any) -> str:
    """What stands under an axis of time."""
    return "time [s]" if run.time_unit == "s" else "sample"


def _short(value: float, digits: int = 4) -> float | None:
    """A number in few characters; None for what JSON cannot say."""
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


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

"""The baselines beside local CCA: the table and the figures of a comparison."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report import figures
from dlcca.report.figures import COLORS, INK, WIDE, Panel, panel
from dlcca.storage.comparison import Comparison

#: Columns of the table: key, heading, and what it means.
COLUMNS = (
    ("score", "score", "the truth predicted from the coordinates, in rows that are held out"),
    ("control", "control", "the same for views that are {} against each other"),
    ("min_view_r2", "view R²", "R² of the coordinates predicted from one view, for the view with the lowest R²"),
    ("min_view_r2_control", "control", "the same for views that are {}"),
    ("gain", "gain", "view R² minus its control"),
    ("shared_bits", "bits shared", "bits per row that every view has on the coordinates, a lower bound if Gaussian"),
    ("shared_bits_control", "control", "the same for views that are {}"),
    ("r2_to_local_cca", "R² to local CCA", "R² of the coordinates of local CCA predicted from those of the method"),
    ("r2_from_local_cca", "R² from local CCA", "R² of the method's coordinates predicted from those of local CCA"),
)
#: A cyclic colormap for a phase, and one colour for each label; others have the colours of time.
COLORMAPS = {"phase": "twilight", "label": "tab10"}
#: Pictures in a row of them.
ACROSS = 4


def columns(made: Comparison) -> list[tuple[str, str, str]]:
    """The columns in which a method has a figure; that of the truth is headed by its measure."""
    found = [column for column in COLUMNS if any(entry[column[0]] is not None for entry in made.table)]
    measure = made.facts.get("score") or "score"
    how = made.facts["control"]
    return [(key, measure if key == "score" else heading, why.format(how)) for key, heading, why in found]


def cell(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.3f}"


def description(facts: Mapping[str, Any]) -> str:
    """What was compared and how, in a few sentences."""
    rows, of_rows = facts["rows"], facts["of_rows"]
    which = f"All {rows} rows" if rows == of_rows else f"{rows} of {of_rows} rows, spread evenly,"
    text = f"{which} were compared, with {facts['coordinates']} coordinates of each method. Predictions are means of "
    text += f"the {facts['neighbors']} nearest rows, in five-fold cross-validation over "
    if facts["folds"] == "random":
        text += "random rows. In the control the rows of the views are shuffled: what remains there comes from one "
        return text + "view or from chance."
    text += "stretches of the recording. In the control the views are shifted in time: what remains there comes from "
    return text + "one view, from chance, or from a rhythm so regular that a shift does not change it."


def content(made: Comparison, time: NDArray) -> dict[str, Any]:
    """What a page shows of it; ``time`` of the compared rows colours them where no truth is known."""
    shown = columns(made)
    return {
        "description": description(made.facts),
        "heads": ["method", *(heading for _, heading, _ in shown), "note"],
        "meanings": {i: why for i, (_, _, why) in enumerate(shown, start=1)},
        "rows": [(e["method"], *(cell(e[key]) for key, _, _ in shown), e["note"]) for e in made.table],
        "panels": [each for each in (bars(made), pictures(made, time)) if each is not None],
    }


def bars(made: Comparison) -> Panel | None:
    """What each method reaches, and what it reaches in the control."""
    kind = ("score", "control") if made.facts.get("score") else ("min_view_r2", "min_view_r2_control")
    entries = [entry for entry in made.table if entry[kind[0]] is not None]
    if not entries:
        return None
    label, how = made.facts.get("score") or "R² from one view, the lowest", made.facts["control"]

    def paint(figure: Any) -> None:
        ax, at = figure.subplots(), np.arange(len(entries))[::-1]
        for offset, key, color, name in ((0.2, kind[0], COLORS[0], "views"), (-0.2, kind[1], COLORS[1], how)):
            values = [max(0.0, entry[key] or 0.0) for entry in entries]
            shown = ax.barh(at + offset, values, height=0.36, color=color, label=name)
            ax.bar_label(shown, [cell(entry[key]) for entry in entries], padding=4, fontsize=10, color=INK)
        ax.set_yticks(at, [entry["method"] for entry in entries])
        ax.set(xlabel=label, xlim=(0, 1.08))
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2)

    what = made.facts.get("truth")
    caption = f"{what} predicted from the coordinates" if what else "R² from one view, the lowest, of the coordinates"
    caption += f" of each method; and the same for views that are {how}, as a control."
    return panel("What each method finds", caption, paint, size=(WIDE[0], max(2.4, 0.55 * len(entries) + 0.9)))


def pictures(made: Comparison, time: NDArray) -> Panel | None:
    """The first two coordinates of each method."""
    both = zip(made.table, made.coordinates, strict=True)
    shown = [(entry["method"], E) for entry, E in both if E is not None and E.shape[1] >= 2]
    if not shown:
        return None
    color, caption = (time, "time") if made.truth is None else (made.truth, str(made.facts["truth"]))
    cmap, down = COLORMAPS.get(str(made.facts.get("truth_kind")), figures.time_colors()), -(-len(shown) // ACROSS)

    def paint(figure: Any) -> None:
        axes = figure.subplots(down, ACROSS, squeeze=False).ravel()
        style = {"s": 9 if len(made.rows) <= figures.VECTOR_POINTS else 2, "linewidths": 0, "rasterized": True}
        known = np.isfinite(color)
        for ax, (name, E) in zip(axes, shown, strict=False):
            ax.scatter(E[known, 0], E[known, 1], c=color[known], cmap=cmap, **style)
            ax.set_title(name)
            ax.set(xticks=[], yticks=[], xlim=_range(E[known, 0]), ylim=_range(E[known, 1]))
        for ax in axes[len(shown) :]:
            ax.set_axis_off()

    text = f"The first two coordinates of each method, coloured by {caption}. The axes leave out the outermost "
    text += "hundredth of the rows at either end, so that a few of them do not hide all others."
    return panel("Side by side", text, paint, label="Coordinates of each method", size=(WIDE[0], 3.2 * down))


def _range(x: NDArray) -> tuple[float, float]:
    low, high = np.quantile(x, [0.01, 0.99])
    room = 0.1 * (high - low) or 1.0
    return float(low - room), float(high + room)

"""Figures on how far to trust what was found: strength over time, channels, directions, landmarks and gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlcca.report.axes import COLORS, draw_strength
from dlcca.report.channels import ViewChannels
from dlcca.report.figures import INK, NARROW, WIDE, Panel, Reading, drawn
from dlcca.report.gathering import REASONS
from dlcca.report.overview import Overview
from dlcca.report.words import counted, number, percent
from dlcca.storage.views import Reason

#: Channels of a view that get a bar, and directions that get a column.
MOST_BARS, MOST_DIRECTIONS = 12, 6
#: Parts of the recording in which landmarks and rows are counted.
MOST_PARTS, LANDMARKS_OF_PART = 60, 20


def strength(found: Overview) -> Panel | None:
    """Common strength over time, by each measure that is known, with what chance reaches."""
    measures = found.strengths
    if not measures:
        return None

    def paint(figure: Any) -> Reading | None:
        axes = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
        for ax, measure in zip(axes, measures, strict=True):
            draw_strength(ax, measure, found.moments, as_line=found.has_clock)
            ax.label_outer()
        figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside upper right", ncols=4)
        if not found.has_clock:
            return None
        lines = {measure.label: measure.value for measure in measures}
        if measures[-1].band is not None:
            lines["chance reaches"] = measures[-1].band[:, 1]
        return Reading(list(axes), measures[0].time, lines, "time")

    caption = " ".join(measure.caption for measure in measures)
    if any(measure.band is not None for measure in measures):
        caption += " The shaded band is what views that share nothing would reach by chance."
    size = (WIDE[0], WIDE[1] if len(measures) == 1 else 4.6)
    return Panel("Common strength over time", caption, drawn(paint, "Common strength over time", size=size), wide=True)


def carriers(found: Overview) -> Panel | None:
    """The channels of each view that can be told from the coordinates."""
    views = [view for view in found.channels if view.carriers]
    if not views:
        return None
    common, bars = len(found.views) > 1, max(min(len(view.carriers), MOST_BARS) for view in views)

    def paint(figure: Any) -> None:
        for ax, view in zip(figure.subplots(1, len(views), squeeze=False)[0], views, strict=True):
            _bars(ax, view)

    caption = "How much of a channel can be told from the coordinates, in rows that were held out: R², 1 is all of it. "
    caption += (
        "Channels that share nothing stay near 0." if common else "Channels that have no part in them stay near 0."
    )
    if found.settings.get("neighborhoods", {}).get("kind") == "time":
        caption += " Views that only move together need not be functions of each other: one may be told much less."
    if any(set(view.carriers) <= set(view.recorded) and len(view.carriers) < view.count for view in views):
        caption += " Of a channel with several features it is their mean."
    more = [view for view in views if len(view.carriers) > MOST_BARS]
    if more:
        caption += f" The {MOST_BARS} that carry most are shown of "
        caption += ", ".join(f"{number(len(view.carriers))} in {view.name}" for view in more) + "."
    height = max(2.2, 0.27 * bars + 1.1)
    title = "Which channels carry what is common" if common else "Which channels carry the coordinates"
    return Panel(title, caption, drawn(paint, title, size=(WIDE[0], height)), wide=True)


def _bars(ax: Any, view: ViewChannels) -> None:
    best = list(view.carriers.items())[:MOST_BARS]
    at = np.arange(len(best))[::-1]
    shown = ax.barh(at, [share for _, share in best], height=0.7, color=COLORS[0])
    ax.bar_label(shown, fmt="%.2f", padding=4, fontsize=10, color=INK)
    ax.set_yticks(at, [_clipped(name) for name, _ in best])
    ax.set(xlim=(0, 1.12), title=f"{view.name}: {percent(view.share or 0)} of its variance", xlabel="R²")


def _clipped(label: str, most: int = 26) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def directions(found: Overview) -> Panel | None:
    """The local correlations along each direction: how many dimensions are common."""
    rho = found.correlations
    if rho.ndim != 2 or 0 in rho.shape or len(found.views) < 2:
        return None
    count = min(rho.shape[1], MOST_DIRECTIONS)
    edge = found.quality.get("null_edge")

    def paint(figure: Any) -> None:
        ax = figure.subplots()
        columns = [rho[np.isfinite(rho[:, i]), i] for i in range(count)]
        made = ax.boxplot(columns, widths=0.5, whis=(5, 95), showfliers=False, patch_artist=True)
        for box in made["boxes"]:
            box.set(facecolor=COLORS[0], edgecolor="none", alpha=0.55)
        for name in ("medians", "whiskers", "caps"):
            for line in made[name]:
                line.set(color=INK if name == "medians" else COLORS[0], linewidth=1.4)
        if edge is not None:
            ax.axhline(edge, color=COLORS[1], linestyle=(0, (4, 3)), linewidth=1.4)
            ax.text(count + 0.45, edge, "chance ", color=COLORS[1], va="bottom", ha="right", fontsize=10)
        ax.set(xlabel="direction", ylabel="local correlation", ylim=(0, 1.05), xlim=(0.4, count + 0.6))

    caption = "Local correlations along the best direction, the second best and so on: half of the landmarks lie in "
    caption += "the box, nine in ten between the ends."
    if edge is not None:
        caption += " What stands above the dashed line is common; independent views would hardly ever reach it."
    return Panel("How many dimensions are common", caption, drawn(paint, "Local correlations by direction"))


def coverage(found: Overview) -> Panel | None:
    """Where the landmarks are, in the coordinates and in time, and which rows were left out."""
    if not len(found.landmarks):
        return None
    wide = found.rows.sample.embedding.shape[1] > 1

    def paint(figure: Any) -> None:
        axes = figure.subplots(1, 2, width_ratios=(1, 1.25)) if wide else [None, figure.subplots()]
        if wide:
            _landmarks_on_rows(axes[0], found)
        _landmarks_over_time(axes[1], found)
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper right", ncols=5)

    return Panel("Landmarks and coverage", covered(found), drawn(paint, "Landmarks and coverage", size=NARROW))


def covered(found: Overview) -> str:
    """How rows are represented and which were left out, in a sentence or two."""
    each = found.n / max(1, len(found.landmarks))
    landmarks = counted(len(found.landmarks), "landmark")
    text = f"{landmarks} stand for {number(found.n)} rows, one for {number(each)} of them."
    text = "Every row is a landmark." if each <= 1 else text
    if found.has_clock and len(found.landmarks) > 1 and found.moments.span > 0 and each > 1:
        away = float(np.diff(np.sort(found.landmark_time)).max()) / found.moments.span
        text += f" The longest stretch without one is {percent(away)} of the recording."
    counts = found.rows.stretches.reasons.sum(axis=0)
    left_out = counts[1:].sum()
    if not left_out:
        return f"{text} No row was left out."
    parts = [f"{percent(counts[code] / found.n)} {reason_name(code)}" for code in range(1, REASONS) if counts[code]]
    return f"{text} {percent(left_out / found.n)} of the rows were left out: {', '.join(parts)}."


def reason_name(code: int) -> str:
    """Why rows were left out, in a word."""
    return {reason.value: reason.name.lower() for reason in Reason}.get(code, "not valid")


def _landmarks_on_rows(ax: Any, found: Overview) -> None:
    E = found.rows.sample.embedding
    marks = E[found.drawn_landmarks]
    ax.scatter(E[:, 0], E[:, 1], s=4, color=INK, alpha=0.16, linewidths=0, rasterized=True)
    size = 7 if len(marks) < 600 else 3
    ax.scatter(marks[:, 0], marks[:, 1], s=size, color=COLORS[0], linewidths=0, rasterized=len(marks) > 600)
    ax.set(xlabel="coordinate 1", ylabel="coordinate 2")


def _landmarks_over_time(ax: Any, found: Overview) -> None:
    first, last = found.moments.first, found.moments.last
    parts = int(np.clip(len(found.landmarks) // LANDMARKS_OF_PART, 4, MOST_PARTS))
    edges = np.linspace(first, last if last > first else first + 1, parts + 1)
    counts = np.histogram(found.landmark_time, edges)[0]
    ax.stairs(counts, edges, fill=True, color=COLORS[0], alpha=0.8, label="landmarks")
    runs = found.rows.stretches
    middle = (runs.begin + runs.end) / 2
    total = np.histogram(middle, edges, weights=runs.rows)[0]
    top = counts.max() * 1.25 or 1
    for i, code in enumerate(code for code in range(1, REASONS) if runs.reasons[:, code].any()):
        gone = np.histogram(middle, edges, weights=runs.reasons[:, code])[0]
        share = np.divide(gone, total, out=np.zeros(parts), where=total > 0)
        name, color = reason_name(code), COLORS[1 + i % (len(COLORS) - 1)]
        ax.stairs(share * top, edges, fill=True, color=color, alpha=0.35, label=f"left out: {name}")
    ax.set(ylabel="landmarks", ylim=(0, top))
    ax.margins(x=0.01)
    found.moments.dress(ax, most=4)

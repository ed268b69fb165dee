"""The figures of a report: an overview in, panels out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dlcca.report import figures
from dlcca.report.figures import COLORS, INK, NARROW, WIDE, Panel, Reading, largest_gap, panel, reproduced_label
from dlcca.report.overview import Overview
from dlcca.report.rows import REASONS
from dlcca.report.sentences import counted, duration, number, percent, reproduced, shares_reproduced
from dlcca.storage.views import Reason

#: Coordinates that are drawn over time.
MOST_COORDINATES = 4
#: Where all is slower than this, frequencies are in cycles per hour.
SLOW_HZ = 0.005
#: Channels of a view that get a bar, and directions that get a column.
MOST_BARS, MOST_DIRECTIONS = 12, 6
#: Why rows were left out, in a word, by code.
REASON_NAMES = dict.fromkeys(range(REASONS), "not valid") | {reason.value: reason.name.lower() for reason in Reason}
#: Parts of the recording in which landmarks and rows are counted.
MOST_PARTS, LANDMARKS_OF_PART = 60, 20


def panels(found: Overview, marks: Mapping[str, float] | None = None) -> list[Panel]:
    """All figures that this result has something to show in; ``marks`` are known frequencies, by name."""
    made = [embedding(found), coordinates(found), strength(found), spectra(found, marks or {}), eigenvalues(found)]
    return [each for each in (*made, channels(found), directions(found), coverage(found)) if each is not None]


def embedding(found: Overview) -> Panel | None:
    """The first coordinates against each other, coloured by time, flat and in space."""
    sample = found.rows.sample
    q = sample.embedding.shape[1]
    if q < 2:
        return None
    known = np.flatnonzero(np.isfinite(sample.embedding[:, 0]))
    mixed = np.random.default_rng(0).permutation(known)  # late points must not hide early ones
    E, time = sample.embedding[mixed], sample.time[mixed]
    shares = shares_reproduced(found)

    def paint(figure: Any) -> None:
        axes = [figure.add_subplot(1, min(q - 1, 2), 1)]
        if q > 2:
            axes.append(figure.add_subplot(1, 2, 2, projection="3d"))
            axes[1].tick_params(labelsize=8, pad=0)
            for axis in (axes[1].xaxis, axes[1].yaxis, axes[1].zaxis):
                axis.pane.set_visible(False)  # it would hide the page
                axis._axinfo["grid"].update(color="#88888850", linewidth=0.6)
        for ax in axes:
            points = figures.draw_embedding(ax, E, time, coordinates=(0, 1, 2))
        if len(shares) > 1:
            axes[0].set(xlabel=reproduced_label(0, shares), ylabel=reproduced_label(1, shares))
        bar = figure.colorbar(points, ax=axes, label=found.time_axis.label, shrink=0.9)
        bar.outline.set_visible(False)
        if found.time_axis.form not in ("s", "sample"):
            ticks = np.linspace(time.min(), time.max(), 5)
            bar.set_ticks(ticks, labels=[found.time_axis.text(t) for t in ticks])

    common = len(found.views) > 1
    one = "When one variable is common" if common else "When the view changes in one direction"
    caption = f"One point for each row. {one}, the points lie along a curve: further "
    caption += "coordinates are then functions of the first and add nothing."
    if len(shares) > 1:
        caption += " In brackets: the share of a coordinate that is reproduced on half of the samples."
    if len(sample.rows) < found.n:
        caption += f" {number(len(sample.rows))} of {number(found.n)} rows are drawn, evenly over the recording."
    title = "The rows in their common coordinates" if common else "The rows in the coordinates of this view"
    return panel(title, caption, paint, label="Embedding, coloured by time", size=(NARROW[0], 3.9), still=True)


def coordinates(found: Overview) -> Panel:
    """Every coordinate over time, one below the other."""
    sample, runs = found.rows.sample, found.rows.stretches
    count, few = min(sample.embedding.shape[1], MOST_COORDINATES), len(sample.rows) <= figures.VECTOR_POINTS

    def paint(figure: Any) -> None:
        axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        for i, ax in enumerate(axes):
            if found.has_clock:
                x = np.column_stack([runs.begin, runs.end]).ravel()
                y = np.column_stack([runs.low[:, i], runs.high[:, i]]).ravel()
                ax.plot(x, y, color=COLORS[i], linewidth=1.1)
            else:
                look = {"markersize": 4 if few else 1.5, "rasterized": not few}
                ax.plot(sample.time, sample.embedding[:, i], ".", color=COLORS[i], **look)
            ax.set_ylabel(f"coord. {i + 1}")
            ax.margins(x=0.01)
        found.time_axis.apply(axes[-1])

    caption = "Each coordinate over the recording. Coordinates have mean square one and no unit."
    if count < found.q:
        caption += f" The first {count} of {found.q} are shown."
    if found.has_clock and len(runs.begin) < found.n:
        caption += f" Drawn are the smallest and the largest value in each of {number(len(runs.begin))} stretches."
    title = "Coordinates over time" if found.has_clock else "Coordinates, row by row"
    size = (NARROW[0], max(3.9, 1.1 * count))
    return panel(title, caption, paint, label="Coordinates over time", size=size, still=True)


def spectra(found: Overview, marks: Mapping[str, float]) -> Panel | None:
    """The amplitude spectrum of every coordinate, if the rows are evenly spaced in time."""
    spectrum = found.rows.spectrum
    if spectrum is None:
        return None
    unit = "Hz" if found.time_axis.unit == "s" else "cycles per sample"
    if unit == "Hz" and max([spectrum.enough, *marks.values()]) < SLOW_HZ:
        unit, marks = "cycles per hour", {name: 3600 * mark for name, mark in marks.items()}
        spectrum = replace(spectrum, frequency=3600 * spectrum.frequency)
    count = min(spectrum.amplitude.shape[1], MOST_COORDINATES)

    def paint(figure: Any) -> Reading:
        ax = figure.subplots()
        figures.draw_spectrum(ax, spectrum, unit, marks=marks, most=MOST_COORDINATES, ink=INK)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2 if marks else count)
        seen = spectrum.frequency <= ax.get_xlim()[1]
        lines = {f"coordinate {i + 1}": spectrum.amplitude[seen, i] for i in range(count)}
        return Reading([ax], spectrum.frequency[seen], lines, unit)

    caption = "Amplitude spectrum of each coordinate"
    caption += "; dashed lines mark known frequencies of the recordings." if marks else "."
    if spectrum.group > 1:
        caption += f" Nearly all of the power is slow: means of {number(spectrum.group)} rows were transformed."
    if spectrum.segments > 1:
        length = duration(spectrum.length) if found.time_axis.unit == "s" else f"{number(spectrum.length)} rows"
        caption += f" The root mean square over {counted(spectrum.segments, 'segment')} of {length}."
    size = (NARROW[0], 4.2 if marks else NARROW[1])
    return panel("Spectra of the coordinates", caption, paint, size=size)


def eigenvalues(found: Overview) -> Panel | None:
    """The eigenvalues of the diffusion, without the trivial 1, and their largest gap."""
    values = np.asarray(found.eigenvalues, float)
    if not len(values):
        return None

    caption = "Near 1 a coordinate varies slowly over the data and is well determined, near 0 it is fine detail or "
    caption += "noise. The trivial eigenvalue 1 is left out."
    if gap := largest_gap(values):
        caption += f" The largest gap, {gap[1]:.2f}, follows coordinate {gap[0]}: "
        caption += "coordinates before it are best separated from those after it."
    caption = f"{caption} {reproduced(found)}".rstrip()
    return panel("Eigenvalues", caption, lambda figure: figures.draw_eigenvalues(figure.subplots(), values, ink=INK))


def strength(found: Overview) -> Panel | None:
    """Common strength over time, by each known measure, with the range by chance."""
    measures = found.strengths
    if not measures:
        return None

    def paint(figure: Any) -> Reading | None:
        axes = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
        for ax, measure in zip(axes, measures, strict=True):
            figures.draw_strength(ax, measure, found.time_axis, as_line=found.has_clock)
            ax.label_outer()
        figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside upper right", ncols=4)
        if not found.has_clock:
            return None
        lines = {measure.label: measure.value for measure in measures}
        if measures[-1].chance is not None:
            lines["by chance, at most"] = measures[-1].chance
        return Reading(list(axes), measures[0].time, lines, "time")

    caption = " ".join(measure.caption for measure in measures)
    if any(measure.chance is not None for measure in measures):
        caption += " The shaded band is the range of views that share nothing."
    return panel("Common strength over time", caption, paint, size=WIDE if len(measures) == 1 else (WIDE[0], 4.6))


def channels(found: Overview) -> Panel | None:
    """R² of the channels of each view, predicted from the coordinates."""
    views = [(view, view.r2_by_channel) for view in found.channels if view.r2 is not None]
    if not views:
        return None
    common, bars = len(found.views) > 1, max(min(len(r2), MOST_BARS) for _, r2 in views)

    def paint(figure: Any) -> None:
        for ax, (view, r2) in zip(figure.subplots(1, len(views), squeeze=False)[0], views, strict=True):
            best = list(r2.items())[:MOST_BARS]
            at = np.arange(len(best))[::-1]
            shown = ax.barh(at, [share for _, share in best], height=0.7, color=COLORS[0])
            ax.bar_label(shown, fmt="%.2f", padding=4, fontsize=10, color=INK)
            ax.set_yticks(at, [name if len(name) <= 26 else f"{name[:25]}…" for name, _ in best])
            ax.set(xlim=(0, 1.12), title=f"{view.name}: {percent(view.share or 0)} of its variance", xlabel="R²")

    caption = "R² of a channel predicted from the coordinates, in rows that are held out; 1 is all of its variance. "
    caption += f"Channels that {'share nothing' if common else 'have no part in them'} stay near 0."
    if found.settings.get("neighborhoods", {}).get("kind") == "time":
        caption += " Views that only vary together need not be functions of each other: R² of one may be much lower."
    if any(set(r2) <= set(view.recorded) and len(r2) < view.count for view, r2 in views):
        caption += " For a channel with several features it is their mean."
    more = [f"{number(len(r2))} in {view.name}" for view, r2 in views if len(r2) > MOST_BARS]
    if more:
        caption += f" The {MOST_BARS} with the largest R² are shown of {', '.join(more)}."
    title = f"Which channels {'share the common variable' if common else 'the coordinates explain'}"
    return panel(title, caption, paint, size=(WIDE[0], max(2.2, 0.27 * bars + 1.1)))


def directions(found: Overview) -> Panel | None:
    """The local correlations along each direction: how many dimensions are common."""
    rho = found.correlations
    if rho.ndim != 2 or 0 in rho.shape or len(found.views) < 2:
        return None
    count, edge = min(rho.shape[1], MOST_DIRECTIONS), found.quality.get("null_edge")

    def paint(figure: Any) -> None:
        ax = figure.subplots()
        columns = [rho[np.isfinite(rho[:, i]), i] for i in range(count)]
        box, line = {"facecolor": COLORS[0], "edgecolor": "none", "alpha": 0.55}, {"color": COLORS[0], "linewidth": 1.4}
        look = {"boxprops": box, "whiskerprops": line, "capprops": line, "medianprops": {**line, "color": INK}}
        ax.boxplot(columns, widths=0.5, whis=(5, 95), showfliers=False, patch_artist=True, **look)
        if edge is not None:
            ax.axhline(edge, color=COLORS[1], linestyle=(0, (4, 3)), linewidth=1.4)
            ax.text(count + 0.45, edge, "chance ", color=COLORS[1], va="bottom", ha="right", fontsize=10)
        ax.set(xlabel="direction", ylabel="local correlation", ylim=(0, 1.05), xlim=(0.4, count + 0.6))

    caption = "Local correlations along the best direction, the second best and so on. Boxes: the middle half of the "
    caption += "landmarks; whiskers: nine in ten of them."
    if edge is not None:
        caption += " What is above the dashed line is common; independent views would hardly ever reach it."
    return panel("How many dimensions are common", caption, paint, label="Local correlations by direction")


def coverage(found: Overview) -> Panel | None:
    """The landmarks in the coordinates and in time, and the rows that were left out."""
    if not len(found.landmarks):
        return None
    wide = found.rows.sample.embedding.shape[1] > 1

    def paint(figure: Any) -> None:
        axes = figure.subplots(1, 2, width_ratios=(1, 1.25)) if wide else [None, figure.subplots()]
        if wide:
            E = found.rows.sample.embedding
            marks = E[found.drawn_landmarks]
            look = {"linewidths": 0, "rasterized": len(marks) > 600, "s": 7 if len(marks) < 600 else 3}
            axes[0].scatter(E[:, 0], E[:, 1], s=4, color=INK, alpha=0.16, linewidths=0, rasterized=True)
            axes[0].scatter(marks[:, 0], marks[:, 1], color=COLORS[0], **look)
            axes[0].set(xlabel="coordinate 1", ylabel="coordinate 2")
        _landmarks_over_time(axes[1], found)
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper right", ncols=5)

    # How many rows a landmark represents, and which rows were left out.
    each, landmarks = found.n / max(1, len(found.landmarks)), counted(len(found.landmarks), "landmark")
    text = f"{landmarks} represent {number(found.n)} rows, one for {number(each)} of them."
    text = "Every row is a landmark." if each <= 1 else text
    if found.has_clock and len(found.landmarks) > 1 and found.time_axis.span > 0 and each > 1:
        away = float(np.diff(np.sort(found.rows.mark_time)).max()) / found.time_axis.span
        text += f" The longest stretch without one is {percent(away)} of the recording."
    share = found.rows.stretches.reasons.sum(axis=0) / found.n
    parts = ", ".join(f"{percent(share[code])} {REASON_NAMES[code]}" for code in range(1, REASONS) if share[code])
    out = f"{percent(share[1:].sum())} of the rows were left out: {parts}" if parts else "No row was left out"
    return panel("Landmarks and coverage", f"{text} {out}.", paint)


def _landmarks_over_time(ax: Any, found: Overview) -> None:
    first, last = found.time_axis.first, found.time_axis.last
    parts = int(np.clip(len(found.landmarks) // LANDMARKS_OF_PART, 4, MOST_PARTS))
    edges = np.linspace(first, last if last > first else first + 1, parts + 1)
    counts = np.histogram(found.rows.mark_time, edges)[0]
    ax.stairs(counts, edges, fill=True, color=COLORS[0], alpha=0.8, label="landmarks")
    runs = found.rows.stretches
    middle = (runs.begin + runs.end) / 2
    total = np.histogram(middle, edges, weights=runs.rows)[0]
    top = counts.max() * 1.25 or 1
    for i, code in enumerate(code for code in range(1, REASONS) if runs.reasons[:, code].any()):
        gone = np.histogram(middle, edges, weights=runs.reasons[:, code])[0]
        share = np.divide(gone, total, out=np.zeros(parts), where=total > 0)
        name, color = REASON_NAMES[code], COLORS[1 + i % (len(COLORS) - 1)]
        ax.stairs(share * top, edges, fill=True, color=color, alpha=0.35, label=f"left out: {name}")
    ax.set(ylabel="landmarks", ylim=(0, top))
    ax.margins(x=0.01)
    found.time_axis.apply(ax, most=4)

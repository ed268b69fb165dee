"""The figures of a report: an overview in, panels out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dlcca.report import trust
from dlcca.report.axes import (
    COLORS,
    draw_eigenvalues,
    draw_embedding,
    draw_spectrum,
    largest_gap,
)
from dlcca.report.figures import INK, NARROW, Panel, Reading, drawn
from dlcca.report.overview import Overview
from dlcca.report.sentences import comes_again, shares_again
from dlcca.report.words import counted, duration, number

#: Coordinates that are drawn over time; lines of more would cover each other.
MOST_COORDINATES = 4
#: Where all is slower than this, cycles are counted by the hour.
SLOW_HZ = 0.005


def panels(found: Overview, marks: Mapping[str, float] | None = None) -> list[Panel]:
    """All figures that this result has something to show in; ``marks`` are known frequencies, by name."""
    made = [
        embedding(found),
        coordinates(found),
        trust.strength(found),
        spectra(found, marks or {}),
        eigenvalues(found),
        trust.carriers(found),
        trust.directions(found),
        trust.coverage(found),
    ]
    return arranged([panel for panel in made if panel is not None])


def arranged(made: list[Panel]) -> list[Panel]:
    """Panels in two columns without a gap: a narrow one that is left alone goes before the next wide one."""
    lines: list[Panel] = []
    waiting: list[Panel] = []
    for panel in made:
        if panel.wide and len([p for p in lines if not p.wide]) % 2:
            waiting.append(panel)
            continue
        lines.append(panel)
        if not panel.wide and len([p for p in lines if not p.wide]) % 2 == 0:
            lines, waiting = lines + waiting, []
    return lines + waiting


def embedding(found: Overview) -> Panel | None:
    """The first coordinates against each other, coloured by time, flat and in space."""
    sample = found.rows.sample
    q = sample.embedding.shape[1]
    if q < 2:
        return None
    known = np.flatnonzero(np.isfinite(sample.embedding[:, 0]))
    mixed = np.random.default_rng(0).permutation(known)  # late points must not hide early ones
    E, time = sample.embedding[mixed], sample.time[mixed]
    again = shares_again(found)

    def paint(figure: Any) -> None:
        axes = [figure.add_subplot(1, min(q - 1, 2), 1)]
        if q > 2:
            axes.append(figure.add_subplot(1, 2, 2, projection="3d"))
            _clear_room(axes[1])
        for ax in axes:
            points = draw_embedding(ax, E, time, coordinates=(0, 1, 2))
        if len(again) > 1:
            axes[0].set(xlabel=f"coordinate 1 ({again[0]:.2f} again)", ylabel=f"coordinate 2 ({again[1]:.2f} again)")
        bar = figure.colorbar(points, ax=axes, label=found.moments.label, shrink=0.9)
        bar.outline.set_visible(False)
        if found.moments.form not in ("s", "sample"):
            ticks = np.linspace(time.min(), time.max(), 5)
            bar.set_ticks(ticks, labels=[found.moments.told(t) for t in ticks])

    common = len(found.views) > 1
    one = "When one variable is common" if common else "When the view changes in one direction"
    caption = f"One point for each row. {one}, the points lie along a curve: further "
    caption += "coordinates then bend with the first and tell nothing new."
    if len(again) > 1:
        caption += " In brackets: how much of a coordinate comes again from halves of the rows."
    if len(sample.rows) < found.n:
        caption += f" {number(len(sample.rows))} of {number(found.n)} rows are drawn, evenly over the recording."
    picture = drawn(paint, "Embedding, coloured by time", size=(NARROW[0], 3.9))
    title = "The rows in their common coordinates" if common else "The rows in the coordinates of this view"
    return Panel(title, caption, picture, still=True)


def _clear_room(ax: Any) -> None:
    """No walls behind a drawing in space: they would hide the page."""
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.pane.set_visible(False)
        axis._axinfo["grid"].update(color="#88888850", linewidth=0.6)
    ax.tick_params(labelsize=8, pad=0)


def coordinates(found: Overview) -> Panel:
    """Every coordinate over time, one below the other."""
    count = min(found.rows.sample.embedding.shape[1], MOST_COORDINATES)
    runs = found.rows.stretches

    def paint(figure: Any) -> None:
        axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        for i, ax in enumerate(axes):
            if found.has_clock:
                x = np.column_stack([runs.begin, runs.end]).ravel()
                y = np.column_stack([runs.low[:, i], runs.high[:, i]]).ravel()
                ax.plot(x, y, color=COLORS[i], linewidth=1.1)
            else:
                sample = found.rows.sample
                few = len(sample.rows) <= 3000
                look = {"markersize": 4 if few else 1.5, "rasterized": not few}
                ax.plot(sample.time, sample.embedding[:, i], ".", color=COLORS[i], **look)
            ax.set_ylabel(f"coord. {i + 1}")
            ax.margins(x=0.01)
        found.moments.dress(axes[-1])

    caption = "What each coordinate does in the course of the recording. Coordinates have mean square one and no unit."
    if count < found.q:
        caption += f" The first {count} of {found.q} are shown."
    if found.has_clock and len(runs.begin) < found.n:
        caption += f" Drawn are the smallest and the largest value in each of {number(len(runs.begin))} stretches."
    title = "Coordinates over time" if found.has_clock else "Coordinates, row by row"
    picture = drawn(paint, "Coordinates over time", size=(NARROW[0], max(3.9, 1.1 * count)))
    return Panel(title, caption, picture, still=True)


def spectra(found: Overview, marks: Mapping[str, float]) -> Panel | None:
    """The amplitude spectrum of every coordinate, if the rows are evenly spaced in time."""
    spectrum = found.rows.spectrum
    if spectrum is None:
        return None
    unit = "Hz" if found.moments.unit == "s" else "cycles per sample"
    if unit == "Hz" and max([spectrum.enough, *marks.values()]) < SLOW_HZ:
        unit, marks = "cycles per hour", {name: 3600 * mark for name, mark in marks.items()}
        spectrum = replace(spectrum, frequency=3600 * spectrum.frequency)
    count = min(spectrum.amplitude.shape[1], MOST_COORDINATES)

    def paint(figure: Any) -> Reading:
        ax = figure.subplots()
        draw_spectrum(ax, spectrum, unit, marks=marks, most=MOST_COORDINATES, ink=INK)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper right", ncols=2 if marks else count)
        seen = spectrum.frequency <= ax.get_xlim()[1]
        lines = {f"coordinate {i + 1}": spectrum.amplitude[seen, i] for i in range(count)}
        return Reading([ax], spectrum.frequency[seen], lines, unit)

    caption = "Which oscillations each coordinate holds"
    caption += "; dashed lines mark frequencies that are known to be in the recordings." if marks else "."
    if spectrum.group > 1:
        caption += f" Nearly all of it is slow: {number(spectrum.group)} rows at a time were averaged before."
    if spectrum.segments > 1:
        caption += f" The root mean square over {counted(spectrum.segments, 'segment')} of {_length(found)}."
    size = (NARROW[0], 4.2 if marks else NARROW[1])
    return Panel("Spectra of the coordinates", caption, drawn(paint, "Spectra of the coordinates", size=size))


def _length(found: Overview) -> str:
    """Of a segment of the spectrum, in words."""
    assert found.rows.spectrum is not None
    length = found.rows.spectrum.length
    if found.moments.unit != "s":
        return f"{number(length)} rows"
    return duration(length)


def eigenvalues(found: Overview) -> Panel | None:
    """The eigenvalues of the diffusion, without the trivial 1, and their largest gap."""
    values = np.asarray(found.eigenvalues, float)
    if not len(values):
        return None

    def paint(figure: Any) -> None:
        draw_eigenvalues(figure.subplots(), values, ink=INK)

    caption = "How slowly diffusion forgets each coordinate: near 1 it varies slowly over the data and is well "
    caption += "determined, near 0 it is fine detail or noise. The trivial eigenvalue 1 is left out."
    gap = largest_gap(values)
    if gap is not None:
        caption += f" The largest gap, {gap[1]:.2f}, follows coordinate {gap[0]}: "
        caption += "coordinates before it are told apart best from those behind it."
    caption = f"{caption} {comes_again(found)}".rstrip()
    return Panel("Eigenvalues", caption, drawn(paint, "Eigenvalues"))

"""A new model beside the old one, on rows that neither was fitted to: may it take over?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.alignment import change
from dlcca.pipelines.sections import RefitSection

#: Rows that are compared at most, spread evenly.
ROWS = 20_000


@dataclass(frozen=True)
class Standing:
    """How well a model does on rows that it was not fitted to."""

    outside: float  # share of them
    agreement: float | None  # of what single views say of the coordinates; None where the model reads one view only
    fresh: float | None = None  # the same in the new recordings alone


@dataclass(frozen=True)
class HeldOut:
    """Rows that no model was fitted to: their views (n, d_v), and the recording that each is of, (n,)."""

    views: list[NDArray]
    recording: NDArray[np.int64]
    new_from: int  # the first recording that the old model does not know

    def part(self, which: NDArray[np.bool_]) -> HeldOut:
        return HeldOut([X[which] for X in self.views], self.recording[which], self.new_from)

    @property
    def new(self) -> HeldOut:
        return self.part(self.recording >= self.new_from)

    @property
    def old(self) -> HeldOut:
        return self.part(self.recording < self.new_from)


def held_out(views: Any, rows: list[int], n_new: int, names: tuple[str, ...]) -> HeldOut:
    """At most `ROWS` rows of recordings of so many rows each, of which the last ``n_new`` are new."""
    n = sum(rows)
    chosen = np.unique(np.linspace(0, n - 1, min(n, ROWS)).astype(np.int64))
    of = np.repeat(np.arange(len(rows)), rows)[chosen]
    return HeldOut([np.asarray(views[name][chosen]) for name in names], of, len(rows) - n_new)


def standing(model: Any, held: HeldOut) -> Standing:
    """The standing of a fitted model (`dlcca.model.Model`)."""
    outside = float((model.distance(held.views) > 1).mean())
    return Standing(outside, agreement(model, held), agreement(model, held.new))


def agreement(model: Any, held: HeldOut) -> float | None:
    """Correlation of the coordinates that one view alone tells with those of another, the mean over axes and pairs.

    What is common to all views can be told from each of them: readings that disagree are of something private. It is
    the correlation within recordings: that two of them lie apart is seen by every view, and says nothing.
    """
    used = model.needed
    if len(used) < 2 or not len(held.recording):
        return None
    readings = []
    for one in used:
        alone = model.coordinates([X if v == one else None for v, X in enumerate(held.views)])
        readings.append(alone - _means(alone, held.recording))
    pairs = [(a, b) for i, a in enumerate(readings) for b in readings[i + 1 :]]
    return float(np.mean([np.nan_to_num(change(a, b).correlations) for a, b in pairs]))


def _means(E: NDArray, groups: NDArray[np.int64]) -> NDArray:
    """For each row the mean of its group."""
    _, of = np.unique(groups, return_inverse=True)
    sums = np.zeros((of.max() + 1, E.shape[1]))
    np.add.at(sums, of, E)
    return (sums / np.bincount(of)[:, None])[of]


def axes(new: Any, old: Any, views: list[NDArray]) -> list[float]:
    """Correlation of each axis of the new model with the same of the old, on rows (n, d_v) of recordings both know."""
    return change(new.coordinates(views), old.coordinates(views)).correlations.tolist()


def objections(new: Standing, old: Standing, kept: list[float], warnings: list[str], asked: RefitSection) -> list[str]:
    """Why the new model must not take over; none if it may."""
    found = [f"its own fit warns: {warning}" for warning in warnings]
    if new.outside > old.outside + asked.outside_gain:
        found.append(
            f"{new.outside:.1%} of the held-out rows are outside, {old.outside:.1%} were "
            f"([refit] outside_gain = {asked.outside_gain:g})"
        )
    if new.agreement is not None and old.agreement is not None and new.agreement < old.agreement - asked.agreement_loss:
        found.append(
            f"views agree by {new.agreement:.2f} on held-out rows, and did by {old.agreement:.2f} "
            f"([refit] agreement_loss = {asked.agreement_loss:g})"
        )
    if new.fresh is not None and new.fresh < asked.least_agreement:
        found.append(
            f"in the new recordings views agree by {new.fresh:.2f}, as if they shared nothing ([refit] "
            f"least_agreement = {asked.least_agreement:g})"
        )
    worst = min((value for value in kept if value == value), default=1.0)
    if worst < asked.least_axis_correlation:
        found.append(
            f"an axis correlates by {worst:.2f} with what it was ([refit] least_axis_correlation = "
            f"{asked.least_axis_correlation:g})"
        )
    return found

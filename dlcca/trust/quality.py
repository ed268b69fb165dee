"""How far a fit can be trusted: what was found about it, in numbers and in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.cca import LocalMetric
from dlcca.trust.coordinate_checks import FEWEST_CARRIERS
from dlcca.trust.null_correlations import null_edge

#: What a result of one view is.
ONE_VIEW = "nothing common can be tested; these are coordinates of this view alone (Mahalanobis diffusion)"
#: Below it the chance that views share nothing, and the share of false discoveries among landmarks, are small enough.
LEVEL = 0.05
#: A second eigenvalue above this means that diffusion never gets from one part of the data to another.
CONNECTED = 1 - 1e-9
#: Where independent views reach this by chance, neighborhoods are too small to tell whether anything is common.
UNDECIDABLE = 0.95
#: Where shifted views reach this much of a correlation (squared) at the typical neighborhood, no others can reach more.
NO_ROOM = 0.7
#: Where an approximate search finds a smaller share of the true neighbours than this, metrics are fitted to others.
LEAST_RECALL = 0.95
#: Coordinates of which half the landmarks tell less than this (R²) depend on the landmarks.
LEAST_TOLD = 0.5
#: An eigenvalue closer to the next than this share of its distance from 1 may change places with it.
LEAST_GAP = 0.05
#: The share of rows that may be far from every landmark.
MOST_FAR = 0.01
#: Landmarks that the typical row sees: fewer, or more than this share of all it could, and the bandwidth is at its end.
FEWEST_SEEN, MOST_SEEN = 1.2, 0.98


@dataclass(frozen=True)
class Common:
    """What the views share: at m landmarks, and over all."""

    p: float | None  # that views which share nothing look like these; None if there were too few rows to tell
    against: str  # the surrogates: views "shifted", or at other "speeds"
    count: NDArray[np.int64]  # (m,) common dimensions
    p_values: NDArray[np.float64]  # (m,) that there is none
    strength: NDArray[np.float64]  # (m,) how much of the leading common direction the views share beyond chance, 0 to 1
    radius: NDArray[np.float64]  # (m, K) of the neighborhood: root of its total variance
    condition: NDArray[np.float64]  # (m, K) its largest variance over the least that is not zero
    samples: float  # independent samples that a neighborhood is worth
    by_chance: float = 0.0  # the largest squared correlation that shifted views reach, the mean

    @property
    def found(self) -> bool | None:
        """Whether anything is common; None if it cannot be told."""
        if self.p is None or self.p <= LEVEL:
            return None if self.p is None else True
        return None if self.by_chance >= NO_ROOM else False

    @property
    def dimensions(self) -> int:
        """At the typical landmark that has any; at least one if there is something common."""
        some = self.count[self.count > 0]
        return 0 if not self.found else max(1, int(np.median(some))) if len(some) else 1


@dataclass(frozen=True)
class Checks:
    """What was looked at in the kernel and in the coordinates; None where it could not be."""

    pieces: int = 1
    far: float = 0.0  # share of the rows that lie far from every landmark
    seen: float | None = None  # landmarks that the typical row sees
    could_see: int = 0
    told: NDArray | None = None  # (q,) R² of the coordinates by a fit with half the landmarks
    told_by_more: NDArray | None = None  # (q,) the same with one more coordinate there
    gap: float | None = None  # (λ_q - λ_q+1) / (1 - λ_q+1)
    independent: list[int] | None = None  # coordinates that are no functions of those before them
    carriers: NDArray | None = None  # (q,) share of the rows that carry half of a coordinate
    outliers: int = 0  # slower coordinates that were left out because few rows carry them
    again: NDArray | None = None  # (q,) share of each coordinate that fits to halves of some rows agree on


@dataclass(frozen=True)
class Quality:
    """What is known of the trustworthiness of a fit."""

    n_common: int  # common dimensions at the typical landmark
    measures: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)  # why the result should not be trusted; empty if it may be
    notes: list[str] = field(default_factory=list)  # what to know about it all the same
    local: dict[str, NDArray] = field(default_factory=dict)  # of every landmark
    strength: NDArray | None = None  # (n,) of every row


def assess(
    metric: LocalMetric,
    k: int,
    eigenvalues: NDArray,
    *,
    neighbor_recall: float | None = None,
    common: Common | None = None,
    checks: Checks | None = None,
    one_is_meant: bool = True,
) -> Quality:
    """All that is known of a fit, with the reasons not to trust it.

    ``neighbor_recall`` is the share of the true neighbours that an approximate search found; None for an exact one.
    Without ``common``, correlations are held against what independent views of so many directions reach. One view is
    not tested: it is a reason for doubt, or a note if the settings say that one is meant (``one_is_meant``).
    """
    alone = metric.ranks.shape[1] == 1
    edge = null_edge(metric.effective, k)
    typical_edge = float(np.median(edge))
    # In very small neighborhoods chance reaches 1; there n_common only counts what looks like a correlation of one.
    above = metric.correlations > np.minimum(edge, UNDECIDABLE - 0.05)[:, None]
    share = float(above.any(axis=1).mean())
    decidable = typical_edge < UNDECIDABLE
    tested = common is not None and common.p is not None
    checks = checks or Checks(pieces=int((eigenvalues > CONNECTED).sum()))
    if alone:
        advice = "Give two views or more, or set metric to 'mahalanobis' if one is meant."
        n_common, reasons = 0, [] if one_is_meant else [f"one view: {ONE_VIEW}. {advice}"]
    elif common is not None and tested:
        n_common, reasons = common.dimensions, _nothing_common(common)
        decidable = common.found is not None
    else:
        n_common = int(np.median(above.sum(axis=1)))
        reasons = _below_edge(share, typical_edge) if decidable and share < 0.5 else []
    nothing = bool(reasons) and not alone
    reasons += _of_kernel(checks)
    if not nothing:  # coordinates of nothing need no further words
        reasons += [*_of_landmarks(checks), *_of_coordinates(checks)]
    if neighbor_recall is not None and neighbor_recall < LEAST_RECALL:
        reasons.append(
            f"the approximate search found {neighbor_recall:.1%} of the true neighbours, and {LEAST_RECALL:.0%} are "
            "needed. Set neighbor_index to 'exact'; or ask for fewer n_neighbors, or reduce the channels of the views."
        )
    notes = [f"one view: {ONE_VIEW}."] if alone and one_is_meant else []
    notes += _notes(common, checks, metric.correlations.shape[0])
    measures: dict[str, Any] = {
        "leading_eigenvalue": float(eigenvalues[0]),
        "top_correlation": None if alone else float(np.median(metric.correlations[:, 0])),
        "null_edge": None if alone else typical_edge,
        "decidable": None if alone else decidable,
        "landmarks_above_edge": None if alone else share,
        "pieces": checks.pieces,
        "rank": [float(r) for r in np.median(metric.ranks, axis=0)],
        **_measures(common, checks),
        "notes": notes,
        "trusted": not reasons,
    }
    if neighbor_recall is not None:
        measures["neighbor_recall"] = neighbor_recall
    local = {"rank": metric.ranks} if alone else {"rank": metric.ranks, "null_edge": edge}
    if common is not None:
        local |= {
            "n_common": common.count,
            "p_value": common.p_values,
            "strength": common.strength,
            "radius": common.radius,
            "condition": common.condition,
        }
    return Quality(n_common, measures, reasons, notes, local)


def with_hint(quality: Quality, hint: str) -> Quality:
    """The quality with one thing more to know: a reason if there are others, a note if there are none."""
    if not hint:
        return quality
    if quality.reasons:
        return replace(quality, reasons=[*quality.reasons, hint])
    notes = [*quality.notes, hint]
    return replace(quality, notes=notes, measures={**quality.measures, "notes": notes})


def _measures(common: Common | None, checks: Checks) -> dict[str, Any]:
    """What was found besides, as plain numbers."""
    found: dict[str, Any] = {}
    if common is not None:
        found |= {
            "p_common": common.p,
            "common_against": common.against,
            "common_by_chance": common.by_chance,
            "common_strength": float(np.median(common.strength)),
            "landmarks_common": float((common.count > 0).mean()),
            "effective_neighbors": common.samples,
            "radius": [float(r) for r in np.median(common.radius, axis=0)],
        }
    found["far_rows"] = checks.far
    if checks.seen is not None:
        found["landmarks_seen"] = checks.seen
    if checks.told is not None:
        found["told_by_half"] = [float(x) for x in checks.told]
    if checks.gap is not None:
        found["eigengap"] = checks.gap
    if checks.independent is not None:
        found["independent_coordinates"] = checks.independent
    if checks.carriers is not None:
        found["carriers"] = [float(x) for x in checks.carriers]
    if checks.again is not None:
        found["from_halves"] = [float(x) for x in checks.again]
    return found


def _nothing_common(common: Common) -> list[str]:
    if common.found:
        return []
    if common.found is None:
        return [
            "it cannot be told whether anything is common: shifted against each other in time, these views are nearly "
            f"as much alike (squared correlation {common.by_chance:.2f}) as views can be. Take a longer recording, or "
            "widen the neighborhoods (window or n_neighbors)."
        ]
    how = {
        "shifted": "views shifted against each other in time show as much as these do in step",
        "speeds": "both repeat themselves, and at other speeds they are as much alike",
    }[common.against]
    return [
        f"nothing common found: {how} (p = {common.p:.2f}). Widen the neighborhoods (window or n_neighbors), take a "
        "longer recording, or take it that these views share nothing."
    ]


def _below_edge(share: float, edge: float) -> list[str]:
    return [
        f"nothing common found: at {1 - share:.0%} of the landmarks no correlation is above {edge:.2f}, "
        "which independent views reach by chance. Widen the neighborhoods (window or n_neighbors), or take it "
        "that these views share nothing."
    ]


def _of_kernel(checks: Checks) -> list[str]:
    found = []
    if checks.pieces > 1:
        found.append(
            f"the kernel falls into at least {checks.pieces} separate pieces, and the first coordinates only tell them "
            "apart. Raise n_links or bandwidth."
        )
    if checks.seen is not None and checks.seen < FEWEST_SEEN:
        found.append(
            f"the bandwidth is at its lower end: the typical sample sees {checks.seen:.1f} landmarks, and coordinates "
            "are an average over some. Raise bandwidth, or ask for more landmarks."
        )
    if checks.seen is not None and checks.seen > MOST_SEEN * checks.could_see and checks.could_see > 2:
        found.append(
            f"the bandwidth is at its upper end: the typical sample sees {checks.seen:.0f} of {checks.could_see} "
            "landmarks alike, however near they are. Lower bandwidth."
        )
    return found


def _of_landmarks(checks: Checks) -> list[str]:
    found = []
    if checks.far > MOST_FAR:
        found.append(
            f"{checks.far:.1%} of the samples lie far from every landmark, where no metric is known; their coordinates "
            "are guesses. Ask for more landmarks, or set landmark_rule to 'farthest'."
        )
    told = _told(checks)
    if told is not None and told < LEAST_TOLD:
        found.append(
            f"too few landmarks: half of them give another first coordinate (R² {told:.2f}). Ask for "
            "more landmarks, or set n_links or bandwidth lower, so that metrics are used near their landmarks only."
        )
    return found


def _told(checks: Checks) -> float | None:
    """How well half the landmarks tell the first coordinate that is not one of a few rows only."""
    if checks.told_by_more is None or checks.carriers is None:
        return None
    wide = checks.told_by_more[checks.carriers >= FEWEST_CARRIERS]
    return float(wide[0]) if len(wide) else None


def _of_coordinates(checks: Checks) -> list[str]:
    if checks.carriers is None or not (few := np.flatnonzero(checks.carriers < FEWEST_CARRIERS)).size:
        return []
    which = ", ".join(str(c + 1) for c in few)
    return [
        f"coordinate{'s' * (few.size > 1)} {which}: less than {FEWEST_CARRIERS:.0%} of the samples carry half of it. "
        "These are outliers, or a piece that hardly hangs together with the rest: look at them, leave them out, or "
        "raise n_links."
    ]


def _notes(common: Common | None, checks: Checks, m: int) -> list[str]:
    """What does not spoil the result, but should be known."""
    found = []
    if common is not None and common.found and common.against == "shifted":
        having = int((common.count > 0).sum())
        if having == 0:
            found.append(
                f"a neighborhood is worth {common.samples:.1f} independent samples, too few for any landmark to show "
                "something common by itself; it is known over all of them together only."
            )
        elif having < m / 2:
            found.append(f"{having} of {m} landmarks show something common by themselves; the others show none.")
    if checks.independent is not None and checks.carriers is not None:
        q = len(checks.carriers)
        others = [c for c in range(q) if c not in checks.independent and checks.carriers[c] >= FEWEST_CARRIERS]
        if others:
            found.append(
                f"of {q} coordinates {_listed(others)} follow{'s' * (len(others) == 1)} from earlier ones (harmonics); "
                f"independent: {_listed(checks.independent)}."
            )
    if checks.outliers:
        found.append(
            f"{checks.outliers} slower coordinate{'s' * (checks.outliers > 1)} of less than {FEWEST_CARRIERS:.0%} of "
            "the samples gave way to others: outliers, or a piece that hardly hangs together with the rest."
        )
    if checks.gap is not None and checks.gap < LEAST_GAP:
        found.append(
            f"the last coordinate and the next one that was not asked for have nearly equal eigenvalues (gap "
            f"{checks.gap:.1%}): other samples may mix them. Ask for one more coordinate, or one less."
        )
    return found


def _listed(coordinates: list[int]) -> str:
    return ", ".join(str(c + 1) for c in coordinates)

"""Quality of a fit: checks on some of the rows, measures, and reasons not to trust it, in sentences."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.model import Model
from dlcca.numerics.distances import squared_distances
from dlcca.numerics.kernels import landmarks_seen
from dlcca.numerics.landmarks import evenly, nearest_distances
from dlcca.numerics.metrics.cca import LocalMetric
from dlcca.trust.components import null_edge
from dlcca.trust.scores import at_unit_variance, blocked_folds, variable_scores
from dlcca.trust.select_coordinates import FEWEST_CARRIERS, carriers, independent
from dlcca.trust.surrogates import narrowed

#: Said of a fit to one view.
ONE_VIEW = "nothing common can be tested; these are coordinates of this view alone (Mahalanobis diffusion)"
#: Level of the test for something common, and false discovery rate of the tests at landmarks.
LEVEL = 0.05
#: A second eigenvalue above this means that the kernel has more than one connected component.
CONNECTED = 1 - 1e-9
#: If independent views reach this correlation by chance, neighborhoods are too small for a decision.
UNDECIDABLE = 0.95
#: If shifted views reach this mean squared correlation, views cannot reach significantly more.
NO_ROOM = 0.7
#: Smallest acceptable recall of an approximate search for neighbours.
LEAST_RECALL = 0.95
#: Smallest acceptable R² of the first coordinate predicted by a fit with half of the landmarks.
LEAST_HALF_R2 = 0.5
#: Plain linear CCA finds the same coordinates if its variates explain each of them with this R².
LINEAR_DOES = 0.9
#: How a note on this begins, and the code to run linear CCA.
LINEAR_NOTE, TRY_LINEAR = "plain linear CCA would have done", "dlcca.baselines.linear_cca(views, n_components)"
#: Eigenvalues closer than this, relative to the distance from 1, are nearly equal.
LEAST_GAP = 0.05
#: Largest acceptable share of rows far from every landmark.
MOST_FAR = 0.01
#: Acceptable number of landmarks with weight in a typical row: at least, and at most as a share of all it could have.
FEWEST_SEEN, MOST_SEEN = 1.2, 0.98
#: Rows in which the kernel is checked.
SOME_ROWS = 1024
#: Linear CCA for comparison: channels (principal components of a wider view) and ridge.
LINEAR_CHANNELS, LINEAR_RIDGE = 64, 0.01
#: A row is far from all landmarks if the nearest is farther than so many times the spacing of landmarks.
FAR = 3.0

#: R² of the coordinates predicted by a fit with half of the landmarks, the same with one coordinate more, the eigengap.
Half = tuple[NDArray, NDArray, float]


@dataclass(frozen=True)
class Chance:
    """The test of the whole recording."""

    p: float | None  # that views without anything common to all have as large a statistic; None if rows are too few
    against: str  # the surrogates: views "shifted", or at other "speeds"
    samples: float  # effective number of independent samples of a neighborhood
    by_chance: float = 0.0  # mean of the largest squared correlation of shifted views
    pairs: list[list[int]] = field(default_factory=list)  # views that share two by two, if nothing is common to all


@dataclass(frozen=True, kw_only=True)
class Common(Chance):
    """What the views share: in the whole recording, and at m landmarks."""

    count: NDArray[np.int64]  # (m,) common dimensions
    p_values: NDArray[np.float64]  # (m,) of the test for at least one
    strength: NDArray[np.float64]  # (m,) squared correlation of the leading common direction beyond chance, 0 to 1
    radius: NDArray[np.float64]  # (m, K) of the neighborhood: root of its total variance
    condition: NDArray[np.float64]  # (m, K) its largest variance over the smallest that is not zero

    @property
    def found(self) -> bool | None:
        """Whether anything is common to all views; None if it cannot be decided."""
        if self.p is None or self.p <= LEVEL:
            return None if self.p is None else True
        return None if self.by_chance >= NO_ROOM else False

    @property
    def dimensions(self) -> int:
        """Median over the landmarks that have any; at least one if there is something common."""
        some = self.count[self.count > 0]
        return 0 if not self.found else max(1, int(np.median(some))) if len(some) else 1


@dataclass(frozen=True)
class Checks:
    """Checks of the kernel and of the coordinates; None if a check was not possible."""

    pieces: int = 1  # connected components of the kernel
    stray: float | None = None  # share of the landmarks outside the largest, if these do not make a coordinate
    far: float = 0.0  # share of the rows that lie far from every landmark
    seen: float | None = None  # effective number of landmarks with weight in the typical row
    could_see: int = 0  # the most that it could have
    half_r2: NDArray | None = None  # (q,) R² of the coordinates predicted by a fit with half of the landmarks
    half_r2_more: NDArray | None = None  # (q,) the same with one more coordinate of that fit
    gap: float | None = None  # (λ_q - λ_q+1) / (1 - λ_q+1)
    independent: list[int] | None = None  # coordinates that are not functions of those before them
    carriers: NDArray | None = None  # (q,) share of the rows that hold half of a coordinate's variance
    outliers: int = 0  # slower coordinates that were left out because they are dominated by outliers
    again: NDArray | None = None  # (q,) share of each coordinate that fits to halves of the rows reproduce
    linear: NDArray | None = None  # (q,) R² of the coordinates predicted from the variates of plain linear CCA

    @property
    def few_stray(self) -> bool:
        """Whether nearly all landmarks are in one component: the others are outliers."""
        return self.stray is not None and self.stray < FEWEST_CARRIERS


def checks_of(model: Model, arrays: list[NDArray], embedding: NDArray, half: Half | None, pieces: int = 1) -> Checks:
    """Check the kernel and the coordinates.

    ``arrays`` are the views at some rows, about `SOME_ROWS`, ``embedding`` (n, q) is of all rows, or of many, ``half``
    of a fit with half of the landmarks, and ``pieces`` the number of connected components of the kernel.
    """
    half_r2, more, gap = half or (None, None, None)
    carried = carriers(embedding)
    return Checks(
        pieces=pieces,
        far=_far(model, arrays),
        seen=float(min(np.median(landmarks_seen(W)) for W in model.kernel_rows(arrays))),
        could_see=model.n_links or model.n_landmarks,
        half_r2=half_r2,
        half_r2_more=more,
        gap=gap,
        independent=independent(embedding, carried >= FEWEST_CARRIERS),
        carriers=carried,
    )


def linear_cca_r2(arrays: list[NDArray], embedding: NDArray) -> NDArray | None:
    """Held-out R² (q,) of coordinates (s, q), predicted by nearest neighbours from as many variates of linear CCA.

    Where all are near 1, plain linear CCA of the whole recording finds the same. None for one view, or where linear CCA
    is not defined.
    """
    from dlcca.baselines.cca import linear_cca

    if len(arrays) < 2:
        return None
    views = [narrowed(np.asarray(X, np.float64), LINEAR_CHANNELS) for X in arrays]
    q = min(embedding.shape[1], sorted(X.shape[1] for X in views)[-2])
    try:
        variates = linear_cca(views, q, ridge=LINEAR_RIDGE).embedding
    except (DataError, SettingsError):
        return None
    found = variable_scores(at_unit_variance(variates), embedding, blocked_folds(len(embedding)))
    return found if np.isfinite(found).all() else None


def _far(model: Model, arrays: list[NDArray]) -> float:
    """The share of the rows whose nearest landmark is far, in the view in which it is farthest."""
    far = np.zeros(len(arrays[0]), bool)
    for v in model.needed:
        points = model.points[v]
        picked = points[evenly(len(points), min(len(points), SOME_ROWS))]
        # Distance to the nearest other landmark: the second smallest, because the smallest is 0.
        apart = np.sqrt(np.partition(squared_distances(picked, points), 1, axis=1)[:, 1])
        unit = np.quantile(apart, 0.95)
        far |= nearest_distances(arrays[v], points) > FAR * unit if unit > 0 else False
    return float(far.mean())


@dataclass(frozen=True)
class Quality:
    """Measures, reasons and notes of a fit."""

    n_common: int  # dimensions common to all views
    measures: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)  # why the result should not be trusted; empty if it may be
    notes: list[str] = field(default_factory=list)  # what does not spoil the result but should be known
    local: dict[str, NDArray] = field(default_factory=dict)  # of every landmark
    strength: NDArray | None = None  # (n,) of every row


def assess(
    metric: LocalMetric,
    k: int,
    eigenvalues: NDArray,
    *,
    checks: Checks,
    neighbor_recall: float | None = None,
    common: Common | None = None,
    one_is_meant: bool = True,
    hint: str = "",
) -> Quality:
    """The quality of a fit.

    ``neighbor_recall`` is the share of the true neighbours that an approximate search found; None for an exact one.
    Without ``common``, correlations are compared with those of independent views (`components.null_edge`). One view
    is not tested: that is a reason, or a note if the settings are for one view (``one_is_meant``). The ``hint`` is one
    more sentence: a reason if there are others, a note if there are none.
    """
    alone = metric.ranks.shape[1] == 1
    edge = null_edge(metric.effective, k)
    typical_edge = float(np.median(edge))
    # In very small neighborhoods the edge is 1; there n_common counts correlations near one only.
    above = metric.correlations > np.minimum(edge, UNDECIDABLE - 0.05)[:, None]
    share = float(above.any(axis=1).mean())
    decidable = typical_edge < UNDECIDABLE
    if alone:
        advice = "Give two views or more, or set metric to 'mahalanobis' if one is meant."
        n_common, reasons = 0, [] if one_is_meant else [f"one view: {ONE_VIEW}. {advice}"]
    elif common is not None and common.p is not None:
        n_common, reasons = common.dimensions, [] if common.found else [_nothing_common(common)]
        decidable = common.found is not None
    else:
        n_common, reasons = int(np.median(above.sum(axis=1))), []
        if decidable and share < 0.5:
            reasons.append(
                f"nothing common found: at {1 - share:.0%} of the landmarks no correlation is above "
                f"{typical_edge:.2f}, which independent views reach by chance. Widen the neighborhoods (window or "
                "n_neighbors), or conclude that these views share nothing."
            )
    reasons += _reasons(checks, nothing=bool(reasons) and not alone)
    if neighbor_recall is not None and neighbor_recall < LEAST_RECALL:
        reasons.append(
            f"the approximate search found {neighbor_recall:.1%} of the true neighbours, and {LEAST_RECALL:.0%} are "
            "needed. Set neighbor_index to 'exact', lower n_neighbors, or reduce the channels of the views."
        )
    notes = [f"one view: {ONE_VIEW}."] if alone and one_is_meant else []
    notes += _notes(common, checks, metric.correlations.shape[0])
    if hint:
        (reasons or notes).append(hint)
    measures = {
        "leading_eigenvalue": float(eigenvalues[0]),
        "top_correlation": None if alone else float(np.median(metric.correlations[:, 0])),
        "null_edge": None if alone else typical_edge,
        "decidable": None if alone else decidable,
        "landmarks_above_edge": None if alone else share,
        "pieces": checks.pieces,
        "rank": np.median(metric.ranks, axis=0).tolist(),
        **_measures(common, checks),
        "notes": notes,
        "trusted": not reasons,
        **({} if neighbor_recall is None else {"neighbor_recall": neighbor_recall}),
    }
    local = {"rank": metric.ranks} if alone else {"rank": metric.ranks, "null_edge": edge}
    if common is not None:
        local |= {"n_common": common.count, "p_value": common.p_values, "strength": common.strength}
        local |= {"radius": common.radius, "condition": common.condition}
    return Quality(n_common, measures, reasons, notes, local)


def _measures(common: Common | None, checks: Checks) -> dict[str, Any]:
    """Results of the tests and checks as plain numbers; those that were not possible are left out."""
    found: dict[str, Any] = {}
    if common is not None:
        found = {
            "p_common": common.p,
            "common_against": common.against,
            "common_by_chance": common.by_chance,
            "common_strength": float(np.median(common.strength)),
            "landmarks_common": float((common.count > 0).mean()),
            "effective_neighbors": common.samples,
            "radius": np.median(common.radius, axis=0).tolist(),
            **({"pairs_common": common.pairs} if common.pairs else {}),
        }
    checked = {
        "far_rows": checks.far,
        "landmarks_seen": checks.seen,
        "half_landmarks_r2": checks.half_r2,
        "eigengap": checks.gap,
        "linear_cca_r2": None if checks.linear is None else float(checks.linear.mean()),
        "independent_coordinates": checks.independent,
        "carriers": checks.carriers,
        "from_halves": checks.again,
    }
    plain = {name: x.tolist() if isinstance(x, np.ndarray) else x for name, x in checked.items() if x is not None}
    return found | plain


def _nothing_common(common: Common) -> str:
    """Why nothing common to all was found, or why that cannot be decided."""
    if common.found is None:
        return (
            "it cannot be decided whether anything is common: shifted against each other in time, these views are "
            f"nearly as correlated (squared correlation {common.by_chance:.2f}) as views can be. Take a longer "
            "recording, or widen the neighborhoods (window or n_neighbors)."
        )
    if common.pairs:
        pairs = ", ".join(f"{u + 1} and {v + 1}" for u, v in common.pairs)
        return (
            f"nothing common found to all {common.radius.shape[1]} views (p = {common.p:.2f}); but two by two these "
            f"views share something: {pairs}. Fit those alone; `dlcca.who_shares` has the details."
        )
    how = "the same views shifted against each other in time are as correlated"
    if common.against == "speeds":
        how = "the views are steady oscillations, and at other speeds they are as correlated"
    return (
        f"nothing common found: {how} (p = {common.p:.2f}). Widen the neighborhoods (window or n_neighbors), take a "
        "longer recording, or conclude that these views share nothing."
    )


def _reasons(checks: Checks, *, nothing: bool) -> list[str]:
    """Why the kernel and, unless there is nothing common, the coordinates should not be trusted."""
    found, seen = [], checks.seen
    if checks.pieces > 1 and not checks.few_stray:
        found.append(
            f"the kernel falls into at least {checks.pieces} separate pieces (connected components), and the first "
            "coordinates only separate them. Raise n_links or bandwidth."
        )
    if seen is not None and seen < FEWEST_SEEN:
        found.append(
            f"the bandwidth is at its lower end: the typical sample has weights on {seen:.1f} landmarks only. "
            "Raise bandwidth, or set more landmarks."
        )
    if seen is not None and seen > MOST_SEEN * checks.could_see and checks.could_see > 2:
        found.append(
            f"the bandwidth is at its upper end: the typical sample has equal weights on {seen:.0f} of "
            f"{checks.could_see} landmarks, near or far. Lower bandwidth."
        )
    if nothing:  # further reasons would be about coordinates of noise
        return found
    if checks.far > MOST_FAR:
        found.append(
            f"{checks.far:.1%} of the samples lie far from every landmark, where no metric was estimated; their "
            "coordinates are extrapolated. Set more landmarks, or landmark_rule to 'farthest'."
        )
    if checks.carriers is None:
        return found
    few, wide = np.flatnonzero(checks.carriers < FEWEST_CARRIERS), checks.carriers >= FEWEST_CARRIERS
    # Of the first coordinate that is not dominated by outliers.
    r2 = checks.half_r2_more[wide][:1] if checks.half_r2_more is not None else np.empty(0)
    if (r2 < LEAST_HALF_R2).any():
        found.append(
            f"too few landmarks: half of them give another first coordinate (R² {r2[0]:.2f}). Set more landmarks, or "
            "lower n_links or bandwidth, so that metrics are used near their landmarks only."
        )
    if few.size:
        found.append(
            f"coordinate{'s' * (few.size > 1)} {_listed(few)}: less than {FEWEST_CARRIERS:.0%} of the "
            "samples hold half of its variance. These are outliers, or a part of the data that is weakly connected "
            "with the rest: inspect them, leave them out, or raise n_links."
        )
    return found


def _notes(common: Common | None, checks: Checks, m: int) -> list[str]:
    """What does not spoil the result but should be known."""
    found = []
    if common is not None and common.found and common.against == "shifted":
        having, over_all = int((common.count > 0).sum()), "the common variable is significant over all"
        if having == 0:
            why = f"because a neighborhood has {common.samples:.1f} independent samples"
            found.append(f"no landmark is significant by itself, {why}; {over_all} landmarks together.")
        elif having < m / 2:
            found.append(f"{having} of {m} landmarks are significant by themselves; {over_all}.")
    if checks.independent is not None and checks.carriers is not None:
        q = len(checks.carriers)
        others = [c for c in range(q) if c not in checks.independent and checks.carriers[c] >= FEWEST_CARRIERS]
        if others:
            found.append(
                f"of {q} coordinates {_listed(others)} follow{'s' * (len(others) == 1)} from earlier ones (harmonics); "
                f"independent: {_listed(checks.independent)}."
            )
    if checks.linear is not None and checks.linear.min() >= LINEAR_DOES and common is not None and common.found:
        found.append(
            f"{LINEAR_NOTE}: its variates explain R² >= {checks.linear.min():.2f} of each coordinate ({TRY_LINEAR})."
        )
    if checks.pieces > 1 and checks.few_stray:
        found.append(
            f"{checks.stray:.1%} of the landmarks are not connected with the others: outliers, or a part of the data "
            "that is unlike the rest. They do not make a coordinate of their own."
        )
    if checks.outliers:
        found.append(
            f"{checks.outliers} slower coordinate{'s' * (checks.outliers > 1)} dominated by less than "
            f"{FEWEST_CARRIERS:.0%} of the samples replaced by others: outliers, or a part of the data that is weakly "
            "connected with the rest."
        )
    if checks.gap is not None and checks.gap < LEAST_GAP:
        found.append(
            f"the last coordinate and the next one have nearly equal eigenvalues (gap {checks.gap:.1%}): other samples "
            "may mix them. Set n_components one higher or lower."
        )
    return found


def _listed(coordinates: Iterable[int]) -> str:
    return ", ".join(str(c + 1) for c in coordinates)

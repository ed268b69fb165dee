"""First answers to "can this be trusted?": numbers and reasons that go with every fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.cca import LocalMetric
from dlcca.numerics.nulls import null_edge

#: A second eigenvalue above this means that diffusion never gets from one part of the data to another.
CONNECTED = 1 - 1e-9
#: Where independent views reach this by chance, neighborhoods are too small to tell whether anything is common.
UNDECIDABLE = 0.95
#: Where an approximate search finds a smaller share of the true neighbours than this, metrics are fitted to others.
LEAST_RECALL = 0.95


@dataclass(frozen=True)
class Quality:
    """What is known of the trustworthiness of a fit."""

    n_common: int  # common dimensions at the typical landmark
    measures: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)  # why the result should not be trusted; empty if it may be


def assess(metric: LocalMetric, k: int, eigenvalues: NDArray, *, neighbor_recall: float | None = None) -> Quality:
    """Count the correlations that stand above what independent views would show, and look at the spectrum.

    ``neighbor_recall`` is the share of the true neighbours that an approximate search found; None for an exact one.
    """
    edge = null_edge(metric.effective, k)
    typical_edge = float(np.median(edge))
    decidable = typical_edge < UNDECIDABLE
    # In very small neighborhoods chance reaches 1; there n_common only counts what looks like a correlation of one.
    above = metric.correlations > np.minimum(edge, UNDECIDABLE - 0.05)[:, None]
    share = float(above.any(axis=1).mean())
    pieces = int((eigenvalues > CONNECTED).sum())
    reasons = []
    if decidable and share < 0.5:
        reasons.append(
            f"nothing common found: at {1 - share:.0%} of the landmarks no correlation is above {typical_edge:.2f}, "
            "which independent views reach by chance. Widen the neighborhoods (window or n_neighbors), or take it "
            "that these views share nothing."
        )
    if pieces > 1:
        reasons.append(
            f"the kernel falls into at least {pieces} separate pieces, and the first coordinates only tell them apart. "
            "Raise n_links or bandwidth."
        )
    if neighbor_recall is not None and neighbor_recall < LEAST_RECALL:
        reasons.append(
            f"the approximate search found {neighbor_recall:.1%} of the true neighbours, and {LEAST_RECALL:.0%} are "
            "needed. Set neighbor_index to 'exact'; or ask for fewer n_neighbors, or reduce the channels of the views."
        )
    measures: dict[str, Any] = {
        "leading_eigenvalue": float(eigenvalues[0]),
        "top_correlation": float(np.median(metric.correlations[:, 0])),
        "null_edge": typical_edge,
        "decidable": decidable,
        "landmarks_above_edge": share,
        "pieces": pieces,
        "rank": [float(r) for r in np.median(metric.ranks, axis=0)],
        "trusted": not reasons,
    }
    if neighbor_recall is not None:
        measures["neighbor_recall"] = neighbor_recall
    return Quality(int(np.median(above.sum(axis=1))), measures, reasons)

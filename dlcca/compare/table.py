"""The table: how far each method agrees with ours, whether every view sees it, and how well it tells the truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.trust import scores


@dataclass(frozen=True)
class Entry:
    """One method. What cannot be said of it is None, and ``note`` tells why."""

    method: str
    score: float | None = None
    control: float | None = None
    seen: float | None = None
    seen_control: float | None = None
    gain: float | None = None
    tells_ours: float | None = None
    told_by_ours: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def seen_by_every_view(E: NDArray, views: list[NDArray], fold: NDArray[np.int64]) -> float | None:
    """The least R² of coordinates (n, q) from one view alone; what is common is seen by each, what is private by one.

    At least 0: below it, a guess is worse than none. None for a single view, which has nobody to agree with.
    """
    if len(views) < 2:
        return None
    return max(0.0, min(scores.variable_score(X, E, fold) for X in views))


def agreement(ours: NDArray, other: NDArray, fold: NDArray[np.int64]) -> tuple[float, float]:
    """R² of our coordinates from those of another method, and the reverse; at least 0."""
    A, B = scores.at_unit_variance(ours), scores.at_unit_variance(other)
    return max(0.0, scores.variable_score(B, A, fold)), max(0.0, scores.variable_score(A, B, fold))

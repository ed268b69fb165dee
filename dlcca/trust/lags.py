"""Views that run behind each other: how far, and the rows that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.settings.fit import Settings
from dlcca.trust.lag_estimate import LEAST_LENGTH, Lag, consistent, lag_between
from dlcca.views import Views, check_varies, checked

#: Lags that "auto" looks at: this share of the rows, at most so many.
SHARE_OF_ROWS, MOST_ROWS = 1 / 10, 500


@dataclass(frozen=True)
class Lags:
    """Rows that each view runs behind the first: what the first shows at row t, view v shows at t + rows[v]."""

    names: tuple[str, ...]
    rows: NDArray[np.int64]  # (K,), 0 for a view of which it cannot be told
    n: int  # rows of the views
    pairs: Mapping[tuple[int, int], Lag]  # of every pair of views, where they were estimated
    most: int = 0  # the largest lag looked at; 0 if they were given
    told: tuple[bool, ...] = ()  # of every view whether it is known

    @property
    def why(self) -> str:
        return "as given" if not self.most else f"estimated, up to {self.most} rows either way"

    @property
    def measures(self) -> dict[str, Any]:
        """Plain values, for `quality_`: rows and whether they are known by view, and each pair with its evidence."""
        return {
            "rows": dict(zip(self.names, self.rows.tolist(), strict=True)),
            "known": dict(zip(self.names, self.told, strict=True)),
            "max_lag": self.most,
            "pairs": [
                {
                    "views": [self.names[u], self.names[v]],
                    "rows": lag.rows if lag.known else None,
                    "error": lag.error if lag.known and np.isfinite(lag.error) else None,
                    "p": lag.p,
                    "strength": lag.strength,
                    "reason": lag.reason,
                }
                for (u, v), lag in self.pairs.items()
            ],
        }

    @property
    def notes(self) -> list[str]:
        """A sentence for every view whose lag cannot be told, and for pairs that contradict the lags."""
        made = []
        for v, known in enumerate(self.told):
            if not known:
                reasons = dict.fromkeys(lag.reason for pair, lag in self.pairs.items() if v in pair and lag.reason)
                made.append(
                    f"the lag of view {self.names[v]!r} cannot be told and is taken as 0: {'; '.join(reasons)}."
                )
        for (u, v), lag in self.pairs.items():
            apart = abs(lag.rows - (self.rows[v] - self.rows[u])) if lag.known else 0
            if apart > 1 + 3 * (lag.error if np.isfinite(lag.error) else 0):
                made.append(
                    f"views {self.names[u]!r} and {self.names[v]!r} alone have a lag of {lag.rows:+.1f} rows, which "
                    "the other pairs contradict."
                )
        return made

    def __str__(self) -> str:
        return "\n".join([*lag_lines({"lags": self.measures}), *self.notes])


def lags(views: Any, max_lag: int | None = None) -> Lags:
    """How far each view runs behind the first, in rows: ``rows`` (K,), with the evidence of every pair in ``pairs``.

    Parameters
    ----------
    views : a list or dict of K arrays (n, d_v) in memory
    max_lag : the largest lag looked at; None for a tenth of the rows, at most 500
    """
    views = checked(views)
    check_varies(views)
    K, most = len(views.present), _most(max_lag, views.n)
    pairs = {(u, v): lag_between(views.present[u], views.present[v], most) for u, v in combinations(range(K), 2)}
    found = consistent(pairs, K)
    known = np.isfinite(found)
    rows = np.rint(np.where(known, found, 0)).astype(np.int64)
    return Lags(views.names, rows, views.n, pairs, most, tuple(known.tolist()))


def _most(said: int | None, n: int) -> int:
    if said is None:
        return max(1, min(int(n * SHARE_OF_ROWS), MOST_ROWS))
    if n < LEAST_LENGTH * int(said):
        raise SettingsError(f"max_lag={said}, but the views have {n} samples; ask for at most {n // LEAST_LENGTH}.")
    return int(said)


def settled_lags(views: Views, settings: Settings) -> Lags:
    """The lags that the settings give, or that are estimated if they say so."""
    asked = settings.neighborhoods
    if not isinstance(asked.kind, str) or not isinstance(settings.landmarks.count, str | int | np.integer):
        raise SettingsError(
            "lags with landmarks or neighborhoods given by row numbers; ask for a count, 'time' or 'knn'."
        )
    if isinstance(asked.lags, str):
        return lags(views, asked.max_lag)
    rows = np.asarray(asked.lags)
    K = len(views.names)
    if rows.shape != (K,) or rows.dtype.kind not in "iu" or rows[0] != 0:
        raise SettingsError(
            f"lags={asked.lags!r}; {K} whole numbers of rows are needed, one for each view, 0 for the first."
        )
    return Lags(views.names, rows.astype(np.int64), views.n, {}, 0, (True,) * K)


def paired(
    views: Views, rows: NDArray[np.int64], segments: NDArray[np.int64] | None = None
) -> tuple[Views, NDArray[np.int64], NDArray[np.int64] | None]:
    """The views with row t of the first beside row t + lag of each; the rows t that have all partners; their segments.

    ``segments`` (n,) number unbroken stretches of a recording: partners lie in the same one.
    """
    n = views.n
    first = np.arange(max(0, -int(rows.min())), n - max(0, int(rows.max())))
    if segments is not None and len(first):
        same = [segments[first + lag] == segments[first] for lag in rows]
        first = first[np.logical_and.reduce(same)]
    if len(first) < 2:
        raise DataError(f"lags of {rows.tolist()} rows leave {len(first)} of {n} samples with partners; 2 are needed.")
    arrays = tuple(None if X is None else X[first + lag] for X, lag in zip(views.arrays, rows, strict=True))
    return Views(arrays, views.names), first, None if segments is None else segments[first]


def spread(X: NDArray, rows: NDArray[np.int64], n: int) -> NDArray:
    """An array of some rows as one of all n, NaN for the others."""
    if len(rows) == n:
        return X
    made = np.full((n, *X.shape[1:]), np.nan, X.dtype)
    made[rows] = X
    return made


def lag_lines(quality: Mapping[str, Any]) -> list[str]:
    """A sentence for each view that runs behind the first, or before it."""
    found = quality.get("lags")
    if found is None:
        return []
    (first, _), *others = found["rows"].items()
    told = [(name, rows) for name, rows in others if found["known"][name]]
    return [
        f"View {name!r} runs {abs(rows)} row{'s' * (abs(rows) != 1)} {'behind' if rows > 0 else 'before'} {first!r}."
        if rows
        else f"View {name!r} is in step with {first!r}."
        for name, rows in told
    ]

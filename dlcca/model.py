"""A fitted model: the arrays that give any sample its coordinates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.numerics.coordinates import COORDINATES
from dlcca.numerics.distances import Axes as Axes
from dlcca.numerics.distances import landmark_distances, linked_distances
from dlcca.numerics.fusion import FUSIONS
from dlcca.numerics.kernels import relative_rows, sparse_rows
from dlcca.numerics.landmarks import nearest_distances
from dlcca.numerics.topk import closest_links, nearest_links


@dataclass(frozen=True)
class Recordings:
    """How the views of a model were made of recordings, so that new ones can be treated in the same way."""

    facts: dict[str, Any]  # window_s, step_s, and for each view its recipe, channels, units and rates
    scaling: dict[str, NDArray]  # arrays of a store of views, by their names there: "scaling/NAME/center" and so on


#: Kernel entries held at once while coordinates are computed.
BLOCK_ENTRIES = 1 << 23


@dataclass(frozen=True)
class Model:
    """Landmarks, their metrics and their coordinates; K views, m landmarks, q coordinates.

    ``fusion`` is a name in `numerics.fusion.FUSIONS`. There is one kernel for each view, and the embedding is the mean
    of what the views read; or one kernel of distances that are made of those in the views.
    """

    names: tuple[str, ...]  # of the views
    fusion: str
    n_links: int | None  # landmarks that a row is linked to; None for all of them
    points: list[NDArray]  # per view, (m, d_v) the landmarks
    factors: list[NDArray]  # per view, (m, d_v, r) F with A = F Fᵀ
    units: NDArray  # (K,) what a view's distances are divided by, so that the kernel is exp(-D); 0: view not used
    weights: list[NDArray]  # per kernel, (m,)
    values: list[NDArray]  # per kernel, (m, q)
    scale: NDArray  # (q,) makes the mean of all readings have mean square one
    reach: NDArray = field(default_factory=lambda: np.empty(0))  # (K,) see `numerics.landmarks`; empty before the fit
    axes: Sequence[Axes | None] = ()  # per view, along which links are nearest; none: the channels as they are
    reading: str = "diffusion"  # how coordinates are read: a name in `numerics.coordinates.COORDINATES`
    readout: Mapping[str, NDArray] = field(default_factory=dict)  # what is read with besides weights and values
    rotation: NDArray | None = None  # (q, q) lays the axes on those of an earlier fit; None for the axes as they come

    @property
    def n_landmarks(self) -> int:
        return len(self.points[0])

    @property
    def needed(self) -> list[int]:
        """The views that this model reads."""
        return [v for v, unit in enumerate(self.units) if unit > 0]

    def coordinates(self, views: Sequence[NDArray | None]) -> NDArray[np.float64]:
        """Coordinates (n, q) of samples given by their views (n, d_v), of which some may be None."""
        self.check(views)
        given, kind = [X for X in views if X is not None], COORDINATES[self.reading]
        rows = max(1, BLOCK_ENTRIES // self.n_landmarks)
        cuts = [slice(first, first + rows) for first in range(0, len(given[0]), rows)]
        blocks = [kind.read(self.kernel_rows([None if X is None else X[c] for X in views]), self) for c in cuts]
        E = np.concatenate(blocks) if blocks else np.empty((0, len(self.scale)))
        return E if self.rotation is None else E @ self.rotation

    def distance(self, views: Sequence[NDArray | None]) -> NDArray[np.float64]:
        """How far samples lie from what the fit has seen, (n,): beyond 1 is outside.

        In each view the distance to the nearest landmark, as a share of that within which 99.9 % of the fit's own rows
        lie; the largest over the views that are there.
        """
        self.check(views)
        given = [(X, v) for v in self.needed if (X := views[v]) is not None]
        return np.maximum.reduce([nearest_distances(X, self.points[v]) / self.reach[v] for X, v in given])

    def kernel_rows(self, views: Sequence[NDArray | None]) -> list[Any]:
        """The rows of every kernel, up to a factor of each row; None for a kernel whose view is missing."""
        if FUSIONS[self.fusion].per_view:
            return [None if X is None else self.view_rows(v, X) for v, X in enumerate(views)]
        D = self.distances(views)
        if self.n_links is None:
            return [relative_rows(D, 1.0)]
        links, nearest = closest_links(D, self.n_links)
        return [sparse_rows(relative_rows(nearest, 1.0), links, self.n_landmarks)]

    def distances(self, views: Sequence[NDArray | None]) -> NDArray:
        """Distances (n, m) to the landmarks in units of the kernel's width, fused over the views present."""
        parts = [
            landmark_distances(X, self.points[v], self.factors[v]) / np.asarray(self.units[v], X.dtype)
            for v in self.needed
            if (X := views[v]) is not None
        ]
        return FUSIONS[self.fusion].fused(parts)

    def view_rows(self, v: int, X: NDArray) -> Any:
        """Kernel rows of one view, up to a factor of each row."""
        points, F, unit = self.points[v], self.factors[v], self.units[v]
        if self.n_links is None:
            return relative_rows(landmark_distances(X, points, F), unit)
        links = nearest_links(X, points, self.n_links, self.axes[v] if self.axes else None)
        return sparse_rows(relative_rows(linked_distances(X, points, F, links), unit), links, len(points))

    def check(self, views: Sequence[Any]) -> None:
        """An error if arrays (n, d_v), or what has a shape as they do, are not the views that the model reads."""
        if len(views) != len(self.names):
            raise DataError(
                f"{len(views)} views were given to a model of {len(self.names)} ({', '.join(self.names)}); "
                "give None for a view that is missing."
            )
        present = {name: v for v, name in enumerate(self.names) if views[v] is not None}
        for name, v in present.items():
            (rows, d), d_fit = views[v].shape, self.points[v].shape[1]
            if d != d_fit:
                turned = " Transpose it (X.T): rows are samples." if rows == d_fit else ""
                raise DataError(f"view {name!r} has {d} channels; the model was fitted with {d_fit}.{turned}")
        self.check_present([*present])

    def check_present(self, names: Sequence[str]) -> None:
        """An error if the fusion cannot do with these views alone."""
        needed = [self.names[v] for v in self.needed]
        if not set(needed) & set(names):
            missing = ", ".join(map(repr, needed))
            raise DataError(f"fusion {self.fusion!r} of this model reads only {missing}, which is missing.")

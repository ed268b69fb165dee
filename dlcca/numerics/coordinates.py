"""Coordinates of rows: how they are read from kernel rows, their signs, and how they differ from those of another fit.

`COORDINATES` has the kinds that can be named in settings. Each is a class that says what is fitted and kept besides the
eigenfunctions at the landmarks, and how the coordinates of a row follow from its kernel rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics import potential
from dlcca.numerics.kernels import Grams, Kernel, extend
from dlcca.numerics.landmarks import evenly

Readout = Mapping[str, NDArray[np.float64]]

#: A `dlcca.model.Model`: its ``weights``, ``values``, ``scale`` and ``readout`` (that of `Diffusion.fit`) are read.
Fitted = Any


@dataclass(frozen=True)
class Landmarks:
    """What is known when coordinates are fitted."""

    make_rows: Callable[[], Sequence[Kernel]]  # `rows`, where they are needed
    dtype: np.dtype[Any]  # of the data
    grams: Grams  # by pairs of kernels, (m, m) products of the balanced kernels; none without `needs_grams`
    columns: Sequence[NDArray]  # per kernel, (m,) column sums of the kernel whose rows sum to one; likewise
    step: potential.Step | None = None  # where there are too many landmarks for Gram matrices: instead of them

    @cached_property
    def rows(self) -> Sequence[Kernel]:
        """Per kernel, (s, m) kernel rows of all landmarks or of some, up to a factor of each row."""
        return self.make_rows()


class Diffusion:
    """Eigenfunctions of the diffusion step. Base class of all coordinates."""

    are_eigenfunctions = True
    """Whether they are eigenfunctions, of which harmonics and outliers are replaced."""
    needs_grams = False
    """Whether they are fitted to the Gram matrices of the kernels."""
    takes_steps = False
    """Whether products with the transition matrices (`Landmarks.step`) do in their place."""
    normalizations: tuple[str, ...] = ("balanced", "paper")
    takes_time = False
    """Whether they depend on the option ``diffusion_time``."""
    is_scaled = False
    """Whether `fit` gives them their scale; else eigenfunctions have mean square one."""
    constants: Sequence[Any] = ()
    """Numbers of the code on which the kept arrays depend."""

    def shapes(self, m: int, K: int, q: int) -> dict[str, tuple[int, ...]]:
        """The arrays that are kept of m landmarks, K kernels and q coordinates; none if nothing is fitted."""
        return {}

    def fit(self, model: Fitted, known: Landmarks, q: int, time: int | None) -> tuple[Readout, dict[str, Any]]:
        """The arrays that are kept, and facts about them (plain values).

        The fact "chosen" has the value of each option that was "auto", with the reason.
        """
        return {}, {}

    def signed(self, readout: Readout, sign: NDArray) -> Readout:
        """The arrays that give every coordinate with another sign (q,), if the eigenfunctions have it too."""
        return readout

    def read(self, rows: Sequence[Kernel | None], model: Fitted) -> NDArray[np.float64]:
        """Coordinates (n, q) from the rows (n, m) of every kernel; None for a kernel whose view is missing."""
        known = zip(rows, model.weights, model.values, strict=True)
        readings = [extend(W, b, V) for W, b, V in known if W is not None]
        # The mean of all kernels' readings was scaled in the fit; the reading of one has mean square one itself.
        return np.mean(readings, axis=0) * (model.scale if len(readings) == len(rows) else 1)


class Potential(Diffusion):
    """Principal components of powers of transition probabilities: see `numerics.potential`."""

    are_eigenfunctions = False
    needs_grams = takes_steps = True
    normalizations = ("balanced",)
    takes_time = True
    is_scaled = True
    constants = (potential.ANCHORS, potential.ROOTS)

    def shapes(self, m: int, K: int, q: int) -> dict[str, tuple[int, ...]]:
        a = potential.anchors_of(m)
        each = {"arrivals": (m, a), "means": (a,), "loadings": (a, q)}
        return {"slopes": (K, q), **{f"{name}_{v}": shape for v in range(K) for name, shape in each.items()}}

    def fit(self, model: Fitted, known: Landmarks, q: int, time: int | None) -> tuple[Readout, dict[str, Any]]:
        found = self.arrivals(known, time)
        facts: dict[str, Any] = {"time": found.time, "states": found.states}
        if time is None:
            facts["chosen"] = {"diffusion_time": [found.time, "by the number of states that can be distinguished"]}
        return self.arrays(found, known, q), facts

    def arrivals(self, known: Landmarks, time: int | None) -> potential.Arrivals:
        """The transition probabilities from all landmarks, after a diffusion time that is given or chosen."""
        C = known.columns
        anchors = evenly(len(C[0]), potential.anchors_of(len(C[0])))
        if known.step is not None:
            return potential.walked_arrivals(known.step, C, anchors, time)
        return potential.arrivals(potential.transitions(known.grams, C, known.dtype), C[0], anchors, time)

    def arrays(self, found: potential.Arrivals, known: Landmarks, q: int) -> dict[str, NDArray[np.float64]]:
        """What is kept."""
        parts = [potential.features(W, B) for W, B in zip(known.rows, found.probabilities, strict=True)]
        fitted = potential.principal_components(parts, q)
        size = 1 / np.sqrt(max(float(fitted.variances[0]), np.finfo(float).tiny))  # the first has variance one
        arrays = {"slopes": fitted.slopes}
        for v, B in enumerate(found.probabilities):
            arrays |= {f"arrivals_{v}": B, f"means_{v}": fitted.means[v], f"loadings_{v}": fitted.loadings[v] * size}
        return arrays

    def signed(self, readout: Readout, sign: NDArray) -> Readout:
        return {name: X * sign if name.startswith("loadings") else X for name, X in readout.items()}

    def read(self, rows: Sequence[Kernel | None], model: Fitted) -> NDArray[np.float64]:
        kept = model.readout
        names = ("means", "loadings", "arrivals")
        means, loadings, arrivals = ([kept[f"{name}_{v}"] for v in range(len(rows))] for name in names)
        return potential.potential_coordinates(
            rows, arrivals, potential.Components(means, loadings, kept["slopes"], np.empty(0))
        )


class Automatic(Potential):
    """Potential coordinates where few states can be distinguished, eigenfunctions where many can.

    In noisy recordings a walk forgets quickly where it started, and five eigenfunctions hold two variables and their
    harmonics. A smooth variable without noise is best seen in the eigenfunctions.
    """

    are_eigenfunctions = True  # they may be

    def fit(self, model: Fitted, known: Landmarks, q: int, time: int | None) -> tuple[Readout, dict[str, Any]]:
        found = self.arrivals(known, time or 1)
        name = "diffusion" if time is None and found.states > potential.STATES else "potential"
        why = f"{found.states:.1f} states can be distinguished after {potential.FEW_ROUNDS} round trips"
        arrays = self.arrays(found, known, q) if name == "potential" else {}
        chosen: dict[str, Any] = {"coordinates": [name, why]}
        if time is None:
            chosen["diffusion_time"] = [1, "" if name == "diffusion" else f"at most {potential.STATES} states"]
        return arrays, {"time": found.time, "states": found.states, "kind": name, "chosen": chosen}


#: By the name in settings.
COORDINATES: dict[str, Diffusion] = {"auto": Automatic(), "diffusion": Diffusion(), "potential": Potential()}


def signs(Psi: NDArray) -> NDArray[np.float64]:
    """+1 or -1 for each column of Psi (n, q), to be multiplied by it.

    A column leans to its longer tail: its sum of cubes is made positive. Where that is near zero, its largest entry is.
    """
    return signs_of_sums((Psi**3).sum(axis=0), (np.abs(Psi) ** 3).sum(axis=0), largest_entries(Psi))


def signs_of_sums(cubes: NDArray, sizes: NDArray, largest: NDArray) -> NDArray[np.float64]:
    """The same from the sums of the cubes (q,) and of their sizes, and the largest entries."""
    clear = np.abs(cubes) >= 1e-6 * sizes
    return np.where(np.where(clear, cubes, largest) < 0, -1.0, 1.0)


def largest_entries(Psi: NDArray) -> NDArray:
    """The entry of largest size of each column of Psi (n, q)."""
    return Psi[np.argmax(np.abs(Psi), axis=0), np.arange(Psi.shape[1])]


@dataclass(frozen=True)
class Change:
    """How coordinates of the same rows differ, axis by axis and in all."""

    r2: float  # share of the old coordinates' variance that the new ones have, 1 if nothing changed
    correlations: NDArray[np.float64]  # (q,) of each axis with itself
    relative: float  # root mean square of the change, as a share of that of the old coordinates about their mean
    largest: float  # the largest change of a row, in the same unit
    rows: int  # compared


def rotation(new: NDArray, old: NDArray, *, only_signs: bool = False) -> NDArray[np.float64]:
    r"""The orthogonal R that makes ``new @ R`` most like ``old``, :math:`\min_R |E' R - E|_F` (Procrustes).

    It keeps the origin and the scale, as a fitted model must. With :math:`E'^T E = U S V^T`, :math:`R = U V^T` (q, q).
    Of the coordinates (n, q) of the same rows those with NaN in either are left out. With ``only_signs`` axes are only
    turned around; R is then diagonal, with entries 1 and -1.
    """
    A, B = _both_known(new, old)
    if only_signs:
        return np.diag(np.where((A * B).sum(axis=0) < 0, -1.0, 1.0))
    U, _S, Vt = np.linalg.svd(A.T @ B)
    return U @ Vt


def change(new: NDArray, old: NDArray) -> Change:
    """How much coordinates (n, q) of the same rows differ; rows with NaN in either are left out."""
    A, B = _both_known(new, old)
    about = B - B.mean(axis=0) if len(B) else B
    correlations = np.full(A.shape[1], np.nan)
    if len(A) > 1:
        a = A - A.mean(axis=0)
        size = np.sqrt((a**2).sum(axis=0) * (about**2).sum(axis=0))
        np.divide((a * about).sum(axis=0), size, out=correlations, where=size > 0)
    total, moved = (about**2).sum(), ((A - B) ** 2).sum(axis=1)
    unit = np.sqrt(total / len(B)) if total > 0 else 1.0
    return Change(
        r2=float(1 - moved.sum() / total) if total > 0 else float("nan"),
        correlations=correlations,
        relative=float(np.sqrt(moved.mean()) / unit) if len(B) else 0.0,
        largest=float(np.sqrt(moved.max(initial=0.0)) / unit),
        rows=len(B),
    )


def _both_known(new: NDArray, old: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if new.shape != old.shape:
        raise ValueError(f"coordinates {new.shape} and {old.shape} are not of the same rows and axes")
    known = np.isfinite(new).all(axis=1) & np.isfinite(old).all(axis=1)
    return np.asarray(new[known], np.float64), np.asarray(old[known], np.float64)

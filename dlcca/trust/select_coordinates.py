"""Which coordinates are given: the slowest ones, but rather the other half of a ring than a harmonic or an outlier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.trust.coordinate_checks import FEWEST_CARRIERS, FUNCTION_BELOW, carriers, residual

#: Coordinates that are looked at beyond those asked for.
SPARE = 2
#: A coordinate of which one other leaves less than this share of the variance is a harmonic of it.
HARMONIC_BELOW = 0.05
#: A spare one is taken for a harmonic only if it fades at most so many times as fast.
MUCH_FASTER = 2.0
#: Rows that are looked at.
ROWS = 500


@dataclass(frozen=True)
class Chosen:
    """Coordinates to give."""

    columns: list[int]  # their numbers, rising
    outliers: int  # slower ones that were left out because few rows carry them


def telling(E: NDArray, eigenvalues: NDArray, q: int, *, pieces_above: float = 1.0) -> Chosen:
    r"""Which q coordinates to give.

    On a circle that is run through at uneven speed, :math:`\cos 2\varphi` may fade more slowly than
    :math:`\sin\varphi`. Then the leading two coordinates, :math:`\cos\varphi` and a function of it, tell half of what
    there is, and the third completes the circle. And a few samples that lie far from all others fade more slowly than
    anything, but tell nothing of the rest.

    Parameters
    ----------
    E : (m, p) the leading coordinates of some rows, p >= q
    eigenvalues : (p,) of these coordinates, falling, at most 1
    q : coordinates wanted
    pieces_above : a coordinate with a larger eigenvalue tells a separate piece of the samples, and is always given
    """
    some = np.asarray(E[:: -(-len(E) // ROWS)], np.float64)
    chosen, fades, outlier = list(range(q)), 1 - eigenvalues, carriers(E) < FEWEST_CARRIERS
    may_go = eigenvalues <= pieces_above
    for spare in range(q, E.shape[1]):
        if outlier[spare] or _is_harmonic(some, spare):
            continue
        outliers = [c for c in chosen if outlier[c] and may_go[c]]
        slow_enough = [c for c in chosen if may_go[c] and fades[spare] <= MUCH_FASTER * fades[c]]
        harmonics = [] if outliers else [c for c in slow_enough if _is_better_than_harmonic(some, spare, c)]
        if outliers or harmonics:
            chosen.remove((outliers or harmonics)[-1])
            chosen.append(spare)
    return Chosen(sorted(chosen), sum(bool(outlier[c]) for c in range(q) if c not in chosen))


def _is_harmonic(E: NDArray, c: int) -> bool:
    """Whether a coordinate is a function of a single one before it."""
    return bool(_followed_by(E, c))


def _followed_by(E: NDArray, c: int) -> list[int]:
    """The coordinates before c of which it is a function."""
    return [a for a in range(c) if residual(E[:, [a]], E[:, c]) < HARMONIC_BELOW]


def _is_better_than_harmonic(E: NDArray, spare: int, c: int) -> bool:
    """Whether c is a function of one that makes a ring with the spare one: that tells it but for its sign."""
    size = (E[:, spare] - E[:, spare].mean()) ** 2
    return any(residual(E[:, [a]], size) < FUNCTION_BELOW for a in _followed_by(E, c))

"""Problems whose answer is known: static ones, in many arrangements, and the movies of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca import simulate

NOISES = (0.0, 0.02, 0.1)
SMALL, LARGE = (1000, 2000), 20_000
MANY_CHANNELS = 100
#: How much more often samples are kept at the one end of the common variable than at the other.
UNEVEN = 10.0


@dataclass(frozen=True)
class Problem:
    """Views and what is hidden in them."""

    name: str
    noise: float
    views: list[NDArray] = field(repr=False)
    z: NDArray = field(repr=False)  # (n, p)
    nuisance: list[NDArray] = field(repr=False)  # of each view, (n, p_v)
    options: dict[str, Any]  # of local CCA, and of nothing else
    movie: bool = False  # its frames have an order, and the first coordinate is to follow what is common
    speeds: NDArray | None = None  # of icons, in degrees per frame; the second is common

    @property
    def n(self) -> int:
        return len(self.z)


Make = Callable[..., tuple[list[NDArray], Any]]

STATIC: dict[str, Make] = {
    "torus, z on the small circle": simulate.torus,
    "torus, z on the big circle": lambda n, **said: simulate.torus(n, common="big", **said),
    "spiral": simulate.spiral,
    "swiss roll": simulate.swiss_roll,
    "linear": simulate.linear,
}


def static(n: int, noise: float, seed: int = 0) -> Iterator[Problem]:
    """Samples without a clock, as they are drawn."""
    for name, make in STATIC.items():
        views, truth = make(n, noise=noise, random_state=seed)
        yield _static(name, noise, views, truth.z, truth.nuisance)


def uneven(n: int, noise: float, seed: int = 0) -> Iterator[Problem]:
    """The same, sampled ten times as often at one end of the common variable as at the other."""
    rng = np.random.default_rng(seed)
    for name, make in STATIC.items():
        views, truth = make(5 * n, noise=noise, random_state=seed)
        u = truth.z[:, 0]
        odds = UNEVEN ** ((u - u.min()) / np.ptp(u))
        kept = np.sort(rng.choice(len(u), n, replace=False, p=odds / odds.sum()))
        yield _static(
            f"{name}, uneven", noise, [X[kept] for X in views], truth.z[kept], [e[kept] for e in truth.nuisance]
        )


def wide(n: int, noise: float, seed: int = 0) -> Iterator[Problem]:
    """The same on many channels: turned into a space of a hundred dimensions, with noise in all of them."""
    rng = np.random.default_rng(seed)
    for name, make in STATIC.items():
        views, truth = make(n, random_state=seed)
        turned = []
        for X in views:
            Q, _ = np.linalg.qr(rng.standard_normal((MANY_CHANNELS, X.shape[1])))
            spread = np.sqrt(X.var(axis=0).mean())
            # As much noise in all channels together as there is in those of the plain problem.
            share = noise * spread * np.sqrt(X.shape[1] / MANY_CHANNELS)
            turned.append(X @ Q.T + share * rng.standard_normal((n, MANY_CHANNELS)))
        yield _static(f"{name}, {MANY_CHANNELS} channels", noise, turned, truth.z, truth.nuisance)


def _static(name: str, noise: float, views: list[NDArray], z: NDArray, nuisance: list[NDArray]) -> Problem:
    return Problem(name, noise, views, z, nuisance, {"neighborhoods": "knn"})


def pendulums(noise: float, seed: int = 0) -> Iterator[Problem]:
    """The paper's coupled pendulums, with and without ones that only one camera sees."""
    for swing in (2.0, 4.0):
        for private in (False, True):
            views, truth = simulate.pendulums(400, swing=swing, private=private, noise=noise, random_state=seed)
            name = f"pendulums, swing {swing:.0f}" + ", private ones too" * private
            yield Problem(name, noise, views, truth.z, truth.nuisance if private else [], {"window": 8}, movie=True)


def icons(noise: float, seed: int = 0) -> Iterator[Problem]:
    """The paper's two scenes of rotating icons, three movies each."""
    for scene in (1, 2):
        views, truth = simulate.icons(300, scene=scene, noise=noise, random_state=seed)
        name = f"icons, scene {scene}"
        yield Problem(name, noise, views, truth.z, truth.nuisance, {"window": 7}, movie=True, speeds=truth.speeds)


def everything(small: Sequence[int] = SMALL, large: int = LARGE) -> Iterator[Problem]:
    """The whole suite, one problem at a time."""
    for noise in NOISES:
        for n in small:
            yield from static(n, noise)
            yield from uneven(n, noise)
            yield from wide(n, noise)
        yield from static(large, noise)
        yield from pendulums(noise)
        yield from icons(noise)

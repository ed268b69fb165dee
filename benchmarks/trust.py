"""Whether what is said to be common is: false alarms of independent views, power, and the number of dimensions.

Every run is a fit, with its own seed. Few landmarks do: whether anything is common is asked of other neighborhoods.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, left_out, share
from dlcca import LocalCCA, simulate
from tests.realdata.arrays import beats, digits, feet, mouse

Views = list[NDArray[Any]]
Make = Callable[[int], Views]

KNN: dict[str, Any] = {"neighborhoods": "knn"}
TIME: dict[str, Any] = {"neighborhoods": "time"}
LEVEL = 0.05
#: Sensor noise of three views of which two share a variable, or all do.
NOISE_LEVELS = (0.02, 0.05, 0.1, 0.2, 0.4)


def rows(quick: bool) -> Iterator[Row]:
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from false_alarms(20 if quick else 200)
        yield from power(3 if quick else 50)
        yield from dimensions(3 if quick else 50)


def false_alarms(runs: int) -> Iterator[Row]:
    """Views that share nothing: at most one in twenty may be said to share something."""
    families = simulated_unrelated()
    try:
        families |= recorded_unrelated()
    except pytest.skip.Exception as why:
        yield left_out("trust", f"nothing common in real recordings: {why}")
    for name, (make, options) in families.items():
        claimed = np.mean([fitted(make(seed), options).n_common_ > 0 for seed in range(runs)])
        yield share("trust", f"nothing common, {name}: runs of {runs} that claim it", claimed, LEVEL, "<= 1", unit="")


def power(runs: int) -> Iterator[Row]:
    """Views that share something: it must be found."""
    for name, (make, options) in related().items():
        found = np.mean([fitted(make(seed), options).n_common_ > 0 for seed in range(runs)])
        yield share("trust", f"something common, {name}: runs of {runs} that find it", found, 1.0, ">= 1", unit="")


def dimensions(runs: int) -> Iterator[Row]:
    """Linear problems of 0 to 3 common dimensions, 5000 samples."""
    for count in range(4):
        right = [
            fitted(simulate.linear(5000, n_common=count, random_state=seed)[0], KNN).n_common_ == count
            for seed in range(runs)
        ]
        text = f"linear, {count} common: runs of {runs} that say so"
        yield share("trust", text, float(np.mean(right)), 1.0, ">= 0.95", unit="")


def fitted(views: Views, options: dict[str, Any]) -> LocalCCA:
    return LocalCCA(random_state=0, landmarks=min(200, len(views[0])), **options).fit(views)


def simulated_unrelated() -> dict[str, tuple[Make, dict[str, Any]]]:
    """Views that have nothing in common, all of them together, and how they are fitted."""
    made: dict[str, tuple[Make, dict[str, Any]]] = {}
    for smoothness, word in ((0.0, "white"), (0.9, "smooth"), (0.99, "very smooth")):
        for kind, options in (("nearest", KNN), ("windows of 8", TIME), ("windows of 31", {**TIME, "window": 31})):
            made[f"{word}, {kind}"] = (noise(smoothness), options)
    made["white, three views, nearest"] = (noise(0.0, n_views=3), KNN)
    made["oscillations of different speeds, windows of 8"] = (oscillations, TIME)
    for level in NOISE_LEVELS:
        made[f"two of three views, noise {level}, nearest"] = (overlapping([(0, 1)], level), KNN)
    return made


def recorded_unrelated() -> dict[str, tuple[Make, dict[str, Any]]]:
    """Real recordings moved against each other; digits, whose rows are sorted, in another order."""
    made: dict[str, tuple[Make, dict[str, Any]]] = {"heartbeats of two patients, nearest": (two_patients, KNN)}
    for name, views, options in (
        ("heartbeats 20", beats(20), KNN),
        ("heartbeats 42", beats(42), KNN),
        ("feet", feet(), KNN),
        ("mouse", mouse(), TIME),
    ):
        made[f"{name} shifted, {'nearest' if options is KNN else 'windows of 8'}"] = (shifted(views), options)
    made["digits in another order, nearest"] = (shuffled(digits()), KNN)
    return made


def noise(smoothness: float, n_views: int = 2) -> Make:
    return lambda seed: simulate.independent(1000, n_views=n_views, smoothness=smoothness, random_state=seed)[0]


def overlapping(shared: list[tuple[int, ...]], level: float) -> Make:
    return lambda seed: simulate.overlapping(1000, shared=shared, noise=level, random_state=seed)[0]


def oscillations(seed: int) -> Views:
    """Two views of 400 rows, each a bent curve of two oscillations of its own random speeds and phases."""
    rng, time = np.random.default_rng(seed), np.arange(400)
    views = []
    for _ in range(2):
        cycles, phase = rng.uniform(4, 16, 2), rng.uniform(0, 2 * np.pi, 2)
        u = np.cos(2 * np.pi * np.outer(time, cycles) / 400 + phase)
        views.append(np.tanh(u @ rng.standard_normal((2, 12)) + rng.standard_normal(12)))
    return views


def shifted(views: Views) -> Make:
    """The first view against the second moved around the recording, by a tenth of it at least."""

    def make(seed: int) -> Views:
        n = len(views[0])
        by = int(np.random.default_rng(seed).integers(n // 10, n - n // 10))
        return [views[0], np.roll(views[1], by, axis=0)]

    return make


def two_patients(seed: int) -> Views:
    """The ECG of one patient and the PPG of another, which is moved around besides."""
    one, other = beats(20), beats(42)
    n = min(len(one[0]), len(other[0]))
    by = int(np.random.default_rng(seed).integers(n))
    pair = (one[0], other[1]) if seed % 2 else (other[0], one[1])
    return [pair[0][:n], np.roll(pair[1][:n], by, axis=0)]


def shuffled(views: Views) -> Make:
    return lambda seed: [views[0], np.random.default_rng(seed).permutation(views[1])]


def related() -> dict[str, tuple[Make, dict[str, Any]]]:
    """The paper's problems and the static ones."""
    made: dict[str, tuple[Make, dict[str, Any]]] = {}
    for swing in (2.0, 4.0):
        for private in (False, True):
            name = f"pendulums, swing {swing:.0f}{', private ones too' * private}"
            made[name] = (_pendulums(swing, private), TIME)
    for scene in (1, 2):
        made[f"icons, scene {scene}"] = (_icons(scene), {**TIME, "window": 7})
    made["torus, z on the small circle"] = (lambda seed: simulate.torus(2000, random_state=seed)[0], KNN)
    made["torus, z on the big circle"] = (lambda seed: simulate.torus(2000, common="big", random_state=seed)[0], KNN)
    made["spiral"] = (lambda seed: simulate.spiral(2000, random_state=seed)[0], KNN)
    made["swiss roll"] = (lambda seed: simulate.swiss_roll(2000, random_state=seed)[0], KNN)
    made["linear"] = (lambda seed: simulate.linear(2000, random_state=seed)[0], KNN)
    for level in NOISE_LEVELS:
        made[f"all of three views, noise {level}"] = (overlapping([(0, 1, 2)], level), KNN)
    made["linear, three views"] = (lambda seed: simulate.linear(2000, n_views=3, random_state=seed)[0], KNN)
    return made


def _pendulums(swing: float, private: bool) -> Make:
    return lambda seed: simulate.pendulums(swing=swing, private=private, random_state=seed)[0]


def _icons(scene: int) -> Make:
    return lambda seed: simulate.icons(scene=scene, random_state=seed)[0]

"""Windows that the program chooses: the common icon of random sets, and the coupled pendulums against windows of 8."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, share, timed
from dlcca import LocalCCA, simulate
from dlcca.simulate.movies import SPEEDS
from tests.support.scores import likeness, power_shares

COMMON, PRIVATE, FOUND = 0.9, 0.05, 16 / 20
#: Speeds of which no low multiples coincide; with the paper's, 12 degrees are in every movie of scene 2.
APART = (4.1, 6.0, 9.7, 14.3)


def rows(quick: bool) -> Iterator[Row]:
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from icons(range(1 if quick else 10), SPEEDS, f">= {FOUND:g}")
        yield from pendulums(range(1 if quick else 5))
        yield from icons(range(1 if quick else 10), APART, "")
        yield from many_pixels(range(1 if quick else 3))


def icons(seeds: range, speeds: tuple[float, ...], needed: str) -> Iterator[Row]:
    """Random sets of icons in both scenes: where the power of the first coordinate lies."""
    found, of = 0, f"icons at {', '.join(f'{speed:g}' for speed in speeds)}"
    for scene in (1, 2):
        for seed in seeds:
            views, truth = simulate.icons(scene=scene, speeds=speeds, pictures="random", random_state=seed)
            model = LocalCCA(window="auto", random_state=0).fit(views)
            common, private = power_shares(model.embedding_[:, 0], truth.speeds, truth.common)
            found += int(common >= COMMON and private <= PRIVATE)
            what = (
                f"{of}, scene {scene}, set {seed}: {_window(model)}, power of the common icon (private {private:.3f})"
            )
            yield share("windows", what, float(common), None, unit="")
    yield share("windows", f"{of}: sets on which the common icon is found", found, 2 * len(seeds), needed, unit="")


def pendulums(seeds: range) -> Iterator[Row]:
    """The first coordinate's likeness to the pendulum, against that of windows of 8; and what choosing costs."""
    chosen_s = given_s = 0.0
    for seed in seeds:
        for swing in (2.0, 4.0):
            for private in (False, True):
                views, truth = simulate.pendulums(swing=swing, private=private, random_state=seed)
                began = time.process_time()
                model = LocalCCA(window="auto", random_state=0).fit(views)
                between = time.process_time()
                usual = LocalCCA(window=8, random_state=0).fit(views)
                chosen_s, given_s = chosen_s + between - began, given_s + time.process_time() - between
                auto, eight = (float(likeness(m.embedding_[:, 0], truth.z)) for m in (model, usual))
                name = f"pendulums, swing {swing:.0f}{', private ones too' * private}, seed {seed}: {_window(model)}"
                yield share("windows", f"{name}, likeness, against windows of 8", auto, eight, ">= 0.995", unit="")
    yield share("windows", "pendulums: fits that choose, against windows of 8", chosen_s, given_s, "<= 4", unit="CPU s")


def many_pixels(seeds: range) -> Iterator[Row]:
    """Three movies of 300 frames in 2048 channels: what choosing the window costs, against a fit with a given one."""
    for seed in seeds:
        views, _truth = simulate.icons(n_projections=2048, random_state=seed)
        chosen = timed(LocalCCA(window="auto", random_state=0).fit, views)
        given = timed(LocalCCA(window=7, random_state=0).fit, views)
        what = f"icons, three movies in 2048 channels, set {seed}: window='auto', against a given one"
        yield share("windows", what, chosen.cpu, given.cpu, "<= 10", unit="CPU s")


def _window(model: LocalCCA) -> str:
    return f"window {model.settings_.neighborhoods.window}"

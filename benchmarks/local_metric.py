"""The batched local metric against a plain loop over landmarks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, timed, times_faster
from dlcca.numerics.metrics.cca import cca_metric
from tests.reference import cca as literal


def rows(quick: bool) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    m = 50 if quick else 200
    for k, d in ((64, 3), (64, 16)):
        X, Y = rng.standard_normal((2, m, k, d))
        ours = timed(cca_metric, X, Y, ridge=0.03, repeats=3)
        theirs = timed(plain_loop, X, Y)
        text = f"{m} landmarks, {k} neighbours, {d} channels: local CCA, against the literal loop"
        yield times_faster("metric", text, ours.wall, theirs.wall, unit="s")


def plain_loop(X: NDArray, Y: NDArray) -> list[object]:
    return [literal.cca(x, y, 0.03) for x, y in zip(X, Y, strict=True)]

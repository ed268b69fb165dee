"""Dense kernel rows against the rate of a bare product, in one run and with one thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.large import gemm_rate
from benchmarks.measure import Row, share, timed
from dlcca.fitting import distances
from dlcca.model import Model
from dlcca.numerics.kernels import relative_rows
from dlcca.settings.fit import Settings

LANDMARKS, CHANNELS = 2000, 64


def rows(quick: bool) -> Iterator[Row]:
    """Distances and their exponentials, tile by tile as the stages make them."""
    n, r = (10_000 if quick else 100_000), Settings().metric.rank
    model, X = model_and_samples(n, LANDMARKS, CHANNELS, r)
    count = 2.0 * n * LANDMARKS * r * CHANNELS
    with threadpool_limits(limits=1):
        made(model, X[:4096])
        before = gemm_rate(CHANNELS, LANDMARKS)
        seconds = timed(made, model, X, repeats=1 if n > 50_000 else 3).wall
        rate = max(before, gemm_rate(CHANNELS, LANDMARKS))
    text = f"{n:,} rows x {LANDMARKS} landmarks, {CHANNELS} channels, rank {r}: distances and exp, float32"
    yield share("dense kernel", text, count / seconds / 1e9, rate / 1e9, ">= 0.3", unit="GFLOP/s")


def made(model: Model, X: np.ndarray) -> None:
    """All rows of the kernel, none of them kept."""
    for D in distances.tiles(model, [X]):
        relative_rows(D, 100.0)


def model_and_samples(n: int, m: int, d: int, r: int, seed: int = 0) -> tuple[Model, np.ndarray]:
    """A model that lacks only its spectrum, of one view (n, d) in float32."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d), dtype=np.float32)
    F = rng.standard_normal((m, d, r), dtype=np.float32)
    model = Model(
        names=("view",),
        fusion="view",
        n_links=None,
        points=[X[:m].copy()],
        factors=[F],
        units=np.ones(1),
        weights=[],
        values=[],
        scale=np.ones(1),
    )
    return model, X

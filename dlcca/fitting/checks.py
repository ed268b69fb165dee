"""The fitted model, and what some rows tell of it: one task, when all coordinates are there."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Blocks, Stage
from dlcca.errors import DataError, SettingsError
from dlcca.fitting import embed, potential, spectrum
from dlcca.fitting.embed import model_of
from dlcca.fitting.half_fits import from_halves, half_fit, rows_for_halves
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics.landmarks import evenly
from dlcca.trust.assess import SOME_ROWS, checks_of, linear_cca_r2
from dlcca.trust.quality import Checks
from dlcca.views import Views

#: Coordinates that are looked at, at most: rows of all blocks.
MANY_ROWS = 1 << 16
#: Entries of `Checks` that are arrays.
ARRAYS = ("told", "told_by_more", "carriers", "again")
#: Times that some rows are halved, to see what comes again, and landmarks of a half: a tenth of a small run.
SPLITS, LANDMARKS_OF_HALF = 1, 200


def compute(job: Job, stage: Blocks, block: int) -> None:
    model, some = model_of(job), evenly(job.n, min(job.n, SOME_ROWS))
    arrays = [job.read(v, some) for v in range(job.K)]
    E = model.coordinates(arrays)
    half = half_fit(model, arrays, E, job.settings)
    pieces, stray = spectrum.connected_components(job)
    found = checks_of(model, arrays, _many(job), half, pieces)
    stray = stray if potential.is_needed(job) else None
    found = replace(found, again=_again(job, model), outliers=spectrum.outliers(job), stray=stray)
    found = replace(found, linear=linear_cca_r2(arrays, E))
    plain = {
        name: np.asarray(x).tolist() if name in ARRAYS and x is not None else x for name, x in asdict(found).items()
    }
    stage.write(block, {}, plain)


def _again(job: Job, model: Model) -> NDArray[np.float64] | None:
    """What comes again of each coordinate from fits to halves of some rows; None where that cannot be told."""
    if job.in_memory or not isinstance(job.options["neighborhoods"], str):
        return None  # in memory it would take a third of a small fit; `dlcca.stability` measures it on request
    found = rows_for_halves(job.n, job.dims, job.settings, job.segments)
    if found is None:
        return None
    rows, segments = found
    views = Views(tuple(job.read(v, rows) for v in range(job.K)), model.names)
    settings = job.settings.with_options(neighbor_index="exact")  # an index of few rows is not worth its compilation
    m, rng = min(model.n_landmarks, LANDMARKS_OF_HALF), np.random.default_rng(0)
    E = model.coordinates(views.arrays)
    try:
        return from_halves(E, views, settings, m, rng, segments=segments, n_splits=SPLITS).reproducibility
    except (DataError, SettingsError):  # these rows are too few or too much alike for a fit; all of them were not
        return None


def _many(job: Job) -> NDArray[np.float64]:
    """Coordinates of rows from every block, evenly; all of them if they are not too many."""
    done = embed.EMBEDDING.of(job)
    step = -(-job.n_moments // MANY_ROWS)
    parts = []
    for number in range(done.n_blocks):
        E = done.read("/embedding", number)
        parts.append(E[-(number * job.rows) % step :: step])
    E = np.concatenate(parts).astype(np.float64)
    return E[np.isfinite(E).all(axis=1)]


def result(job: Job) -> Checks:
    """What was found."""
    facts: dict[str, Any] = CHECKS.of(job).facts(0)
    known = {name: np.array(facts[name]) for name in ARRAYS if facts.get(name) is not None}
    return Checks(**{**facts, **known})


def _cost(sizes: Sizes) -> StagePlan:
    """A fit with half the landmarks to some rows, two fits to halves of some, and a look at many coordinates."""
    half, some = sizes.m / 2, min(sizes.n, 1024)
    halved, landmarks = min(sizes.n, 4000, (1 << 22) // sizes.width), min(sizes.m, 200)
    return StagePlan(
        "checks",
        1,
        products=2.0 * some * half * half + 4.0 * (some * sizes.m + 3 * halved * landmarks) * sizes.width,
        decompositions=10.0 * half**3 if sizes.m <= 4096 else 0.0,
        reads=float(sizes.n) * sizes.q * sizes.itemsize + sizes.touched_bytes(some) + sizes.touched_bytes(halved // 2),
        memory=2.0 * sizes.m * sizes.width * sizes.r * 8
        + max(4 * half**2 * 8 + some * sizes.m * 16.0, 4.0 * halved * (sizes.width + landmarks) * 8),
    )


CHECKS = Stage(
    "checks",
    compute,
    after=[embed.EMBEDDING],
    says=lambda job: f"{job.options['n_components']} coordinates",
    cost=_cost,
    reads="some rows",
    leaves="what fits to halves of them and the kernel tell of the result",
)

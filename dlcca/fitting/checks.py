"""The fitted model, and what some rows tell of it: one task, when all coordinates are there."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import Tell, do_missing
from dlcca.errors import DataError, SettingsError
from dlcca.fitting import embed, kernel, spectrum
from dlcca.fitting.half_fits import from_halves, rows_for_halves
from dlcca.fitting.in_memory import half_fit
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics.landmarks import evenly
from dlcca.storage.blocks import Stage
from dlcca.trust.assess import SOME_ROWS, checks_of
from dlcca.trust.quality import CONNECTED, Checks
from dlcca.views import Views

#: Coordinates that are looked at, at most: rows of all blocks.
MANY_ROWS = 1 << 16
#: Entries of `Checks` that are arrays.
ARRAYS = ("told", "told_by_more", "carriers", "again")
#: Times that some rows are halved, to see what comes again, and landmarks of a half: a tenth of a small run.
SPLITS, LANDMARKS_OF_HALF = 1, 200


def model_of(job: Job) -> Model:
    """The fitted model, which gives any sample its coordinates."""
    sign, scale = embed.sign_and_scale(job)
    draft, sigma = kernel.model(job), spectrum.sigmas(job)
    values = [V * sign for V in spectrum.values(job)]
    units = np.array(sigma) if job.options["fusion"] == "alternating" else draft.units * sigma[0]
    return Model(
        names=draft.names,
        fusion=draft.fusion,
        n_links=draft.n_links,
        points=draft.points,
        factors=draft.factors,
        units=units,
        weights=[np.ones(len(V)) for V in values],
        values=values,
        scale=scale,
        reach=embed.reaches(job),
        axes=draft.axes,
    )


def stage_of(job: Job) -> Stage:
    return job.stage("checks", [*spectrum.depends(job), job.options["n_components"]], 1)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Look at the result, if nobody has yet."""
    says = f"{job.options['n_components']} coordinates"
    do_missing(compute, job, stage_of(job).prepare({}, says=says), client, tell)


def compute(job: Job, stage: Stage, block: int) -> None:
    model, some = model_of(job), evenly(job.n, min(job.n, SOME_ROWS))
    arrays = [job.read(v, some) for v in range(job.K)]
    half = half_fit(model, arrays, model.coordinates(arrays), job.settings)
    found = checks_of(model, arrays, _many(job), half, _pieces(job))
    found = replace(found, again=_again(job, model), outliers=spectrum.outliers(job))
    plain = {
        name: np.asarray(x).tolist() if name in ARRAYS and x is not None else x for name, x in asdict(found).items()
    }
    stage.write(block, {}, plain)


def _again(job: Job, model: Model) -> NDArray[np.float64] | None:
    """What comes again of each coordinate from fits to halves of some rows; None where that cannot be told."""
    if not isinstance(job.options["neighborhoods"], str):
        return None
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


def _pieces(job: Job) -> int:
    """Every piece has an eigenvalue of one; of more pieces than coordinates, as many as there are."""
    return int((spectrum.eigenvalues(job) > CONNECTED).sum())


def _many(job: Job) -> NDArray[np.float64]:
    """Coordinates of rows from every block, evenly; all of them if they are not too many."""
    done = embed.stage_of(job)
    step = -(-job.n_moments // MANY_ROWS)
    parts = []
    for number in range(done.n_blocks):
        E = done.read("/embedding", number)
        parts.append(E[-(number * job.rows) % step :: step])
    E = np.concatenate(parts).astype(np.float64)
    return E[np.isfinite(E).all(axis=1)]


def result(job: Job) -> Checks:
    """What was found."""
    facts: dict[str, Any] = stage_of(job).facts(0)
    known = {name: np.array(facts[name]) for name in ARRAYS if facts.get(name) is not None}
    return Checks(**{**facts, **known})

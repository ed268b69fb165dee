"""What coordinates other than eigenfunctions are read with, fitted to the landmarks: see `numerics.coordinates`."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dlcca.engine.stage import Blocks, Stage
from dlcca.engine.work import OnProgress, do_missing
from dlcca.fitting import distances, gram, kernel, lanczos, landmarks, spectrum
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics import potential
from dlcca.numerics.coordinates import COORDINATES, Diffusion, Landmarks
from dlcca.numerics.fusion import Degrees
from dlcca.numerics.kernels import Grams, Kernel, inverse_root
from dlcca.numerics.landmarks import evenly
from dlcca.settings.auto import Choices

#: Name of the products of the transition matrices, where there are no Gram matrices.
NAME = "transitions"
#: Landmarks at whose rows coordinates are fitted, at most, and their dense distances that are made at a time.
MOST_ROWS, TILE_ENTRIES = 20_000, 1 << 25


def _find(job: Job, stage: Blocks, client: Any, on_progress: OnProgress | None) -> None:
    """Fit: in a task, or here, with products that are passes over the samples."""
    if not _by_steps(job):
        do_missing(compute, job, stage, client, on_progress)
        return
    columns, anchors, K = len(job.kernels), potential.anchors_of(landmarks.count(job)), max(len(job.kernels), 2)
    most = columns + -(-anchors // potential.WIDTH) * K * (K + 1) * 2 * potential.MOST_ROUNDS
    products = lanczos.Products(job, NAME, potential.WIDTH, most, client, on_progress)
    C = products.columns()

    def step(v: int, V: NDArray) -> NDArray:
        r""":math:`P_{vw} V = C_v^{-1} R_v^T R_w V`, R the kernels with rows that sum to one."""
        return products.along([(v + 1) % len(C), v], V) * inverse_root(C[v])[:, None] ** 2

    _fit(job, stage, {}, C, step)
    products.collect_cost()


def _by_steps(job: Job) -> bool:
    """Whether the coordinates are made of transition matrices that are not there."""
    return job.coordinates.needs_grams and job.options["solver"] != "gram"


def compute(job: Job, stage: Blocks, block: int) -> None:
    grams, degrees = gram.totals(job) if job.coordinates.needs_grams else ({}, Degrees(job.n, []))
    with spectrum.threads(job):
        _fit(job, stage, grams, degrees.columns)


def _fit(job: Job, stage: Blocks, grams: Grams, columns: list[NDArray], step: potential.Step | None = None) -> None:
    model, time = solved_model(job), job.options["diffusion_time"]
    known = Landmarks(partial(_landmark_rows, model), np.dtype(job.dtype), grams, columns, step)
    arrays, found = job.coordinates.fit(model, known, job.q, None if time == "auto" else int(time))
    stage.write(0, {name: (0, X) for name, X in arrays.items()}, found)


def _landmark_rows(model: Model) -> list[Kernel]:
    """Kernel rows of the landmarks, or of some that are evenly chosen."""
    m = model.n_landmarks
    some = evenly(m, min(m, MOST_ROWS))
    tiles = np.array_split(some, -(-len(some) * m // TILE_ENTRIES))
    parts = [model.kernel_rows([X[rows] for X in model.points]) for rows in tiles]
    if len(parts) == 1:
        return parts[0]
    together = zip(*parts, strict=True)
    return [sp.vstack(W, format="csr") if sp.issparse(W[0]) else np.concatenate(W) for W in together]


def solved_model(job: Job) -> Model:
    """The model with its eigenfunctions, before their signs and scales are known."""
    draft = distances.model(job)
    return replace(
        draft,
        units=job.fusion.kernel_units(draft.units, kernel.sigmas(job)),
        weights=gram.weights(job),
        values=spectrum.values(job),
    )


def model(job: Job) -> Model:
    """The same with all that coordinates are read with. Kept by each worker."""

    def read() -> Model:
        kept = {name: READOUT.of(job).read(name, 0) for name in shapes(job, kind(job))}
        return replace(solved_model(job), reading=kind_name(job), readout=kept)

    return job.cached("solved model", READOUT.fingerprint(job), make=read, keep=1)


def kind_name(job: Job) -> str:
    """The name of the coordinates, given or chosen in the fit."""
    return str(facts(job).get("kind", job.options["coordinates"]))


def kind(job: Job) -> Diffusion:
    """The coordinates, given or chosen in the fit."""
    return COORDINATES[kind_name(job)]


def chosen(job: Job) -> dict[str, Any]:
    """The values of options that were "auto" and are chosen in the fit."""
    return {option: value for option, (value, _reason) in facts(job).get("chosen", {}).items()}


def with_chosen(job: Job, choices: Choices) -> Choices:
    """The choices with those that were made in the fit."""
    made = {option: why for option, (_value, why) in facts(job).get("chosen", {}).items()}
    reasons = {option: why for option, why in {**choices.reasons, **made}.items() if why}
    return replace(choices, settings=choices.settings.with_options(**chosen(job)), reasons=reasons)


def shapes(job: Job, kind: Diffusion | None = None) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that the stage leaves, or of those that one kind of coordinates needs."""
    return (kind or job.coordinates).shapes(landmarks.count(job), len(job.kernels), job.q)


def facts(job: Job) -> dict[str, Any]:
    """What was found in the fit; under "chosen" the values of options that were "auto"."""
    return READOUT.of(job).facts(0) if shapes(job) else {}


def _cost(job: Job) -> dict[str, float]:
    m, K = landmarks.count(job), len(job.kernels)
    if not _by_steps(job):
        return {"products": 8.0 * float(m) ** 3, **gram.read_cost(job)}
    around, anchors = max(K, 2), potential.anchors_of(m)
    passes = K + -(-anchors // potential.WIDTH) * (potential.FEW_ROUNDS * around + K * (around - 1))
    counts = lanczos.passes_cost(job, passes, potential.WIDTH)
    counts["memory"] += 2.0 * m * anchors * 8 * K
    return counts


READOUT = Stage(
    "readout",
    after=[spectrum.SPECTRUM, gram.GRAM],
    options=["coordinates", "diffusion_time", "n_components"],
    constants=[kind.constants for kind in COORDINATES.values()],
    arrays=lambda job: {name: (shape, "float64", shape[0]) for name, shape in shapes(job).items()},
    is_needed=lambda job: bool(shapes(job)),
    cost=_cost,
    drive=_find,
    scratch=[NAME],
    reads="the L x L matrices, or products with them",
    leaves="what coordinates other than eigenfunctions are read with",
)

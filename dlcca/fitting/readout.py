"""What coordinates other than eigenfunctions are read with, fitted to the landmarks: see `numerics.coordinates`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dlcca.engine.stage import Blocks, Stage
from dlcca.fitting import bandwidth, distances, gram, landmarks, spectrum
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics.coordinates import COORDINATES, Diffusion, Landmarks
from dlcca.numerics.fusion import Degrees
from dlcca.settings.auto import Choices


def compute(job: Job, stage: Blocks, block: int) -> None:
    kind, model = job.coordinates, solved_model(job)
    grams, degrees = gram.totals(job) if kind.needs_grams else ({}, Degrees(job.n, []))
    known = Landmarks(model.kernel_rows(model.points), grams, degrees.columns)
    time = job.options["diffusion_time"]
    arrays, found = kind.fit(model, known, job.q, None if time == "auto" else int(time))
    stage.write(block, {name: (0, X) for name, X in arrays.items()}, found)


def solved_model(job: Job) -> Model:
    """The model with its eigenfunctions, before their signs and scales are known."""
    draft = distances.model(job)
    return replace(
        draft,
        units=job.fusion.kernel_units(draft.units, bandwidth.sigmas(job)),
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


READOUT = Stage(
    "readout",
    compute,
    after=[spectrum.SPECTRUM, gram.GRAM],
    options=["coordinates", "diffusion_time", "n_components"],
    constants=[kind.constants for kind in COORDINATES.values()],
    arrays=lambda job: {name: (shape, "float64", shape[0]) for name, shape in shapes(job).items()},
    is_needed=lambda job: bool(shapes(job)),
    cost=lambda job: {"products": 8.0 * float(landmarks.count(job)) ** 3, **gram.read_cost(job)},
    reads="the L x L matrices",
    leaves="what coordinates other than eigenfunctions are read with",
)

"""The coordinates of every sample, block by block: first as they come, then with fixed sign and scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.row_blocks import bounds_of_block, count_of_blocks
from dlcca.engine.work import Tell, do_missing
from dlcca.fitting import kernel, landmarks, spectrum
from dlcca.fitting.in_memory import reach_rows, rows_apart
from dlcca.fitting.job import Job
from dlcca.numerics.affinity import relative_rows, sparse_rows
from dlcca.numerics.extension import extend
from dlcca.numerics.novelty import Away, nearest_distances, reach
from dlcca.storage.blocks import Stage

#: Of each block at least so many rows tell how far the landmarks reach.
LEAST_LOOKED_AT = 128


def coordinates_stage(job: Job) -> Stage:
    return job.stage("coordinates", [*spectrum.depends(job), job.options["n_components"]], job.n_blocks)


def signs_stage(job: Job) -> Stage:
    """All blocks together: every task of the stage "embedding" asks for it, and must not read a file for each block."""
    return job.stage("signs", [*spectrum.depends(job), job.options["n_components"]], 1)


def stage_of(job: Job) -> Stage:
    blocks = count_of_blocks(job.n_moments, job.rows)
    return job.stage("embedding", [*spectrum.depends(job), job.options["n_components"]], blocks)


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Coordinates of every block that has none yet."""
    q = int(job.options["n_components"])
    some = rows_looked_at(job)
    shapes = {
        "raw": ((job.n, q), "float64", job.rows),
        "nearest": ((job.n_blocks * some, job.K), "float64", some),
    }
    do_missing(compute, job, coordinates_stage(job).prepare(shapes, says=f"{q} coordinates"), client, tell)
    do_missing(combine, job, signs_stage(job).prepare({}, says=f"{q} coordinates"), client, tell)
    final = ((job.n_moments, q), job.dtype, job.rows)
    do_missing(finish, job, stage_of(job).prepare({"/embedding": final}, says=f"{q} coordinates"), client, tell)


def compute(job: Job, stage: Stage, block: int) -> None:
    """Coordinates up to sign and scale, and the sums from which these follow."""
    first, _last = job.bounds(block)
    E = _sparse(job, block) if kernel.is_sparse(job) else _dense(job, block)
    largest = E[np.argmax(np.abs(E), axis=0), np.arange(E.shape[1])]
    facts = {
        "squares": (E**2).sum(axis=0).tolist(),
        "cubes": (E**3).sum(axis=0).tolist(),
        "sizes": (np.abs(E) ** 3).sum(axis=0).tolist(),
        "largest": largest.tolist(),
    }
    stage.write(block, {"raw": (first, E), "nearest": (block * rows_looked_at(job), _nearest(job, block))}, facts)


def rows_looked_at(job: Job) -> int:
    """Rows of a block that tell how far the landmarks reach: the first ones, so that one chunk is read again."""
    return min(job.rows, max(LEAST_LOOKED_AT, reach_rows(landmarks.count(job)) // job.n_blocks))


def _nearest(job: Job, block: int) -> NDArray[np.float64]:
    """Distances (rows looked at, K) to the nearest landmark; NaN in views that are not used and beyond the last row."""
    first, last = job.bounds(block)
    some = np.arange(first, min(last, first + rows_looked_at(job)))
    found = np.full((rows_looked_at(job), job.K), np.nan)
    away = Away(some, landmarks.rows(job), rows_apart(job.settings))
    points = kernel.model(job).points
    for v in kernel.used_views(job):
        X = job.read(v, slice(first, first + len(some)))
        found[: len(some), v] = nearest_distances(X, points[v], away)
    return found


def reaches(job: Job) -> NDArray[np.float64]:
    """How far the landmarks reach in every view, (K,); 0 in one that is not used."""
    found, points = coordinates_stage(job).read_all("nearest"), kernel.model(job).points
    used = kernel.used_views(job)
    return np.array([reach(found[:, v], points[v]) if v in used else 0.0 for v in range(job.K)])


def _sparse(job: Job, block: int) -> NDArray:
    readings = []
    for v, (sigma, V) in enumerate(zip(spectrum.sigmas(job), spectrum.values(job), strict=True)):
        links, D = kernel.rows(job, v, block)
        W = sparse_rows(relative_rows(D, sigma), links, landmarks.count(job))
        readings.append(extend(W, np.ones(len(V)), V))
    return np.mean(readings, axis=0)


def _dense(job: Job, block: int) -> NDArray:
    sigma, V = spectrum.sigmas(job)[0], spectrum.values(job)[0]
    tiles = kernel.tiles(kernel.model(job), job.block(block))
    return np.concatenate([extend(relative_rows(D, sigma), np.ones(len(V)), V) for D in tiles])


def sign_and_scale(job: Job) -> tuple[NDArray, NDArray]:
    """For each coordinate the sign of `numerics.signs`, and the scale that makes its mean square one.

    Coordinates of a single kernel have their scale already.
    """
    facts = signs_stage(job).facts(0)
    return np.array(facts["sign"]), np.array(facts["scale"])


def combine(job: Job, stage: Stage, block: int) -> None:
    """Signs and scales, from the sums of all blocks in their order."""
    coordinates = coordinates_stage(job)
    facts = [coordinates.facts(b) for b in range(coordinates.n_blocks)]
    total = {key: np.sum([f[key] for f in facts], axis=0) for key in ("squares", "cubes", "sizes")}
    each = np.array([f["largest"] for f in facts])
    largest = each[np.argmax(np.abs(each), axis=0), np.arange(each.shape[1])]
    clear = np.abs(total["cubes"]) >= 1e-6 * total["sizes"]
    sign = np.where(np.where(clear, total["cubes"], largest) < 0, -1.0, 1.0)
    scale = np.ones_like(sign)
    if job.options["fusion"] == "alternating":
        size = np.sqrt(total["squares"] / job.n)
        scale = 1 / np.where(size > 0, size, 1)
    stage.write(block, {}, {"sign": sign.tolist(), "scale": scale.tolist()})


def finish(job: Job, stage: Stage, block: int) -> None:
    first, last = bounds_of_block(job.n_moments, job.rows, block)
    sign, scale = sign_and_scale(job)
    E = _raw(job, first, last) * (sign * scale)
    stage.write(block, {"/embedding": (first, E.astype(job.dtype))}, {})


def _raw(job: Job, first: int, last: int) -> NDArray:
    """Coordinates of some moments; NaN for those that were left out of the views."""
    stage, clock = coordinates_stage(job), job.moments
    if clock is None:
        return stage.read("raw", first // job.rows)
    low, high = np.searchsorted(clock.rows, [first, last])
    E = np.full((last - first, int(job.options["n_components"])), np.nan)
    for block in range(low // job.rows, -(-high // job.rows)):
        begin, end = job.bounds(block)
        here = slice(max(begin, low), min(end, high))
        E[clock.rows[here] - first] = stage.read("raw", block)[here.start - begin : here.stop - begin]
    return E

"""The coordinates of every sample, block by block: first as they come, then with fixed sign and scale."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import FILE_SELECTIONS, Blocks, Stage
from dlcca.fitting import distances, kernel, landmarks, readout, spectrum
from dlcca.fitting.job import Job
from dlcca.model import Model
from dlcca.numerics.coordinates import largest_entries, signs_of_sums
from dlcca.numerics.kernels import Kernel, relative_rows, sparse_rows
from dlcca.numerics.landmarks import coverage_radius, nearest_distances
from dlcca.settings.fit import Settings

#: Rows from which the coverage radius of the landmarks is measured, and the fewest; between these as many as have so
#: many distances to the landmarks.
REACH_ROWS, LEAST_REACH_ROWS, REACH_ENTRIES = 1 << 14, 1 << 10, 1 << 27
#: Samples whose sparse kernel rows are held at a time.
TILE_ROWS = 1 << 14
#: Rows of each block from which the coverage radius is measured, at least.
LEAST_LOOKED_AT = 128


def compute(job: Job, stage: Blocks, block: int) -> None:
    """Coordinates up to sign and scale, and the sums from which these follow."""
    first, model, kind = job.bounds(block)[0], readout.model(job), readout.kind(job)
    E = np.concatenate([kind.read(rows, model) for rows in kernel_rows(job, block)])
    facts = {
        "squares": (E**2).sum(axis=0).tolist(),
        "cubes": (E**3).sum(axis=0).tolist(),
        "sizes": (np.abs(E) ** 3).sum(axis=0).tolist(),
        "largest": largest_entries(E).tolist(),
    }
    stage.write(block, {"raw": (first, E), "nearest": (block * examined_rows(job), _nearest(job, block))}, facts)


def examined_rows(job: Job) -> int:
    """Rows of a block from which the coverage radius is measured: the first ones, so that one chunk is read again."""
    of_all_blocks = int(np.clip(REACH_ENTRIES // landmarks.count(job), LEAST_REACH_ROWS, REACH_ROWS))
    return min(job.rows, max(LEAST_LOOKED_AT, of_all_blocks // job.n_blocks))


def rows_apart(settings: Settings) -> int:
    """Rows nearer than this to a landmark are too similar to it to measure how far new rows may lie."""
    kind = settings.neighborhoods.kind
    return int(settings.neighborhoods.window) if isinstance(kind, str) and kind == "time" else 1


def _nearest(job: Job, block: int) -> NDArray[np.float64]:
    """Distances (rows, K) to the nearest landmark; NaN in views that are not used and beyond the last row."""
    first, last = job.bounds(block)
    stop, points = min(last, first + examined_rows(job)), distances.model(job).points
    found = np.full((examined_rows(job), job.K), np.nan)
    numbers, apart = (np.arange(first, stop), landmarks.rows(job)), rows_apart(job.settings)
    for v in job.fusion.used_views(job.K):
        found[: stop - first, v] = nearest_distances(job.read(v, slice(first, stop)), points[v], numbers, apart)
    return found


def reaches(job: Job) -> NDArray[np.float64]:
    """The coverage radius of the landmarks in every view, (K,); 0 in one that is not used."""
    found, points = COORDINATES.of(job).read_all("nearest"), distances.model(job).points
    used = job.fusion.used_views(job.K)
    return np.array([coverage_radius(found[:, v], points[v]) if v in used else 0.0 for v in range(job.K)])


def kernel_rows(job: Job, block: int) -> Iterator[list[Kernel]]:
    """Rows of every kernel, up to a factor of each row, of some samples of a block at a time."""
    sigmas, m = kernel.sigmas(job), landmarks.count(job)
    if not job.is_sparse:
        yield from ([relative_rows(D, sigmas[0])] for _links, D in kernel.tiles(job, block))
        return
    kernels = [(*kernel.rows(job, v, block), sigma) for v, sigma in zip(job.kernels, sigmas, strict=True)]
    for first in range(0, len(kernels[0][0]), TILE_ROWS):
        rows = slice(first, first + TILE_ROWS)
        yield [sparse_rows(relative_rows(D[rows], sigma), links[rows], m) for links, D, sigma in kernels]


def sign_and_scale(job: Job) -> tuple[NDArray, NDArray]:
    """For each coordinate the sign of `numerics.coordinates`, and the scale that makes its mean square one.

    Coordinates of a single kernel have their scale already.
    """
    facts = SIGNS.of(job).facts(0)
    return np.array(facts["sign"]), np.array(facts["scale"])


def model_of(job: Job) -> Model:
    """The fitted model, which gives any sample its coordinates."""
    (sign, scale), model = sign_and_scale(job), readout.model(job)
    values, read = [V * sign for V in model.values], readout.kind(job).signed(model.readout, sign)
    return replace(model, values=values, readout=read, scale=scale, reach=reaches(job))


def fitted(job: Job) -> Model:
    """The model of a job in memory, without its quality: runs the stages that it needs."""
    SIGNS.ensure(job)
    return model_of(job)


def combine(job: Job, stage: Blocks, block: int) -> None:
    """Signs and scales, from the sums of all blocks in their order."""
    coordinates = COORDINATES.of(job)
    facts = [coordinates.facts(b) for b in range(coordinates.n_blocks)]
    squares, cubes, sizes = (np.sum([f[key] for f in facts], axis=0) for key in ("squares", "cubes", "sizes"))
    sign = signs_of_sums(cubes, sizes, largest_entries(np.array([f["largest"] for f in facts])))
    scale = np.ones_like(sign)
    if not (job.fusion.is_scaled or readout.kind(job).is_scaled):
        size = np.sqrt(squares / job.n)
        scale = 1 / np.where(size > 0, size, 1)
    stage.write(block, {}, {"sign": sign.tolist(), "scale": scale.tolist()})


def finish(job: Job, stage: Blocks, block: int) -> None:
    first, last = block * job.rows, min(job.n_moments, (block + 1) * job.rows)
    sign, scale = sign_and_scale(job)
    E = _raw(job, first, last) * (sign * scale)
    stage.write(block, {"/embedding": (first, E.astype(job.dtype))}, {})


def _raw(job: Job, first: int, last: int) -> NDArray:
    """Coordinates of some moments; NaN for those that were left out of the views."""
    stage, clock = COORDINATES.of(job), job.moments
    if clock is None:
        return stage.read("raw", first // job.rows)
    low, high = np.searchsorted(clock.rows, [first, last])
    E = np.full((last - first, job.q), np.nan)
    for block in range(low // job.rows, -(-high // job.rows)):
        begin, end = job.bounds(block)
        here = slice(max(begin, low), min(end, high))
        E[clock.rows[here] - first] = stage.read("raw", block)[here.start - begin : here.stop - begin]
    return E


def _coordinates_cost(job: Job) -> dict[str, float]:
    n, m, q, s = float(job.n), landmarks.count(job), job.q, kernel.n_kept(job)
    used, read = job.fusion.used_views(job.K), kernel.reading_cost(job, 50.0, tiles=2)
    # Distances, in double precision, from which the coverage radius is measured.
    examined = float(job.n_blocks * examined_rows(job)) * m
    model = distances.model_bytes(job) if s else 0
    return {
        "selections": n * (5 * s or m) * len(job.kernels) + 3.0 * examined * len(used),
        "products": 4.0 * examined * sum(job.dims[v] for v in used) + read["products"],
        "reads": read["reads"],
        "memory": read["memory"] + model + min(job.rows, n) * q * 40.0,
    }


COORDINATES = Stage(
    "coordinates",
    compute,
    after=[spectrum.SPECTRUM, readout.READOUT],
    constants=[LEAST_LOOKED_AT],
    n_blocks=lambda job: job.n_blocks,
    arrays=lambda job: {
        "raw": ((job.n, job.q), "float64", job.rows),
        "nearest": ((job.n_blocks * examined_rows(job), job.K), "float64", examined_rows(job)),
    },
    cost=_coordinates_cost,
    reads="a block of samples",
    leaves="its coordinates, before sign and scale are known",
)
#: All blocks together: every task of the next stage reads it, and must not open a record for each block.
SIGNS = Stage(
    "signs",
    combine,
    after=[COORDINATES],
    cost=lambda job: {"selections": FILE_SELECTIONS * job.n_blocks, "memory": job.n_blocks * job.q * 256.0},
    reads="all records of `coordinates`",
    leaves="sign and scale of each coordinate",
)
EMBEDDING = Stage(
    "embedding",
    finish,
    after=[SIGNS],
    n_blocks=lambda job: -(-job.n_moments // job.rows),
    arrays=lambda job: {"/embedding": ((job.n_moments, job.q), job.dtype, job.rows)},
    cost=lambda job: {"reads": 8.0 * job.n * job.q, "memory": min(job.rows, job.n) * job.q * 32.0},
    reads="a block of coordinates",
    leaves="the embedding",
)

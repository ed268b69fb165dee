"""Each sample's links, and, where all pairs are compared, each block's part in the landmarks' neighbours.

By products, landmarks are taken a group at a time, and the results of a group are written before the next is compared.
Neighbours are near in the channels of all views together, links along the equalized axes of each. Where an index is
quicker, it finds the links here, and the neighbours in `shards`. Where neighbours are searched in a random subset of
the rows, the block's rows of the subset are kept for that search.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.fitting import landmarks, scan
from dlcca.fitting.job import Job
from dlcca.numerics.distances import LEAST_SPREAD, MOST_CHANNELS, Axes, equalized, project
from dlcca.numerics.neighbors import Index, Tree, recall
from dlcca.numerics.topk import FEW_PAIRS, Nearest, block_links, block_neighbors, rank
from dlcca.settings.auto import search_by
from dlcca.storage import cache

#: A part of the neighbours: the array's name, its first row, its rows.
Part = tuple[str, tuple[int, NDArray]]
#: Distances to landmarks that are made at a time.
TILE_ENTRIES = 1 << 20
#: Distances that an index computes for each neighbour that it finds, and samples of which it is made.
INDEX_STEPS, SHARD_ROWS = 64.0, 1 << 17
#: Second number of the seed of the subset, so that it is independent of other random choices.
SUBSET_STREAM = 1
#: Indexes that are kept in the cache of a process, because many tasks query the same one: of a shard of samples, or of
#: all landmarks in one view. Each can be made again; nothing of it is on disk.
INDEX_OF_SAMPLES, INDEX_OF_LANDMARKS = "index of samples", "index of landmarks"
INDEXES: dict[str, Callable[..., Index | Tree]] = {"tree": Tree.of, "pynndescent": Index.of}
#: Samples of a block whose links, found by an approximate index, are compared with all landmarks.
CHECKED = 16


def has_axes(job: Job) -> bool:
    """Whether links are by distance, and not by the metric or to all landmarks."""
    by_distance = job.fusion.per_view and job.options["kernel"] == "sparse"
    return bool(by_distance and int(job.options["n_links"]) < landmarks.count(job))


def compute_axes(job: Job, stage: Blocks, block: int) -> None:
    groups = range(landmarks.n_groups(job))
    found = [equalized(landmarks.points(job, g)[v] for g in groups) for v in range(job.K)]
    known = {v: axes for v, axes in enumerate(found) if axes is not None}
    parts = {f"centre_{v}": (0, axes.centre) for v, axes in known.items()}
    stage.write(block, parts | {f"turn_{v}": (0, axes.turn) for v, axes in known.items()}, {"views": list(known)})


def axes_of(job: Job) -> list[Axes | None]:
    """The axes of every view; None for one that is searched as it is."""
    if not has_axes(job):
        return [None] * job.K
    stage = AXES.of(job)

    def read(v: int) -> Axes | None:
        known = v in stage.facts(0)["views"]
        return Axes(stage.read(f"centre_{v}", 0), stage.read(f"turn_{v}", 0)) if known else None

    return job.cached("axes", AXES.fingerprint(job), make=lambda: [read(v) for v in range(job.K)])


def _axes_arrays(job: Job) -> Arrays:
    narrow = [(v, d) for v, d in enumerate(job.dims) if d <= MOST_CHANNELS]
    centres = {f"centre_{v}": ((d,), "float64", d) for v, d in narrow}
    return {**centres, **{f"turn_{v}": ((d, d), "float64", d) for v, d in narrow}}


def _axes_cost(job: Job) -> dict[str, float]:
    m, squares = float(landmarks.count(job)), sum(d**2 for d in job.dims)
    return {
        "products": 2.0 * m * squares,
        "decompositions": float(sum(10 * d**3 for d in job.dims)),
        "reads": m * job.width * job.itemsize * job.K,
        "memory": landmarks.rows_of_group(job) * job.width * (job.itemsize + 16.0) + 40.0 * max(job.dims) ** 2,
    }


AXES = Stage(
    "axes",
    compute_axes,
    after=[landmarks.POINTS],
    constants=["equalized", LEAST_SPREAD, MOST_CHANNELS],
    arrays=_axes_arrays,
    is_needed=has_axes,
    cost=_axes_cost,
    reads="the landmarks",
    leaves="the equalized axes of each view, where links are by distance",
)


def n_links(job: Job) -> int:
    """Links of a row in each view; 0 where the fusion finds its links by the metric, in a later stage."""
    if not job.fusion.per_view:
        return 0
    m = landmarks.count(job)
    return min(int(job.options["n_links"]), m) if job.options["kernel"] == "sparse" else m


def n_neighbors(job: Job) -> int:
    """Neighbours searched for each landmark; 0 where they are a window of time."""
    kind = job.options["neighborhoods"]  # may be an array of rows
    return int(job.options["n_neighbors"]) if isinstance(kind, str) and kind == "knn" else 0


def subset_size(job: Job) -> int:
    """Random rows among which neighbours are searched; 0 where they are searched among all rows, or not at all."""
    rows = job.options["neighbor_rows"]
    return 0 if not n_neighbors(job) or isinstance(rows, str) or int(rows) >= job.n else int(rows)


def subset_rows(job: Job) -> NDArray[np.int64]:
    """These rows, rising."""
    size = subset_size(job)

    def drawn() -> NDArray[np.int64]:
        rng = np.random.default_rng([job.seed, SUBSET_STREAM])
        return np.sort(rng.choice(job.n, size, replace=False, shuffle=False))

    return job.cached("subset", job.seed, job.n, size, make=drawn, keep=1)


def subset_part(job: Job, block: int) -> NDArray[np.int64]:
    """The rows of a block, counted from its first, that are in the subset and are written."""
    rows, (first, last) = subset_rows(job) if keeps_subset(job) else np.empty(0, np.int64), job.bounds(block)
    return rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)] - first


def _most_of_block(job: Job) -> int:
    """Rows of the subset in the block that has most of them."""
    return int(np.bincount(subset_rows(job) // job.rows).max())


def searches_all(job: Job) -> bool:
    """Whether neighbours are searched, and among all rows."""
    return n_neighbors(job) > 0 and not subset_size(job)


def keeps_subset(job: Job) -> bool:
    """Whether the rows of the subset are written; in memory they are there."""
    return subset_size(job) > 0 and not job.in_memory


def is_searched_here(job: Job) -> bool:
    """Whether this stage compares the landmarks with all samples."""
    return searches_all(job) and neighbors_by(job) == "products"


def is_needed(job: Job) -> bool:
    return n_links(job) > 0 or is_searched_here(job) or keeps_subset(job)


def neighbors_by(job: Job) -> str:
    """How the landmarks' neighbours are searched: by "products", "tree" or "pynndescent"."""
    return search_by(job.options["neighbor_index"], landmarks.count(job), job.dims)


def links_by(job: Job) -> str:
    """How links are searched: as neighbours are, but for landmarks so few that all are compared."""
    how = neighbors_by(job)
    many = landmarks.count(job) > landmarks.GROUP and job.options["kernel"] == "sparse"
    return how if many else "products"


def parts_of_neighbors(job: Job, parts: int) -> dict[str, Any]:
    """Arrays for so many parts of the neighbours of every group, each part in a chunk of its own."""
    sizes = [len(range(*landmarks.group(job, g))) for g in range(landmarks.n_groups(job))]
    k, kinds = n_neighbors(job), {"distances": "float64", "rows": "int64"}
    return {f"{name}_{g}": ((parts * m, k), kinds[name], m) for g, m in enumerate(sizes) for name in kinds}


def part_of_neighbors(g: int, part: int, nearest: Nearest) -> Iterator[Part]:
    first = part * len(nearest.rows)
    yield f"distances_{g}", (first, nearest.distances)
    yield f"rows_{g}", (first, nearest.rows)


def compute(job: Job, stage: Blocks, block: int) -> None:
    (first, last), how, here = job.bounds(block), links_by(job), subset_part(job, block)
    is_whole, facts = n_links(job) > 0 or is_searched_here(job), {}
    views = [job.read(v, slice(first, last) if is_whole else first + here) for v in range(job.K)]
    subset = [X[here] if is_whole else X for X in views] if len(here) else []
    parts: Iterable[Part] = [(f"subset_{v}", (block * _most_of_block(job), X)) for v, X in enumerate(subset)]
    if is_whole and how == "products":
        parts = chain(parts, _by_products(job, block, views, first))
    elif is_whole:
        links = [_by_index(job, v, X, how) for v, X in enumerate(views)]
        parts = chain(parts, _numbered(links, first))
        facts = {"recall": _recall(job, views, links)} if how == "pynndescent" else {}
    stage.write(block, parts, facts)


def _by_products(job: Job, block: int, views: list[NDArray], first: int) -> Iterator[Part]:
    """Neighbours of a group at a time; the links last, when all groups have been compared."""
    s, k = n_links(job), n_neighbors(job) if is_searched_here(job) else 0
    spreads, few, groups = scan.result(job).spreads, few_pairs(job), range(landmarks.n_groups(job))
    turned = _along(job, views) if s else []
    # The spread of a view along its axes is 1.
    units = [spread if here is None else 1.0 for spread, here in zip(spreads, axes_of(job), strict=True)] if s else []
    kept = [Nearest.none(len(X), s) for X in views] if len(groups) > 1 else []
    links: list[NDArray] = []
    for g in groups if s or k else ():
        points = landmarks.points(job, g)
        if k:
            nearest = block_neighbors(views, points, spreads, k, first_row=first, few_pairs=few)
            yield from part_of_neighbors(g, block, nearest)
        if s:
            points, most = _along(job, points), min(s, len(points[0]))
            links = block_links(turned, points, units, most, few_pairs=few)
            for v, best in enumerate(kept):
                rank([turned[v]], points[v], [1.0], links[v], best, first_row=landmarks.group(job, g)[0])
    if s:
        yield from _numbered([best.rows for best in kept] or links, first)


def _by_index(job: Job, v: int, X: NDArray, how: str) -> NDArray[np.int64]:
    """The landmarks (b, s) nearest to each sample along one view's axes, nearest first."""
    here = axes_of(job)[v]

    def make() -> Index | Tree:
        return INDEXES[how]([project(landmarks.points(job)[v], here)], [1.0], 0)

    # The spreads are in the key because they change when any sample does.
    key = (landmarks.POINTS.fingerprint(job), how, v, *scan.result(job).spreads)
    index = job.cached(INDEX_OF_LANDMARKS, *key, make=make, keep=job.K)
    return index.nearest([project(X, here)], n_links(job)).rows


@contextmanager
def indexing(client: Any, how: str) -> Iterator[None]:
    """Blocks that make indexes: pynndescent is compiled before, and the memory is given back for the next stages."""
    if client is not None and how == "pynndescent":  # without a client, it compiles when it is first used, here
        from dlcca.engine.warm_up import CompilesPynndescent

        client.register_plugin(CompilesPynndescent())  # also in workers that come later
    yield
    if how != "products":
        forget_indexes(client)


def forget_indexes(client: Any = None) -> None:
    """Drop all indexes, here and on the workers."""
    if client is not None:
        client.run(forget_indexes)
    for kind in (INDEX_OF_SAMPLES, INDEX_OF_LANDMARKS):
        cache.clear(kind)


def _along(job: Job, views: list[NDArray]) -> list[NDArray]:
    """Samples or landmarks along the axes of the links."""
    return [project(X, here) for X, here in zip(views, axes_of(job), strict=True)]


def few_pairs(job: Job) -> int:
    """Small fits do not use numba, whose import takes longer than they do."""
    return FEW_PAIRS if job.in_memory else 0


def _numbered(links: list[NDArray], first: int) -> list[Part]:
    return [(f"links_{v}", (first, found)) for v, found in enumerate(links)]


def _recall(job: Job, views: list[NDArray], links: list[NDArray]) -> float:
    """Share of the true links among those found, in a few samples of a block."""
    some = np.unique(np.linspace(0, len(views[0]) - 1, CHECKED).astype(int))
    few = [X[some].astype(np.float64) for X in views]
    shares = []
    for v, (_name, (_first, exact)) in enumerate(_by_products(job, 0, few, 0)):
        here = axes_of(job)[v]
        samples, points = project(few[v], here), project(landmarks.points(job)[v], here)
        distances = [((samples[:, None] - points[rows]) ** 2).sum(axis=2) for rows in (links[v][some], exact)]
        shares.append(recall(*distances))
    return float(np.mean(shares))


def link_recall(job: Job) -> float | None:
    """Share of the true links among those found; None where all landmarks were compared."""
    if not n_links(job) or links_by(job) != "pynndescent":
        return None
    stage = LINKS.of(job)
    return float(np.mean([stage.facts(block)["recall"] for block in range(stage.n_blocks)]))


def _arrays(job: Job) -> Arrays:
    s, most = n_links(job), _most_of_block(job) if keeps_subset(job) else 0
    links = {f"links_{v}": ((job.n, s), "int32", job.rows) for v in range(job.K if s else 0)}
    parts = parts_of_neighbors(job, job.n_blocks) if is_searched_here(job) else {}
    rows = job.n_blocks * most
    subset = {f"subset_{v}": ((rows, d), job.dtype, most) for v, d in enumerate(job.dims) if most}
    return {**links, **parts, **subset}


def _cost(job: Job) -> dict[str, float]:
    n, m, s, K = job.n, landmarks.count(job), n_links(job), job.K
    by_products, searched = links_by(job) == "products", n_neighbors(job) if is_searched_here(job) else 0
    group, b = landmarks.rows_of_group(job), min(job.rows, n)
    turned = job.block_bytes if s else 0  # along the axes of the links
    tiles = min(b * group, TILE_ENTRIES) * job.itemsize * K if by_products else m * job.width * 16.0
    return {
        # Neighbours and links are near in different axes, and have products of their own.
        "products": 2.0 * n * m * job.width * (bool(s) + bool(searched)) if by_products else 0,
        "selections": float(n) * K * (m if by_products else s * INDEX_STEPS),
        "reads": job.pass_bytes,
        "writes": n * s * 4.0 * K + job.n_blocks * m * searched * 16.0,
        "fixed": m * searched * 16.0,
        "memory": job.reading_bytes + b * s * 4.0 * (K + 2) + group * searched * 64.0 + tiles + turned,
    }


LINKS = Stage(
    "near",
    compute,
    after=[landmarks.POINTS, scan.MOMENTS, AXES],
    options=["fusion", "kernel", "n_links", "neighborhoods", "n_neighbors", "neighbor_rows", "neighbor_index", "seed"],
    constants=[landmarks.GROUP],
    n_blocks=lambda job: job.n_blocks,
    arrays=_arrays,
    is_needed=is_needed,
    cost=_cost,
    around=lambda job, client: indexing(client, links_by(job)),
    reads="a block of samples",
    leaves="each sample's nearest landmarks in each view, and the block's part in each landmark's neighbours",
)

"""The neighborhood of every landmark, and the recall of an approximate search.

Where all pairs are compared, the stage of links leaves each block's part of the neighbours. Where indexes are faster, a
task makes one of a shard of samples and queries it for the landmarks: pynndescent for all of them, because an index
takes long to make; a tree for one group, so that workers can share a shard.

Of many parts, spans of `SPAN` are merged first, each in a task of its own, and then the spans. The order of neighbours
is total (by distance, then by row), so that any grouping gives the same to the bit.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.engine.work import OnProgress, collect
from dlcca.errors import SettingsError
from dlcca.fitting import landmarks, links, scan
from dlcca.fitting.job import Job, check_rows, memory_job, refuse_sizes
from dlcca.numerics.neighbors import CHECKED, Index, Tree, checked_landmarks, recall, shards
from dlcca.numerics.topk import Nearest, add, block_neighbors
from dlcca.numerics.windows import time_windows
from dlcca.settings.fit import Settings


def gather_subset(job: Job, stage: Blocks, block: int) -> None:
    """Concatenate the rows of the subset, so that later tasks open one file and not one for each block."""
    parts, counts = links.LINKS.of(job), [len(links.subset_part(job, b)) for b in range(job.n_blocks)]
    for_views = ([parts.read(f"subset_{v}", b)[:c] for b, c in enumerate(counts) if c] for v in range(job.K))
    stage.write(block, {f"values_{v}": (0, np.concatenate(X)) for v, X in enumerate(for_views)}, {})


def subset_views(job: Job) -> list[NDArray]:
    """The rows of the subset in every view."""
    if job.in_memory:
        return [job.read(v, links.subset_rows(job)) for v in range(job.K)]
    return [SUBSET.of(job).read(f"values_{v}", 0) for v in range(job.K)]


def _subset_cost(job: Job) -> dict[str, float]:
    moved = float(links.subset_size(job)) * job.width * job.itemsize
    return {"reads": moved, "memory": 2 * moved}


SUBSET = Stage(
    "subset",
    gather_subset,
    after=[links.LINKS],
    arrays=lambda job: {
        f"values_{v}": ((s := links.subset_size(job), d), job.dtype, s) for v, d in enumerate(job.dims)
    },
    is_needed=links.keeps_subset,
    cost=_subset_cost,
    reads="the parts of all blocks",
    leaves="the random rows among which neighbours are searched",
)


#: Samples of a shard with a tree of its own: 2^21 of 8 channels take 0.4 GB.
TREE_ROWS = 1 << 21


def shards_of(job: Job) -> list[tuple[int, int]]:
    """First and last rows of the shards; they depend on the number of samples alone."""
    if links.neighbors_by(job) == "pynndescent":
        return shards(job.n)
    return [(first, min(job.n, first + TREE_ROWS)) for first in range(0, job.n, TREE_ROWS)]


def _tasks_of_shard(job: Job) -> int:
    """Tasks that query the index of a shard: each for one group of landmarks, or one for all of them."""
    return landmarks.n_groups(job) if links.neighbors_by(job) == "tree" else 1


def query_shard(job: Job, stage: Blocks, block: int) -> None:
    shard, task = divmod(block, _tasks_of_shard(job))
    spreads, how, (first, last) = scan.result(job).spreads, links.neighbors_by(job), shards_of(job)[shard]

    def make() -> Index | Tree:
        return links.INDEXES[how]([job.read(v, slice(first, last)) for v in range(job.K)], spreads, first)

    key = (landmarks.POINTS.fingerprint(job), how, shard, *spreads)
    index = job.cached(links.INDEX_OF_SAMPLES, *key, make=make, keep=1)
    groups = range(landmarks.n_groups(job))[task :: _tasks_of_shard(job)]
    found = ((g, index.nearest(landmarks.points(job, g), links.n_neighbors(job))) for g in groups)
    stage.write(block, chain.from_iterable(links.part_of_neighbors(g, shard, part) for g, part in found), {})


def _query_cost(job: Job) -> dict[str, float]:
    """Indexes of samples that are queried for the neighbours of every landmark."""
    k, m, shard = links.n_neighbors(job), landmarks.count(job), min(job.n, links.SHARD_ROWS)
    return {
        "selections": float(job.n + m) * k * links.INDEX_STEPS,
        "reads": job.pass_bytes,
        "memory": float(shard) * (job.width * (job.itemsize + 4.0) + 16 * k),
    }


INDEX_QUERIES = Stage(
    "shards",
    query_shard,
    after=[landmarks.POINTS, scan.MOMENTS],
    options=["neighborhoods", "n_neighbors", "neighbor_index"],
    constants=[landmarks.GROUP, TREE_ROWS],
    n_blocks=lambda job: len(shards_of(job)) * _tasks_of_shard(job),
    arrays=lambda job: links.parts_of_neighbors(job, len(shards_of(job))),
    is_needed=lambda job: links.searches_all(job) and links.neighbors_by(job) != "products",
    cost=_query_cost,
    around=lambda job, client: links.indexing(client, links.neighbors_by(job)),
    reads="a shard of samples",
    leaves="neighbours found by an index of the shard, where there are many landmarks",
)


#: Parts that a task merges: 2^10 of them, which is 6·10^7 samples, are read by 32 tasks and then by one.
SPAN = 32


def n_parts(job: Job) -> int:
    return job.n_blocks if links.neighbors_by(job) == "products" else len(shards_of(job))


def n_spans(job: Job) -> int:
    return -(-n_parts(job) // SPAN)


def is_merged(job: Job) -> bool:
    return links.searches_all(job) and n_spans(job) > 1


def merge(job: Job, stage: Blocks, block: int) -> None:
    span, g = divmod(block, landmarks.n_groups(job))
    parts = range(span * SPAN, min(n_parts(job), (span + 1) * SPAN))
    stage.write(block, links.part_of_neighbors(g, span, _together(_parts(job, g, parts))), {})


def nearest(job: Job, g: int) -> Nearest:
    """The neighbours of a group, all samples together."""
    if links.subset_size(job):
        return _in_subset(job, landmarks.points(job, g), links.neighbors_by(job))
    if n_spans(job) == 1:
        return _together(_parts(job, g, range(n_parts(job))))
    return _together(_read(MERGED.of(job), g, (span * landmarks.n_groups(job) + g for span in range(n_spans(job)))))


def _in_subset(job: Job, points: Sequence[NDArray], how: str) -> Nearest:
    """The neighbours of points (m, d_v) in the subset."""
    rows, views, spreads = links.subset_rows(job), subset_views(job), scan.result(job).spreads
    if how == "products":
        k, few = links.n_neighbors(job), links.few_pairs(job)
        found = block_neighbors(views, points, spreads, k, few_pairs=few)
    else:
        found = links.INDEXES[how](views, spreads, 0).nearest(points, links.n_neighbors(job))
    return Nearest(found.distances, rows[found.rows])


def _parts(job: Job, g: int, parts: Iterable[int]) -> Iterator[Nearest]:
    """The neighbours of a group in some blocks or shards."""
    stage, many = links.LINKS if links.neighbors_by(job) == "products" else INDEX_QUERIES, _tasks_of_shard(job)
    return _read(stage.of(job), g, (part * many + g % many for part in parts))


def _read(stage: Blocks, g: int, blocks: Iterable[int]) -> Iterator[Nearest]:
    return (Nearest(stage.read(f"distances_{g}", block), stage.read(f"rows_{g}", block)) for block in blocks)


def _together(parts: Iterator[Nearest]) -> Nearest:
    """The nearest of all parts, of which one is in memory at a time."""
    first = next(parts)
    found = Nearest(first.distances.copy(), first.rows.copy())  # parts in memory are read-only
    for part in parts:
        add(found, part)
    return found


def _merge_cost(job: Job) -> dict[str, float]:
    moved = float(landmarks.count(job)) * links.n_neighbors(job) * 16
    return {"reads": n_parts(job) * moved, "memory": 6 * moved / landmarks.n_groups(job)}


MERGED = Stage(
    "merged",
    merge,
    after=[links.LINKS, INDEX_QUERIES],
    constants=[SPAN],
    n_blocks=lambda job: n_spans(job) * landmarks.n_groups(job),
    arrays=lambda job: links.parts_of_neighbors(job, n_spans(job)),
    is_needed=is_merged,
    cost=_merge_cost,
    reads="the parts of 32 blocks",
    leaves="their neighbours of a group of landmarks, merged, where there are many blocks",
)


def is_approximate(job: Job) -> bool:
    return links.n_neighbors(job) > 0 and links.neighbors_by(job) == "pynndescent"


def width(job: Job) -> int:
    """Samples in a neighborhood."""
    kind = job.options["neighborhoods"]
    if not isinstance(kind, str):
        return int(np.shape(kind)[1])
    return int(job.options["window"] if kind == "time" else job.options["n_neighbors"])


def settle(job: Job, stage: Blocks, g: int) -> None:
    (first, last), kind = landmarks.group(job, g), job.options["neighborhoods"]
    parts = {}
    if links.n_neighbors(job):
        found = nearest(job, g)
        rows, parts = found.rows, {"distances": (first, found.distances)} if is_approximate(job) else {}
    elif isinstance(kind, str):
        rows = time_windows(job.n, landmarks.rows(job)[first:last], width(job), job.segments)
    else:
        rows = given_neighbors(kind, landmarks.count(job), job.n)[first:last]
    stage.write(g, {"rows": (first, rows), **parts}, {})


def given_neighbors(kind: Any, m: int, n: int) -> NDArray[np.int64]:
    """Neighborhoods that the user gave, checked."""
    rows = np.asarray(kind)
    if rows.ndim != 2 or rows.dtype.kind not in "iu" or len(rows) != m or rows.shape[1] < 2:
        raise SettingsError(
            f"neighborhoods is an array {rows.shape} of {rows.dtype}; row numbers (L, k) are needed, k at least 2, "
            f"with a row for each of the {m} landmarks."
        )
    check_rows("neighborhoods", rows, n)
    return rows.astype(np.int64)


def neighbors(job: Job, g: int) -> NDArray[np.int64]:
    """Rows (G, k) of the neighborhoods of a group."""
    return NEIGHBORHOODS.of(job).read("rows", g)


def find_neighbors(
    arrays: Sequence[NDArray], rows: NDArray[np.int64], settings: Settings, segments: NDArray | None = None
) -> NDArray[np.int64]:
    """Rows (m, k) of the neighborhoods of landmarks among arrays (n, d_v) in memory."""
    given = settings.with_options(landmarks=rows, fusion="view")  # without links
    job = memory_job(arrays, [f"view {v + 1}" for v in range(len(arrays))], given, segments=segments)
    refuse_sizes(job.options, job.n, job.dims)
    landmarks.fill(job, rows, [X[rows] for X in arrays])
    NEIGHBORHOODS.ensure(job)
    return NEIGHBORHOODS.of(job).read_all("rows")


def _measure(job: Job, stage: Blocks, client: Any, on_progress: OnProgress | None) -> None:
    """Compare the neighbours of some landmarks with an exact search, and keep the share that was found."""
    some = checked_landmarks(landmarks.count(job))
    if links.subset_size(job):
        exact = _in_subset(job, _some_points(job, some), "products")
    else:
        exact = _together(collect(exact_part, job, job.n_blocks, client, on_progress, (some,), name="recall"))
    found = [NEIGHBORHOODS.of(job).read("distances", g)[here] for g, here in landmarks.by_group(some)]
    stage.write(0, {}, {"recall": recall(np.concatenate(found), exact.distances), "landmarks": len(some)})


def exact_part(job: Job, block: int, some: NDArray[np.int64]) -> Nearest:
    """A block's part in the neighbours of a few landmarks, exact: in float64."""
    points, spreads = _some_points(job, some), scan.result(job).spreads
    views, k = [X.astype(np.float64) for X in job.block(block)], links.n_neighbors(job)
    return block_neighbors(views, points, spreads, k, first_row=job.bounds(block)[0])


def _some_points(job: Job, some: NDArray[np.int64]) -> list[NDArray]:
    parts = [[P[here] for P in landmarks.points(job, g)] for g, here in landmarks.by_group(some)]
    return [np.concatenate(P) for P in zip(*parts, strict=True)]


def neighbor_recall(job: Job) -> float | None:
    """Share of the true neighbours among those found, at worst of neighbours and links; None if all are true."""
    found = [links.link_recall(job), float(RECALL.of(job).facts(0)["recall"]) if is_approximate(job) else None]
    return min((share for share in found if share is not None), default=None)


def _arrays(job: Job) -> Arrays:
    shape = (landmarks.count(job), width(job))
    distances = {"distances": (shape, "float64", landmarks.GROUP)} if is_approximate(job) else {}
    return {"rows": (shape, "int64", landmarks.GROUP), **distances}


def _cost(job: Job) -> dict[str, float]:
    m, subset = landmarks.count(job), links.subset_size(job)
    parts, pairs = n_spans(job) if is_merged(job) else n_parts(job), float(subset) * m
    return {
        "products": 2 * pairs * job.width,
        "selections": pairs,
        "reads": 0.0 if subset else parts * m * links.n_neighbors(job) * 16.0,
        "memory": landmarks.rows_of_group(job) * width(job) * 80.0,
    }


def _recall_cost(job: Job) -> dict[str, float]:
    """An exact search for a few landmarks: a pass over all samples, or over the subset."""
    is_pass = is_approximate(job) and not links.subset_size(job)
    pairs = float(links.subset_size(job) or job.n) * min(landmarks.count(job), CHECKED)
    passed = {"tasks": job.n_blocks, "reads": job.pass_bytes, "memory": 3 * job.reading_bytes} if is_pass else {}
    return {"products": 2 * pairs * job.width, "selections": pairs, **passed}


NEIGHBORHOODS = Stage(
    "neighborhoods",
    settle,
    after=[landmarks.POINTS, MERGED, SUBSET],
    options=["neighborhoods", "window", "n_neighbors", "neighbor_index"],
    constants=[landmarks.GROUP],
    n_blocks=landmarks.n_groups,
    arrays=_arrays,
    cost=_cost,
    is_here=lambda job: not isinstance(job.options["neighborhoods"], str),
    reads="all parts of a group of landmarks",
    leaves="row numbers of its neighborhoods",
)
RECALL = Stage(
    "recall",
    after=[NEIGHBORHOODS],
    is_needed=is_approximate,
    cost=_recall_cost,
    drive=_measure,
    reads="a block of samples",
    leaves="the share of true neighbours that an approximate search found",
)

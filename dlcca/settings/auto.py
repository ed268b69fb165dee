"""What "auto" means: every choice that the program makes for the user, with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, log2
from typing import Any

from dlcca.errors import SettingsError
from dlcca.settings.fit import Settings

#: Dense kernels up to this many entries (1 GiB in float64); sparse ones above.
DENSE_ENTRIES = 1 << 27
#: Gram matrices up to this many bytes; above, no worker should hold them.
GRAM_BYTES = 1 << 30
#: Landmarks for windows of time; for nearest neighbours at least, and at most, as sqrt(200 n) samples ask for: the more
#: samples, the finer the resolution of the common variable, and the smaller a visible leak of a private one.
TIME_LANDMARKS, KNN_LANDMARKS, KNN_LANDMARKS_LARGE, LANDMARKS_GROW = 2000, 1000, 2000, 200

#: Neighbours of a landmark, and the fewest rows among which they are searched.
NEIGHBORS, FEWEST_ROWS = 64, 1000

#: The exact search is by a tree where there are more landmarks than this, and no more channels in all views together.
TREE_LANDMARKS, TREE_CHANNELS = 8192, 8
#: Channels of a view that was not opened yet.
USUAL_CHANNELS = 64
#: Rates of one core: operations of matrix products, distances compared and selected from.
PRODUCTS_PER_S, SELECTIONS_PER_S = 40e9, 3.5e8
#: Entries added into a sparse sum or product, operations of eigenproblems; and what any pass over the samples takes.
ADDITIONS_PER_S, DECOMPOSITIONS_PER_S, PASS_S = 3e8, 3e10, 0.2
#: pynndescent: seconds until it is compiled, to place a sample into an index of 10^5, and to query one of 10^5 samples.
COMPILING_S, PLACING_S, QUERY_S = 150.0, 1e-4, 1e-4
#: Samples of a shard, each with an index of its own.
SHARD_SAMPLES = 1 << 17


@dataclass(frozen=True)
class Choices:
    """Settings without any "auto" left in them, and the reason for each choice made."""

    settings: Settings
    reasons: dict[str, str]
    notes: tuple[str, ...] = ()  # what else was decided about the input

    def lines(self) -> list[str]:
        """A sentence for each choice, for people."""
        options = self.settings.options()
        return [*(f"{name} = {options[name]!r}: {reason}" for name, reason in self.reasons.items()), *self.notes]


@dataclass(frozen=True)
class _Known:
    """What the choices depend on: n samples, K views, their channels, and the options as far as they are settled."""

    n: int
    K: int
    options: dict[str, Any]
    dims: tuple[int, ...]

    @property
    def kind(self) -> str:
        said = self.options["neighborhoods"]
        return said if isinstance(said, str) else "given"

    @property
    def fusion(self) -> Any:
        from dlcca.numerics.fusion import FUSIONS

        return FUSIONS[self.options["fusion"]]

    @property
    def coordinates(self) -> Any:
        from dlcca.numerics.coordinates import COORDINATES

        return COORDINATES[self.options["coordinates"]]

    @property
    def m(self) -> int:
        landmarks = self.options["landmarks"]
        return landmarks if isinstance(landmarks, int) else len(landmarks)


Choice = tuple[Any, str]
#: Each is chosen by what was settled before it.
_IN_ORDER: tuple[str, ...] = ("landmarks", "landmark_rule", "neighbor_rows", "n_neighbors", "neighbor_index", "metric")
_IN_ORDER += ("fusion", "kernel", "bandwidth", "coordinates", "diffusion_time", "solver")


def choose(settings: Settings, n: int, K: int, dims: Sequence[int] = ()) -> Choices:
    """Replace every "auto" (and ``landmarks="all"``) by a value that suits n samples of K views of so many channels."""
    known = _Known(n, K, settings.options(), tuple(dims) or (USUAL_CHANNELS,) * K)
    reasons = {}
    for option in _IN_ORDER:
        said = known.options[option]
        if isinstance(said, str) and said in ("auto", "all"):
            known.options[option], reason = _chosen(option, known)
            if said == "auto" and reason:
                reasons[option] = reason
    _check_together(known)
    return Choices(settings.with_options(**known.options), reasons)


def _chosen(option: str, known: _Known) -> Choice:
    """The value of an option, and the reason for it; "" if there was no choice."""
    K, kind = known.K, known.kind
    match option:
        case "landmarks":
            return _landmarks(known)
        case "landmark_rule" if kind == "time":
            return "even", "windows of time lie evenly in the recording"
        case "landmark_rule":
            return "kmeans++", "landmarks cover the joint space of the views"
        case "neighbor_rows":
            return _neighbor_rows(known)
        case "n_neighbors":
            return NEIGHBORS, "" if kind != "knn" else "enough for a local covariance"
        case "neighbor_index":
            return _neighbor_index(known)
        case "metric":
            few = {1: ("mahalanobis", "one view"), 2: ("cca", "two views")}
            return few.get(K, ("maxvar", f"{K} views"))
        case "fusion" if K == 1 or known.options["metric"] == "mahalanobis":
            return "view", "one view"
        case "fusion" if kind == "knn":
            return "alternating", "neighbours in state: a step along each view forgets what is private to the others"
        case "fusion" if K == 2:
            return "view", "neighbours in time: two views may move together and not be functions of each other"
        case "fusion":
            return "average", f"neighbours in time: what {K} views share shows in the distances of each"
        case "kernel" if known.fusion.per_view:
            return "sparse", "a view's metrics hold near their landmarks, and alternating carries them far"
        case "kernel":
            size = f"{known.n} x {known.m} entries"
            fits = known.n * known.m <= DENSE_ENTRIES
            return ("dense", f"{size} fit in memory") if fits else ("sparse", f"{size} do not")
        case "bandwidth":
            return "quantile", "the 20 % quantile of the distances that the kernel sees"
        case "coordinates":
            return _coordinates(known)
        case "diffusion_time" if not known.coordinates.takes_time:
            return 1, ""
        case "diffusion_time":
            return "auto", "chosen in the fit by the number of states that can be distinguished"
        case _:
            return _solver(known)


def _landmarks(known: _Known) -> Choice:
    n = known.n
    if known.options["landmarks"] == "all":
        return n, "every sample"
    if known.kind == "given":
        if (given := len(known.options["neighborhoods"])) != n:
            said = f"neighborhoods has {given} rows and the views have {n} samples"
            raise SettingsError(f"{said}; name the landmark of each row in landmarks.")
        return n, "the neighborhood of every sample was given"
    growing = min(max(KNN_LANDMARKS, isqrt(LANDMARKS_GROW * n)), KNN_LANDMARKS_LARGE)
    most = TIME_LANDMARKS if known.kind == "time" else growing
    return (n, "every sample") if n <= most else (most, f"enough to cover {n} samples")


def matched_rows(k: int, m: int, n_links: int) -> int:
    """Random rows of which the k nearest to a landmark fill the ball that its kernel reaches.

    A kernel of s links reaches the share s / m of all rows. A metric that is fitted in a smaller ball does not hold
    where the kernel uses it, and private variables leak into the coordinates.
    """
    return max(FEWEST_ROWS, -(-k * m // min(n_links, m)))


def _neighbor_rows(known: _Known) -> Choice:
    if known.options["neighbor_rows"] == "all" or known.kind != "knn":
        return "all", ""
    if known.options["n_neighbors"] != "auto":
        return "all", "the number of neighbours was given"
    rows = matched_rows(NEIGHBORS, known.m, int(known.options["n_links"]))
    if rows >= known.n:
        return "all", f"{NEIGHBORS} of {known.n} rows fill the ball that the kernel reaches"
    return rows, f"of so many random rows, {NEIGHBORS} neighbours fill the ball that the kernel reaches"


def _neighbor_index(known: _Known) -> Choice:
    n, m = known.n, known.m
    if search_by("exact", m, known.dims) == "tree":
        return "exact", f"a tree finds neighbours in {sum(known.dims)} channels quickly"
    exact, index = exact_seconds(n, m, known.dims), index_seconds(n, m, known.dims)
    if known.kind != "knn" or 2 * index > exact:
        return "exact", f"{m} landmarks are few enough to compare with every sample"
    return "pynndescent", f"{n} x {m} pairs take about {exact / 60:.0f} minutes of a core, an index {index / 60:.0f}"


def _coordinates(known: _Known) -> Choice:
    options = known.options
    if not known.fusion.per_view:
        return "diffusion", "eigenfunctions of the diffusion step"
    if options["normalization"] == "paper":
        return "diffusion", "potential coordinates have the normalization 'balanced'"
    return "auto", "chosen in the fit by the number of states that can be distinguished"


def _solver(known: _Known) -> Choice:
    """Gram matrices while they fit and do not take twice as long: their time is known beforehand."""
    n, m, K = known.n, known.m, len(known.fusion.kernels(known.K))
    links = min(int(known.options["n_links"]), m) if known.options["kernel"] == "sparse" else m
    size = gram_matrices(K) * m * m * 8
    if known.coordinates.needs_grams and (size <= GRAM_BYTES or not known.coordinates.takes_steps):
        return "gram", "the coordinates are made of the Gram matrices"
    if size > GRAM_BYTES:
        return "lanczos", f"matrices of {m} x {m} landmarks would take {size / 2**30:.1f} GiB"
    gram, lanczos = gram_seconds(n, m, links, K), lanczos_seconds(n, m, links, K, int(known.options["n_components"]))
    if gram > 2 * lanczos:
        return "lanczos", f"{m} landmarks: about {lanczos:.0f} s of a core, {gram:.0f} by matrices of {m} x {m}"
    return "gram", f"{m} landmarks are few enough for matrices of {m} x {m}"


def gram_matrices(K: int) -> int:
    """L x L matrices that K kernels take: one of each, one of each with the next, one of each other with the first."""
    return 3 * K - 3 if K > 1 else 1


def gram_seconds(n: int, m: int, links: int, K: int) -> float:
    """The spectrum of K kernels through Gram matrices, on one core: to add them up, and to solve.

    Rows of s links are n s² additions for each matrix, dense rows a product of 2 n m² operations. The solution is an
    eigenproblem of some 4 m³ operations for one kernel; for several a full one comes first, and products of matrices.
    """
    adding = 2.0 * n * m * m / PRODUCTS_PER_S if links == m else float(n) * links**2 / ADDITIONS_PER_S
    return gram_matrices(K) * adding + (4 if K == 1 else 13 + 2 * K) * float(m) ** 3 / DECOMPOSITIONS_PER_S


def lanczos_seconds(n: int, m: int, links: int, K: int, q: int) -> float:
    """The same by block Lanczos, on one core: every step is a pass over the samples for one kernel, 2K for more.

    A pass takes 2 n s b additions, b the vectors of a block, or makes n m dense distances and multiplies by them twice.
    The steps depend on how close the eigenvalues lie, which is not known before: about √m / 5 were taken where every
    sample was a landmark and the views shared one circle. At least 16 are reckoned with.
    """
    b = max(8, q + 3)
    passes = max(16.0, m**0.5 / 5) * (1 if K == 1 else 2 * K)
    if links < m:
        return passes * (PASS_S + 2.0 * n * links * b / ADDITIONS_PER_S)
    return passes * (PASS_S + float(n) * m / SELECTIONS_PER_S + 4.0 * n * m * b / PRODUCTS_PER_S)


def search_by(neighbor_index: str, m: int, dims: Sequence[int]) -> str:
    """How nearest neighbours are found: by "products" of all pairs, by a "tree" (both exact), or by "pynndescent".

    A tree looks at fewer pairs the fewer dimensions there are: at some hundred of samples that fill 6 channels, at some
    thousand of those that fill 8. Above that, products of all pairs are quicker, which keep the processor busier; and
    so they are for few landmarks, because they give links and neighbours in one pass.
    """
    if neighbor_index != "exact":
        return neighbor_index
    return "tree" if m > TREE_LANDMARKS and sum(dims) <= TREE_CHANNELS else "products"


def exact_seconds(n: int, m: int, dims: Sequence[int]) -> float:
    """All pairs of n samples and m landmarks on one core: 2 n m Σd operations, and n m selections in each view."""
    return 2.0 * n * m * sum(dims) / PRODUCTS_PER_S + float(n) * m * len(dims) / SELECTIONS_PER_S


def index_seconds(n: int, m: int, dims: Sequence[int]) -> float:
    """The same by pynndescent on one core, its compilation included.

    n samples are placed into indexes of shards, each of which is queried for every landmark; for the links, m landmarks
    are placed into an index for each view, each of which is queried for every sample. A step takes as long as there are
    digits in the number of samples of an index, 1 at 10^5.
    """
    shards = max(1, -(-n // SHARD_SAMPLES))
    digits = log2(max(2, n / shards)) / log2(1e5)
    neighbors = n * PLACING_S + m * shards * QUERY_S
    links = len(dims) * (m * PLACING_S + n * QUERY_S) * log2(max(2, m)) / log2(1e5)
    return COMPILING_S + neighbors * digits + links


def _check_together(known: _Known) -> None:
    """Refuse options that do not go together, and those that are not for so many views."""
    from dlcca.numerics.metrics import METRICS

    options, K, fusion, coordinates = known.options, known.K, known.fusion, known.coordinates
    said = {name: f"{name}={options[name]!r}" for name in ("metric", "fusion", "coordinates", "normalization")}
    fewest, most = METRICS[options["metric"]].fewest_views, METRICS[options["metric"]].most_views
    if K < fewest:
        given = "one was" if K == 1 else f"{K} were"
        raise SettingsError(f"{said['metric']} needs {_views(fewest)} or more and {given} given; use 'mahalanobis'.")
    if most is not None and K > most:
        other = "'maxvar', or 'auto'" if most > 1 else "'auto'"
        raise SettingsError(f"{said['metric']} is for {_views(most)} and {K} were given; use {other}.")
    if fusion.fewest_views > K:
        raise SettingsError(f"{said['fusion']} needs two views or more and one was given; use 'view'.")
    if coordinates.needs_grams and not coordinates.takes_steps and options["solver"] == "lanczos":
        raise SettingsError(f"{said['coordinates']} needs Gram matrices; use solver='gram' or 'auto'.")
    if options["normalization"] not in coordinates.normalizations:
        raise SettingsError(f"{said['coordinates']} needs normalization='balanced'.")
    if options["normalization"] not in fusion.normalizations:
        raise SettingsError(f"{said['normalization']} is not defined for {said['fusion']}; use 'balanced'.")


def _views(count: int) -> str:
    return {1: "one view", 2: "two views"}.get(count, f"{count} views")

"""The fit on arrays in memory: landmarks, neighborhoods, metric, kernel, spectrum, in that order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, NeighborhoodTooSmall, SettingsError, Untrusted
from dlcca.fitting.auto_window import auto_window, rows_to_choose_by
from dlcca.fitting.chance_correlation import by_chance
from dlcca.model import Model, fused_rows
from dlcca.numerics import landmarks as landmark_rules
from dlcca.numerics.affinity import closest_links, kernel_rows, nearest_links, relative_rows, sparse_rows
from dlcca.numerics.alternating import alternating_spectrum
from dlcca.numerics.axes import Axes, evened
from dlcca.numerics.bandwidth import by_rule
from dlcca.numerics.cca import LocalMetric
from dlcca.numerics.connected_components import n_pieces
from dlcca.numerics.distances import landmark_distances, linked_distances
from dlcca.numerics.extension import extend
from dlcca.numerics.metrics import METRICS
from dlcca.numerics.neighborhoods import joint_neighbors, joint_space
from dlcca.numerics.signs import signs
from dlcca.numerics.spectrum import balanced_spectrum, landmark_spectrum
from dlcca.numerics.windows import roomy, time_windows
from dlcca.settings.auto import Choices, choose, search_by
from dlcca.settings.fit import Settings
from dlcca.trust.assess import SOME_ROWS, Half, checks_of, kernels_of
from dlcca.trust.coordinate_checks import told_by
from dlcca.trust.quality import CONNECTED, Checks, Common, Quality, assess, with_hint
from dlcca.trust.select_coordinates import SPARE, Chosen, telling
from dlcca.trust.sharing import at_landmarks, chance_of, common_of, strength_of_rows
from dlcca.views import Views, transposed

#: Entries of the neighborhoods gathered at once for a batch of local decompositions.
BATCH_ENTRIES = 1 << 22
#: Below it an eigenvalue is rounding: singular values come as roots of numbers that are known to 1e-16.
LEAST_EIGENVALUE = 1e-7
#: Rows from which the reach of the landmarks is told (16 of them lie beyond it), and the fewest; between these it is as
#: many as have so many distances to the landmarks.
REACH_ROWS, LEAST_REACH_ROWS, REACH_ENTRIES = 1 << 14, 1 << 10, 1 << 27
#: Landmarks of which half are tried alone: of fewer there is no half, and more are many enough.
FEWEST_HALVED, MOST_HALVED = 16, 4096


@dataclass(frozen=True)
class Fit:
    """A model and what was learned on the way to it."""

    model: Model
    embedding: NDArray  # (n, q)
    eigenvalues: NDArray  # (q + 1,), the trivial 1 first
    landmarks: NDArray  # (m,) row numbers
    correlations: NDArray  # (m, r)
    bandwidth: float | NDArray  # σ, or one for each view
    quality: Quality
    choices: Choices


def fit_views(
    views: Views,
    settings: Settings,
    rng: np.random.Generator,
    *,
    allow_degenerate: bool = False,
    segments: NDArray[np.int64] | None = None,
) -> Fit:
    """Fit a model to views that have been checked (see `views.checked`).

    ``segments`` (n,) number the unbroken stretches of a recording, which windows of time do not cross.
    ``allow_degenerate`` lets a ridge of 0 pass where neighborhoods are too small for it: to show what then happens.
    """
    arrays = views.present
    choices = settle(settings, arrays, segments)
    rows = pick_landmarks(views.n, choices.settings, rng, lambda some: np.hstack(joint_space(arrays))[some])
    rows = with_room(rows, segments, rows_apart(choices.settings))
    neighbors = find_neighbors(views.n, rows, choices.settings, arrays, segments)
    recall = neighbor_recall(arrays, rows, neighbors, choices.settings)
    metric = fit_metric(arrays, neighbors, choices.settings)
    if choices.settings.metric.ridge == 0 and not allow_degenerate:
        refuse_degenerate(metric, neighbors.shape[1], views.dims, choices.settings)
    model, eigenvalues, bandwidth, outliers = fit_spectrum(views, rows, metric.factors, choices.settings)
    embedding = model.coordinates(arrays)
    flip = signs(embedding)
    reach = reach_of(model, arrays, rows, choices.settings)
    model = replace(model, values=[V * flip for V in model.values], reach=reach)
    embedding = embedding * flip
    common = shared(arrays, neighbors, metric.ranks, choices.settings, segments)
    pieces = n_pieces(kernels_of(model, arrays)) if (eigenvalues[1:] > CONNECTED).any() else 1
    checks = replace(looked_at(model, arrays, embedding, choices.settings, pieces), outliers=outliers)
    quality = assess(
        metric,
        neighbors.shape[1],
        eigenvalues,
        neighbor_recall=recall,
        common=common,
        checks=checks,
        one_is_meant="metric" not in choices.reasons,
    )
    quality = with_hint(quality, transposed(views.n, views.dims))
    if common is not None:
        strength = strength_of_rows(arrays, rows, neighbors, common.strength, choices.settings)
        quality = replace(quality, strength=strength)
    for reason in quality.reasons:
        warnings.warn(reason, Untrusted, stacklevel=3)
    return Fit(
        model=model,
        embedding=embedding.astype(arrays[0].dtype),
        eigenvalues=eigenvalues,
        landmarks=rows,
        correlations=metric.correlations,
        bandwidth=bandwidth,
        quality=quality,
        choices=choices,
    )


def shared(
    arrays: list[NDArray],
    neighbors: NDArray[np.int64],
    ranks: NDArray,
    settings: Settings,
    segments: NDArray[np.int64] | None,
) -> Common | None:
    """What the views share; None for one view, which is not asked."""
    if len(arrays) < 2:
        return None
    given = None if isinstance(settings.neighborhoods.kind, str) else neighbors
    chance = chance_of(arrays, neighbors.shape[1], settings, segments, given)
    return common_of(chance, at_landmarks(arrays, neighbors, ranks))


def settle(settings: Settings, arrays: list[NDArray], segments: NDArray | None = None) -> Choices:
    """The settings without any "auto" left; the window last, because it takes small fits to judge it."""
    n = len(arrays[0])

    def read(rows: NDArray[np.int64]) -> list[NDArray]:
        return [X[rows] for X in arrays]

    choices = choose(settings, n, len(arrays), [X.shape[1] for X in arrays], partial(by_chance, read, n, settings))
    return with_window(choices, n, read, segments)


def with_window(
    choices: Choices, n: int, read: Callable[[NDArray[np.int64]], list[NDArray]], segments: NDArray | None = None
) -> Choices:
    """The choices with a window too, if it was "auto"; ``read`` gives some rows of all views."""
    asked = choices.settings.neighborhoods
    if asked.window != "auto":
        return choices
    if not isinstance(asked.kind, str) or asked.kind != "time":
        return replace(choices, settings=choices.settings.with_options(window=8))  # not looked at
    rows, stretches = rows_to_choose_by(n, segments)
    small = choices.settings.with_options(n_components=1, kernel="dense", solver="gram")
    window, why = auto_window(read(rows), stretches, partial(first_coordinate, small))
    settings = choices.settings.with_options(window=window)
    return replace(choices, settings=settings, reasons={**choices.reasons, "window": why})


def first_coordinate(
    settings: Settings, arrays: list[NDArray], rows: NDArray[np.int64], neighbors: NDArray[np.int64]
) -> NDArray:
    """The first coordinate (n,) of views (n, d_v) by the neighborhoods (m, k) of some landmarks."""
    metric = fit_metric(arrays, neighbors, settings)
    names = tuple(f"view {v + 1}" for v in range(len(arrays)))
    draft = draft_from(names, [X[rows] for X in arrays], metric.factors, settings)
    return solved(draft, arrays, settings)[0].coordinates(arrays)[:, 0]


def pick_landmarks(
    n: int, settings: Settings, rng: np.random.Generator, joint: Callable[[NDArray], NDArray]
) -> NDArray[np.int64]:
    """Row numbers of the landmarks among n samples; ``joint`` gives the rows asked for in the joint space."""
    wanted = settings.landmarks.count
    if not isinstance(wanted, int | np.integer):
        return given_landmarks(wanted, n)
    if wanted > n:
        raise SettingsError(f"landmarks={wanted}, but the views have {n} samples; ask for at most {n}, or 'all'.")
    rule = settings.landmarks.rule
    if wanted == n:
        return np.arange(n)
    if rule == "even":
        return landmark_rules.evenly(n, int(wanted))
    if rule == "random":
        return landmark_rules.at_random(n, int(wanted), rng)
    candidates = landmark_rules.candidates(n, int(wanted), rng)
    points = joint(candidates)
    if rule == "farthest":
        chosen = landmark_rules.farthest_points(points, int(wanted), int(rng.integers(len(points))))
    else:
        chosen = landmark_rules.kmeans_plus_plus(points, int(wanted), rng)
    return candidates[chosen]


def with_room(rows: NDArray[np.int64], segments: NDArray | None, width: int) -> NDArray[np.int64]:
    """Those of some rows that lie in an unbroken stretch long enough for a window of time."""
    if segments is None or width == 1:
        return rows
    kept = rows[roomy(segments, width)[rows]]
    if len(kept) < 2:
        raise DataError(
            f"window={width}, but the longest stretch without a gap has {int(np.bincount(segments).max())} rows, and "
            f"{len(kept)} landmarks lie in one that is long enough. Choose a shorter window, or neighborhoods='knn'."
        )
    return kept


def given_landmarks(wanted: Any, n: int) -> NDArray[np.int64]:
    """Row numbers that the user gave, if they are such."""
    rows = np.asarray(wanted)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise SettingsError(f"landmarks is an array {rows.shape} of {rows.dtype}; row numbers (L,) are needed.")
    if len(rows) < 2:
        raise SettingsError(f"{len(rows)} landmark was given; at least 2 are needed.")
    check_rows("landmarks", rows, n)
    values, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        twice = values[counts > 1]
        raise SettingsError(f"landmarks names row {twice[0]} twice ({len(twice)} rows repeated); name each once.")
    return rows.astype(np.int64)


def check_rows(option: str, rows: NDArray, n: int) -> None:
    outside = rows[(rows < 0) | (rows >= n)]
    if outside.size:
        raise SettingsError(f"{option} names row {outside.flat[0]}; the views have rows 0 to {n - 1}.")


def find_neighbors(
    n: int,
    rows: NDArray[np.int64],
    settings: Settings,
    arrays: Sequence[NDArray] = (),
    segments: NDArray | None = None,
) -> NDArray[np.int64]:
    """Rows (m, k) of each landmark's neighborhood; the arrays are looked at for "knn" only, segments for "time"."""
    asked = settings.neighborhoods
    if not isinstance(asked.kind, str):
        return given_neighbors(asked.kind, len(rows), n)
    hint = transposed(n, [X.shape[1] for X in arrays])
    if asked.kind == "time":
        if asked.window > n:
            raise SettingsError(
                f"window={asked.window}, but the views have {n} samples; choose a shorter one. {hint}".rstrip()
            )
        return time_windows(n, rows, int(asked.window), segments)
    if asked.n_neighbors > n:
        raise SettingsError(
            f"n_neighbors={asked.n_neighbors}, but the views have {n} samples; choose fewer. {hint}".rstrip()
        )
    how = search_by(asked.neighbor_index, len(rows), [X.shape[1] for X in arrays])
    if how == "products":
        return joint_neighbors(arrays, rows, int(asked.n_neighbors))
    from dlcca.numerics import searches  # numba is not worth its import for a few pairs

    search = searches.tree_neighbors if how == "tree" else searches.index_neighbors
    return search(arrays, rows, int(asked.n_neighbors))


def neighbor_recall(
    arrays: Sequence[NDArray], rows: NDArray[np.int64], neighbors: NDArray[np.int64], settings: Settings
) -> float | None:
    """Share of the true neighbours among those found, at some landmarks; None if the search was exact."""
    asked = settings.neighborhoods
    if not isinstance(asked.kind, str) or asked.kind != "knn" or asked.neighbor_index != "pynndescent":
        return None
    from dlcca.numerics import searches

    return searches.neighbor_recall(arrays, rows, neighbors)


def given_neighbors(kind: Any, m: int, n: int) -> NDArray[np.int64]:
    """Neighborhoods that the user gave, if they are such."""
    rows = np.asarray(kind)
    if rows.ndim != 2 or rows.dtype.kind not in "iu" or len(rows) != m or rows.shape[1] < 2:
        raise SettingsError(
            f"neighborhoods is an array {rows.shape} of {rows.dtype}; row numbers (L, k) are needed, k at least 2, "
            f"with a row for each of the {m} landmarks."
        )
    check_rows("neighborhoods", rows, n)
    return rows.astype(np.int64)


def fit_metric(arrays: list[NDArray], neighbors: NDArray[np.int64], settings: Settings) -> LocalMetric:
    """The local metric of every view at every landmark, in batches that bound the memory."""
    ridge, kind, r = float(settings.metric.ridge), settings.metric.kind, int(settings.metric.rank)
    k, widest = neighbors.shape[1], sum(X.shape[1] for X in arrays)
    batch = max(1, BATCH_ENTRIES // (k * widest))
    parts = []
    for first in range(0, len(neighbors), batch):
        local = [X[neighbors[first : first + batch]] for X in arrays]
        parts.append(METRICS[kind].compute(local, ridge, r))
    return LocalMetric(
        factors=[np.concatenate([p.factors[v][:, :, :r] for p in parts]) for v in range(len(parts[0].factors))],
        correlations=np.concatenate([p.correlations[:, :r] for p in parts]),
        ranks=np.concatenate([p.ranks for p in parts]),
        effective=np.concatenate([p.effective for p in parts]),
    )


def refuse_degenerate(metric: LocalMetric, k: int, dims: Sequence[int], settings: Settings, first: int = 0) -> None:
    """Without a ridge, too few neighbours make correlations of exactly 1 out of nothing.

    ``first`` is the number of the first landmark in ``metric``, which may be a block of many.
    """
    needed = metric.ranks.sum(axis=1) + 1
    if metric.ranks.shape[1] == 1:
        needed = np.where(metric.ranks[:, 0] < dims[0], needed + 1, needed)
    if (needed > k).any():
        worst = int(np.argmax(needed))
        channels, ranks = (" and ".join(map(str, sizes)) for sizes in (dims, metric.ranks[worst]))
        option = "window" if settings.neighborhoods.kind == "time" else "n_neighbors"
        raise NeighborhoodTooSmall(
            f"landmark {first + worst} has {k} neighbors; local {settings.metric.kind} of views with {channels} "
            f"channels (rank {ranks} there) needs at least {needed[worst]} when ridge is 0. "
            f"Raise {option} (now {k}), or set ridge (0.03 is usual)."
        )


def fit_spectrum(
    views: Views, rows: NDArray[np.int64], factors: list[NDArray], settings: Settings
) -> tuple[Model, NDArray, float | NDArray, int]:
    """The kernel, its spectrum, and the model they make; the eigenvalues, the bandwidth, and outliers left out."""
    m, q = len(rows), int(settings.spectrum.n_components)
    if q > m - 1:
        raise SettingsError(
            f"n_components={q} with {m} landmarks; at most {m - 1} are possible. Ask for fewer, or for more landmarks."
        )
    wider = settings.with_options(n_components=n_solved(q, m, settings.kernel.fusion))
    model, eigenvalues, bandwidth = solved(draft_of(views, rows, factors, wider), views.present, wider)
    refuse_rounding(eigenvalues[: q + 1])
    chosen = chosen_coordinates(model.values, eigenvalues, q)
    kept = chosen.columns
    model = replace(model, values=[V[:, kept] for V in model.values], scale=model.scale[kept])
    return model, eigenvalues[[0, *(c + 1 for c in kept)]], bandwidth, chosen.outliers


def n_solved(q: int, m: int, fusion: str) -> int:
    """Coordinates that are solved for, of which q are given.

    Only of neighbours in state is there a choice: which are the slowest of a movement may change from one half of a
    recording to the next, and with a choice among them the coordinates of two fits would differ more.
    """
    return min(q + SPARE, m - 1) if fusion == "alternating" else q


def chosen_coordinates(values: Sequence[NDArray], eigenvalues: NDArray, q: int) -> Chosen:
    """Which q of the solved coordinates are given, by the kernels' values (m, p) of the landmarks."""
    known = int((eigenvalues > LEAST_EIGENVALUE).sum()) - 1
    E = np.mean(values, axis=0)[:, :known]
    return telling(E, eigenvalues[1 : known + 1], q, pieces_above=CONNECTED)


def draft_of(views: Views, rows: NDArray[np.int64], factors: list[NDArray], settings: Settings) -> Model:
    """The landmarks with their metrics, before there is a kernel."""
    return draft_from(views.names, [X[rows] for X in views.present], factors, settings)


def draft_from(names: tuple[str, ...], points: list[NDArray], factors: list[NDArray], settings: Settings) -> Model:
    """The same from the landmarks' values (L, d_v)."""
    return Model(
        names=names,
        fusion=settings.kernel.fusion,
        n_links=min(int(settings.kernel.n_links), len(points[0])) if settings.kernel.kind == "sparse" else None,
        points=points,
        factors=factors,
        units=np.ones(len(factors)),
        weights=[],
        values=[],
        scale=np.ones(int(settings.spectrum.n_components)),
        axes=axes_of(points, settings),
    )


def axes_of(points: list[NDArray], settings: Settings) -> Sequence[Axes | None]:
    """The axes along which the links of each view are nearest; none, where links are by the metric or to all."""
    by_distance = settings.kernel.fusion == "alternating" and settings.kernel.kind == "sparse"
    some = by_distance and int(settings.kernel.n_links) < len(points[0])
    return [evened([P]) for P in points] if some else ()


def solved(draft: Model, arrays: list[NDArray], settings: Settings) -> tuple[Model, NDArray, float | NDArray]:
    """The model of some samples, with the eigenvalues and the bandwidth."""
    build = alternating_model if settings.kernel.fusion == "alternating" else fused_model
    return build(draft, arrays, settings)


def looked_at(model: Model, views: list[NDArray], embedding: NDArray, settings: Settings, pieces: int) -> Checks:
    """What some rows of the views, and all coordinates (n, q), tell of a fitted model."""
    some = landmark_rules.evenly(len(embedding), min(len(embedding), SOME_ROWS))
    arrays = [X[some] for X in views]
    return checks_of(model, arrays, embedding, half_fit(model, arrays, embedding[some], settings), pieces)


def half_fit(fitted: Model, arrays: list[NDArray], embedding: NDArray, settings: Settings) -> Half | None:
    """What every other landmark gives at some of the samples, held against the embedding: is it the landmarks' doing?

    None if there are too few landmarks to halve, or so many that half would do. ``arrays`` are the views, and
    ``embedding`` (s, q) the coordinates, of these samples.
    """
    q, L = int(settings.spectrum.n_components), fitted.n_landmarks
    kept = np.arange(0, L, 2)
    if not FEWEST_HALVED <= L <= MOST_HALVED or q + 2 > len(kept):
        return None
    wider = settings.with_options(n_components=q + 1, solver="gram")
    draft = draft_from(fitted.names, [P[kept] for P in fitted.points], [F[kept] for F in fitted.factors], wider)
    try:
        model, eigenvalues, _sigma = solved(draft, arrays, wider)
    except DataError:  # the distances of these samples are all zero
        return None
    if eigenvalues[-1] <= LEAST_EIGENVALUE:
        return None
    other = model.coordinates(arrays)
    gap = (eigenvalues[q] - eigenvalues[q + 1]) / max(1 - eigenvalues[q + 1], LEAST_EIGENVALUE)
    return told_by(embedding, other[:, :q]), told_by(embedding, other), float(gap)


def refuse_rounding(eigenvalues: NDArray) -> None:
    """An error if more coordinates were asked for than the kernel has."""
    found, q = int((eigenvalues > LEAST_EIGENVALUE).sum()) - 1, len(eigenvalues) - 1
    if found < q:
        raise SettingsError(
            f"n_components={q}, but the kernel has rank {found + 1}: ask for at most {found}, or widen the bandwidth."
        )


def fused_model(draft: Model, arrays: list[NDArray], settings: Settings) -> tuple[Model, NDArray, float]:
    """One kernel of one view's distances, or of the average of all views' (each divided by its median)."""
    used = range(1) if settings.kernel.fusion == "view" else range(len(arrays))
    units = np.zeros(len(arrays))
    for v in used:
        units[v] = by_rule(landmark_distances(arrays[v], draft.points[v], draft.factors[v]), "median")
        refuse_flat(units[v], draft.names[v])
    if settings.kernel.fusion == "view":
        units[0] = 1.0
    D = replace(draft, units=units).distances(arrays)
    sigma = bandwidth(D if draft.n_links is None else closest_links(D, draft.n_links)[1], settings)
    refuse_flat(sigma, draft.names[0])
    model = replace(draft, units=units * sigma)
    q, solver = int(settings.spectrum.n_components), settings.spectrum.solver
    if settings.kernel.normalization == "balanced":
        spectrum = balanced_spectrum(fused_rows(D / np.asarray(sigma, D.dtype), draft.n_links), q, solver=solver)
    else:
        spectrum = landmark_spectrum(literal_rows(D, sigma, draft.n_links), q, solver=solver)
    return replace(model, weights=[spectrum.weights], values=[spectrum.values]), spectrum.eigenvalues, sigma


def literal_rows(D: NDArray, sigma: float, n_links: int | None) -> Any:
    """exp(-D/σ) itself: the paper's degrees Ω depend on the size of each row."""
    W = fused_rows(D / np.asarray(sigma, D.dtype), n_links)
    size = kernel_rows(D.min(axis=1, keepdims=True), sigma)
    return W.multiply(size).tocsr() if n_links is not None else W * size


def alternating_model(draft: Model, arrays: list[NDArray], settings: Settings) -> tuple[Model, NDArray, NDArray]:
    """One kernel for each view, of the landmarks that are nearest in this view."""
    units, kernels = np.empty(len(arrays)), []
    for v, X in enumerate(arrays):
        points, F = draft.points[v], draft.factors[v]
        links = None if draft.n_links is None else nearest_links(X, points, draft.n_links, draft.axes_of(v))
        D = landmark_distances(X, points, F) if links is None else linked_distances(X, points, F, links)
        units[v] = bandwidth(D, settings)
        refuse_flat(units[v], draft.names[v])
        W = relative_rows(D, units[v])
        kernels.append(W if links is None else sparse_rows(W, links, len(points)))
    q = int(settings.spectrum.n_components)
    spectrum = alternating_spectrum(kernels, q, solver=settings.spectrum.solver)
    model = replace(draft, units=units, weights=[np.ones(W.shape[1]) for W in kernels], values=spectrum.values)
    # As `Model.coordinates` reads them, from the kernels that are there already.
    readings = [extend(W, b, V) for W, b, V in zip(kernels, model.weights, model.values, strict=True)]
    size = np.sqrt(np.mean(np.mean(readings, axis=0) ** 2, axis=0))
    return replace(model, scale=1 / np.where(size > 0, size, 1)), spectrum.eigenvalues, units


def reach_of(model: Model, arrays: list[NDArray], landmarks: NDArray[np.int64], settings: Settings) -> NDArray:
    """The reach of the landmarks (see `numerics.novelty`), from some rows spread over all."""
    n, most = len(arrays[0]), reach_rows(len(landmarks))
    some = np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)
    return model.reach_of([X[some] for X in arrays], landmarks, some, apart=rows_apart(settings))


def reach_rows(m: int) -> int:
    """Rows whose distances to m landmarks tell how far these reach."""
    return int(np.clip(REACH_ENTRIES // m, LEAST_REACH_ROWS, REACH_ROWS))


def rows_apart(settings: Settings) -> int:
    """Rows nearer than this to a landmark are too much like it to tell how far another day's rows may lie."""
    asked = settings.neighborhoods
    return int(asked.window) if isinstance(asked.kind, str) and asked.kind == "time" else 1


def bandwidth(D: NDArray, settings: Settings) -> float:
    """σ, by the rule or as the user said."""
    said = settings.kernel.bandwidth
    return by_rule(D, said) if isinstance(said, str) else float(said)


def refuse_flat(sigma: float, name: str) -> None:
    if not sigma > 0 or not np.isfinite(sigma):
        raise DataError(
            f"the distances in view {name!r} have the scale {sigma}: the local metrics see no change in it. "
            "Give more neighbours (window or n_neighbors), or leave this view out."
        )

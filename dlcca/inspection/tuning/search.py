"""Which options are tried, in which order, and which is taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.fitting.in_memory import settle
from dlcca.inspection.tuning.result import Curve, Tuned
from dlcca.inspection.tuning.trials import Options, StateTrials, TimeTrials
from dlcca.numerics.windows import chosen as some_rows
from dlcca.numerics.windows import unbroken
from dlcca.settings.fit import OPTIONS, Settings
from dlcca.trust.lags import paired, settled_lags
from dlcca.views import Views, check_varies, checked, named

#: Rows that are looked at, at most: nearest neighbours are searched among all of them.
MOST_ROWS = 20_000
#: Rows of a stretch, where not all are looked at: of nearest neighbours, and of windows of time.
STRETCH, WINDOWED_STRETCH = 10, 2000
#: The fewest rows that can be halved.
FEWEST_ROWS = 64

#: What is tried besides what the user began with. The first is the default; of fusions, the one that "auto" becomes.
STATE = {
    "fusion": ("alternating", "average"),
    "n_neighbors": (64, 24, 160),
    "ridge": (0.03, 0.003, 0.2),
    "n_links": (32, 16, 64),
    "bandwidth": ("quantile", "median", "slope"),
}
TIME = {
    "ridge": (0.03, 0.1, 0.2),
    "fusion": ("auto",),
    "n_links": (32, 64),
    "bandwidth": ("quantile", "median"),
}
#: How much more than a default another value has to be worth: what halves of so many rows differ by, by chance. It
#: falls with the root of the rows.
STATE_MARGIN, TIME_MARGIN = 0.02, 0.1
MARGIN_ROWS = 2000
#: Alternating kernels are sparse, and the few landmarks of a trial hold them together less well than the others.
FUSION_MARGIN = 0.05

STATE_RULE = (
    "the share of the coordinates that both halves of the rows find, times the share that the view which sees least of "
    "them tells of held-out rows; less the same of views whose stretches are put in another order."
)
TIME_RULE = (
    "the share of the coordinates that both halves of the recording find, and what the squared correlations gain over "
    "views shifted in time. The window is the one that window='auto' finds."
)


def tune(views: Any, *, start: Any = None, random_state: Any = 0) -> Tuned:
    """Options that suit the views, chosen without any truth.

    The kind of neighborhoods is kept, because it says what "common" means, and so is every option that is not tuned.
    One option after the other is tried, by fits with few landmarks to halves of the rows: the defaults, what ``start``
    has, and values around them. A default is left only for what is clearly better. It costs about as much as two to
    five fits.

    Parameters
    ----------
    views : as for `LocalCCA.fit`; of arrays on disk, and of more than 20 000 rows, stretches spread over them are read
    start : a `LocalCCA`, `Settings` or a dict of options to begin with; the defaults if not said
    random_state : seed of the halves

    Returns
    -------
    Tuned, with ``options`` for ``LocalCCA(**options)``, ``settings``, ``curves``, ``cost`` and `Tuned.plot`
    """
    asked = _settings(start)
    given = dict(zip(views.names, views.arrays, strict=True)) if isinstance(views, Views) else named(views)
    n = min((np.shape(X)[0] for X in given.values()), default=0)
    rows = rows_to_read(n, asked)
    whole = len(rows) == n  # views of different lengths are then refused
    sample = given if whole else {name: _at(X, rows) for name, X in given.items()}
    return tune_sample(sample, unbroken([rows], getattr(views, "segments", None)), n, asked, random_state)


def tune_sample(views: Any, segments: NDArray[np.int64], n: int, start: Settings, random_state: Any = 0) -> Tuned:
    """The same from some of n rows, read before; ``segments`` number the unbroken stretches that they are of."""
    began = time.process_time()
    refuse_given(start)
    sample = checked(views)
    if start.neighborhoods.lags is not None:
        sample, _, segments = paired(sample, settled_lags(sample, start).rows, segments)  # type: ignore[assignment]
    check_varies(sample)
    if len(sample.present) < 2:
        raise DataError("one view has nothing in common with another: tune needs two views or more.")
    if sample.n < FEWEST_ROWS:
        raise DataError(f"{sample.n} samples cannot be halved; tune needs at least {FEWEST_ROWS}.")
    rng = np.random.default_rng(random_state)
    if start.neighborhoods.kind == "knn":
        return _tuned_by_state(sample, start, n, rng, began)
    return _tuned_in_time(sample, start, n, segments, rng, began)


def _settings(start: Any) -> Settings:
    """The settings to begin with."""
    if hasattr(start, "get_params"):
        start = {name: value for name, value in start.get_params().items() if name in OPTIONS}
    return start if isinstance(start, Settings) else Settings.from_options(**(start or {}))


def refuse_given(settings: Settings) -> None:
    """An error if neighborhoods are rows that the user gave."""
    if not isinstance(settings.neighborhoods.kind, str):
        raise SettingsError("neighborhoods were given as row numbers; tune is for neighborhoods='time' or 'knn'.")


def rows_to_read(n: int, settings: Settings) -> NDArray[np.int64]:
    """All of n rows, or stretches spread over them."""
    refuse_given(settings)
    return some_rows(n, MOST_ROWS, WINDOWED_STRETCH if settings.neighborhoods.kind == "time" else STRETCH)


def _at(X: Any, rows: NDArray[np.int64]) -> NDArray:
    """Some rows of an array, be it NumPy's, Dask's, Zarr's or a table."""
    return np.asarray(getattr(X, "oindex", getattr(X, "iloc", X))[rows])


def _tuned_by_state(views: Views, asked: Settings, n: int, rng: np.random.Generator, began: float) -> Tuned:
    tried = _candidates({**STATE, "fusion": _fusions(views, asked)}, asked)
    usual, *others = tried["n_neighbors"]
    tried["n_neighbors"] = (min(usual, views.n // 2), *(k for k in others if k <= views.n // 4))
    trials = StateTrials(views, asked.with_options(window=8), n, max(tried["n_neighbors"]), rng)
    margins = {name: margin_of(FUSION_MARGIN if name == "fusion" else STATE_MARGIN, views.n) for name in tried}
    options, curves = descent(tried, trials.criterion, margins)
    told = {"by_chance": trials.by_chance(options), "trials": trials.count, "rule": STATE_RULE}
    return _told(views, asked, n, options, curves, told, time.process_time() - began, trials)


def _fusions(views: Views, asked: Settings) -> tuple[Any, ...]:
    """Those of `STATE`, the default for these views first."""
    usual = {name: values[0] for name, values in STATE.items()}
    settled = settle(asked.with_options(**{**usual, "window": 8, "fusion": "auto"}), views.present).settings
    default = settled.kernel.fusion
    return (default, *(fusion for fusion in STATE["fusion"] if fusion != default))


def _tuned_in_time(
    views: Views, asked: Settings, n: int, segments: NDArray, rng: np.random.Generator, began: float
) -> Tuned:
    usual = asked.with_options(window="auto", **{name: values[0] for name, values in TIME.items()})
    choices = settle(usual, views.present, segments)
    window, why = int(choices.settings.neighborhoods.window), choices.reasons["window"]
    tried = _candidates(TIME, asked)
    trials = TimeTrials(views, asked.with_options(window=window), n, segments, rng)
    if trials.settled({name: values[0] for name, values in tried.items()}).kernel.kind == "dense":
        tried["n_links"] = tried["n_links"][:1]
    options, curves = descent(tried, trials.criterion, dict.fromkeys(tried, margin_of(TIME_MARGIN, views.n)))
    worth = max(curves["ridge"].criterion)
    curves = {"window": Curve("window", (window,), (worth,), window, why), **curves}
    told = {"by_chance": trials.gain(options)[1], "trials": trials.count, "rule": TIME_RULE}
    return _told(views, asked, n, {"window": window, **options}, curves, told, time.process_time() - began, trials)


def margin_of(margin: float, n: int) -> float:
    """The margin for n rows."""
    return margin * max(1.0, (MARGIN_ROWS / n) ** 0.5)


def _candidates(usual: Mapping[str, tuple[Any, ...]], asked: Settings) -> dict[str, tuple[Any, ...]]:
    """The default of every option first, then others, and what the user began with."""
    begun = asked.options()
    return {
        name: values if begun[name] in (*values, "auto") else (*values, begun[name]) for name, values in usual.items()
    }


def descent(
    tried: Mapping[str, tuple[Any, ...]], criterion: Callable[[Options], float], margins: Mapping[str, float]
) -> tuple[Options, dict[str, Curve]]:
    """One option after the other, the rest as chosen before or at its default."""
    best = {name: values[0] for name, values in tried.items()}
    curves, known = {}, {}
    for name, values in tried.items():
        worth = []
        for value in values:
            options = {**best, name: value}
            key = tuple(options.values())
            if key not in known:
                known[key] = criterion(options)
            worth.append(known[key])
        curves[name] = _chosen(name, values, worth, margins[name])
        best[name] = curves[name].chosen
    return best, curves


def _chosen(name: str, values: tuple[Any, ...], worth: list[float], margin: float) -> Curve:
    """The best, or the default (the first) if that is as good but for the margin."""
    at = int(np.argmax(worth))
    if len(values) == 1:
        reason = "the default; nothing else was tried"
    elif at == 0:
        reason = "the default, and the best of these"
    elif worth[at] - worth[0] <= margin:
        at, reason = 0, f"the default: {values[at]!r} is not better by more than {margin:.2g}"
    else:
        reason = f"better than the default {values[0]!r} by {worth[at] - worth[0]:.3f}"
    return Curve(name, values, tuple(worth), values[at], reason)


def _told(
    views: Views,
    asked: Settings,
    n: int,
    options: Options,
    curves: dict[str, Curve],
    told: dict[str, Any],
    seconds: float,
    trials: StateTrials | TimeTrials,
) -> Tuned:
    kept = {name: value for name, value in asked.options().items() if name not in ("window", "n_neighbors")}
    made = {**kept, **options}
    cost = seconds / trials.fit_seconds(options)
    return Tuned(options=made, curves=curves, rows=views.n, of_rows=n, cost=cost, **told)

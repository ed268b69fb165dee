"""The methods under the names that tables and figures give them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca import baselines
from dlcca.errors import Untrusted
from dlcca.fitting.in_memory import fit_views
from dlcca.settings.fit import Settings
from dlcca.views import Views, check_varies, checked

OURS = "local CCA"
#: With fewer rows than this for each channel, canonical correlations without a ridge are chance for the most part.
ROWS_PER_CHANNEL = 10
RIDGE = 0.03

Views_ = dict[str, NDArray]
Method = Callable[[Views_], NDArray]


def baseline_methods(dims: dict[str, int], n: int, q: int) -> Iterator[tuple[str, Method]]:
    """Every baseline that makes sense for views of these channels, with q coordinates or as many as it has."""
    for name in dims:
        yield f"diffusion maps of {name}", _caller(baselines.diffusion_maps, q, view=name)
    if len(dims) == 1:
        return
    yield "diffusion maps of all views", _caller(_diffusion_maps_of_all, q)
    yield "kernel CCA", _caller(baselines.kernel_cca, q)
    yield "alternating diffusion", _caller(baselines.alternating_diffusion, q)
    few = n < ROWS_PER_CHANNEL * sum(dims.values())
    most = min(q, sorted(dims.values())[-2])  # a variate needs a direction in two views
    options = {"ridge": RIDGE} if few else {}
    yield f"linear CCA (ridge {RIDGE})" if few else "linear CCA", _caller(baselines.linear_cca, most, **options)


def ours(views: Views_, settings: Settings, seed: int, segments: NDArray[np.int64] | None) -> NDArray:
    """Coordinates by local CCA of arrays in memory, with the settings of a run as far as they fit so few rows.

    For the control: that it should not be trusted is the point of it, and no warning.
    """
    given = checked(views)
    check_varies(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        fit = fit_views(given, _fitting(settings, given.n), np.random.default_rng(seed), segments=segments)
    return fit.embedding


def _fitting(settings: Settings, n: int) -> Settings:
    """The settings for n rows: no more landmarks or neighbours than there are, and no row numbers of the recording."""
    options = settings.options()
    changed: dict[str, Any] = {name: "auto" for name in ("landmarks",) if np.ndim(options[name])}
    if np.ndim(options["neighborhoods"]):
        changed["neighborhoods"] = "knn"
    if isinstance(options["landmarks"], int):
        changed["landmarks"] = min(options["landmarks"], n)
    changed["n_neighbors"] = min(options["n_neighbors"], n)
    return settings.with_options(**changed)


def _caller(method: Callable[..., baselines.Baseline], q: int, **options: Any) -> Method:
    def call(views: Views_) -> NDArray:
        return np.asarray(method(views, q, **options).embedding)

    return call


def _diffusion_maps_of_all(views: Any, q: int) -> baselines.Baseline:
    """All views side by side, whatever they are called: one may be named "all"."""
    given = Views.of(views)
    return baselines.diffusion_maps(given.present, q, view="all")

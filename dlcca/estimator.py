"""`LocalCCA`, the estimator that people use, in the manner of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from dlcca.errors import DataError, NotFittedYet, SettingsError, Untrusted, suggest
from dlcca.fitting import lazy
from dlcca.fitting.in_memory import Fit, fit_views
from dlcca.fitting.refit import Known, aligned, refit_alone, refit_together
from dlcca.model import Model, Recordings
from dlcca.numerics.coordinates import change, rotation
from dlcca.settings.fit import OPTIONS, Settings
from dlcca.storage import model as model_store
from dlcca.storage import run as run_store
from dlcca.trust.lags import lag_lines, paired, settled_lags, spread
from dlcca.trust.quality import UNDECIDABLE, Quality
from dlcca.views import Views, check_varies, checked, joined, named, refuse_split_by_views

if TYPE_CHECKING:
    from dlcca.plotting import Plots


@dataclass(eq=False, repr=False)
class LocalCCA(TransformerMixin, BaseEstimator):
    """Find the hidden variables that several sensors have in common.

    Local canonical correlation analysis (Yair & Talmon): around each landmark, CCA between the views shows in which
    directions they change together. Distances along these directions only make a kernel, whose diffusion
    coordinates parametrise what is common; what is private to a view is left out.

    What "auto" became, and why, is in ``settings_`` and in `summary`.

    Parameters
    ----------
    n_components : coordinates wanted
    neighborhoods : "time" for a window around each landmark, "knn" for the samples nearest in all views at once, or an
        (L, k) array of row numbers
    window : samples in a time window, or "auto"
    n_neighbors : neighbours in "knn", or "auto": 64, among so many random rows that they fill the ball in which the
        kernel uses the metric
    neighbor_rows : rows among which neighbours are searched: "all", a number of random rows, or "auto", which is "all"
        if ``n_neighbors`` is a number
    neighbor_index : how they are searched, "auto", "exact" or "pynndescent" (approximate, for very many landmarks)
    lags : rows that each view runs behind the first, (K,); "auto" to estimate them; None for views that are in step
    max_lag : the largest lag that "auto" tries, in rows; None for a tenth of them, at most 500
    landmarks : "auto", "all", a count, or an array of row numbers
    landmark_rule : how a count is chosen, "even" in time, at "random", by "kmeans++" or "farthest" point, or "auto"
    metric : "cca" for two views, "maxvar" for two or more, "tcca" (the paper's tensor method), "mahalanobis" for one
    ridge : regularisation of the local covariances, as a share of their largest eigenvalue
    rank : directions kept in a local metric, at most
    fusion : "view", distances in the first view; "average", of all views; "alternating", a diffusion step along each
    kernel : "dense" or "sparse"
    n_links : landmarks that a sparse row keeps
    bandwidth : the kernel's σ, a number or the rule "median", "quantile", "neighbor" or "slope"
    normalization : "balanced", or "paper" for Algorithm 2 as printed
    solver : "gram" or "lanczos"
    coordinates : "diffusion" for eigenfunctions, "potential" for principal components of powers of the transition
        probabilities, or "auto"
    diffusion_time : round trips along all views of "potential" coordinates, or "auto"
    random_state : seed for the choice of landmarks; the fit is the same for the same seed
    client : a Dask client; arrays in memory are fitted without one
    store : for Dask, Zarr and xarray arrays, an address that this machine and all workers read and write: a folder on a
        shared file system, or ``s3://bucket/prefix``. It is yours to remove; a fit of the same views and parameters is
        resumed from it. None for a temporary folder, which goes with the model
    missing_chunks : of Zarr arrays, "refuse" those that lack chunks, or "fill" these with the array's fill value

    Attributes
    ----------
    embedding_ : (n, n_components) coordinates of the samples
    eigenvalues_ : (n_components,) without the trivial 1
    landmarks_ : (L,) row numbers
    correlations_ : (L, r) local canonical correlations, falling
    bandwidth_ : σ; with alternating fusion one for each view
    n_common_ : dimensions common to all views, none of them a function of the others: the median over the significant
        landmarks, or 1 if none of them is significant by itself; 0 if nothing is significant, and for one view
    quality_ : measures of trust, ``p_common`` among them: the p-value of the test for something common to all views
    local_quality_ : the same of every landmark, arrays (L,) or (L, K) by name: n_common, p_value, strength, rank,
        null_edge, radius, condition
    common_strength_ : (n,) how much the views share around each sample beyond chance, from 0 to 1
    warnings_ : reasons not to trust the result, in sentences; empty if there are none
    notes_ : what to know about it all the same, such as coordinates that are functions of earlier ones
    lags_ : (K,) rows that each view runs behind the first; rows without a partner have NaN in ``embedding_``
    stability_ : what `dlcca.stability` found, if it was called; it is not saved with the model
    change_ : after `refit`, how much the coordinates of the old samples changed: r2, correlations of the axes, relative
        (root mean square), largest, and how many landmarks were kept and added
    settings_ : the settings used, without any "auto"

    Examples
    --------
    >>> from dlcca import LocalCCA, simulate
    >>> views, truth = simulate.torus(n=2000, random_state=0)
    >>> model = LocalCCA(neighborhoods="knn", random_state=0).fit(views)
    >>> model.embedding_.shape
    (2000, 2)
    """

    n_components: int = 2
    _: KW_ONLY
    neighborhoods: Any = "time"
    window: Any = 8
    n_neighbors: int | str = "auto"
    neighbor_rows: int | str = "auto"
    neighbor_index: str = "auto"
    lags: Any = None
    max_lag: int | None = None
    landmarks: Any = "auto"
    landmark_rule: str = "auto"
    metric: str = "auto"
    ridge: float = 0.03
    rank: int = 16
    fusion: str = "auto"
    kernel: str = "auto"
    n_links: int = 32
    bandwidth: Any = "auto"
    normalization: str = "balanced"
    solver: str = "auto"
    coordinates: str = "auto"
    diffusion_time: Any = "auto"
    random_state: Any = None
    client: Any = None
    store: Any = None
    missing_chunks: str = "refuse"

    @classmethod
    def from_settings(cls, settings: Settings, *, random_state: Any = None) -> LocalCCA:
        """The estimator with the options of these settings."""
        return cls(**settings.options(), random_state=random_state)

    def fit(self, views: Any, y: Any = None) -> LocalCCA:
        """Fit to the views: a list or dict of K arrays (n, d_v), rows in step; or two arrays, as ``fit(X, Y)``.

        Labels ``y`` of shape (n,), which a pipeline passes to every step, are not used. Beside a single array they are
        an error, unless ``metric="mahalanobis"`` says that one view is meant.

        Dask, Zarr and xarray arrays are never loaded whole: they are worked through block by block, on the workers of
        ``client`` if there is one, and ``embedding_`` is then a Dask array, over ``store`` if that is given.
        """
        settings, views = self._requested(), joined(views, y, alone=self.metric == "mahalanobis")
        made = views if hasattr(views, "clock") else None  # of recordings: see `dlcca.recordings.recorded_views`
        if lazy_views := _lazy(views):
            seed, clock = _seed(self.random_state), getattr(made, "store", "")
            self._take(lazy.fit(lazy_views, settings, seed, self.client, clock, self.store, self.missing_chunks))
        else:
            views = checked(views)
            check_varies(views)
            fitted = fit_views if self.lags is None else _fit_in_step
            self._take(fitted(views, settings, _any_seed(self.random_state), segments=getattr(made, "segments", None)))
        self.recordings_: Recordings | None = getattr(made, "recordings", None)
        for reason in self.warnings_:
            warnings.warn(reason, Untrusted, stacklevel=2)
        return self

    def _requested(self) -> Settings:
        """The parameters as settings, which checks them."""
        return Settings.from_options(**{name: getattr(self, name) for name in OPTIONS})

    def fit_transform(self, views: Any, y: Any = None, **_: Any) -> NDArray:
        """Fit, and return ``embedding_``."""
        return self.fit(views, y).embedding_

    def transform(self, views: Any, y: Any = None) -> NDArray:
        """Coordinates (n, n_components) of samples, new or known; a view that is missing may be None.

        Two views may be given as ``transform(X, Y)``. The rows of the training data get exactly the coordinates in
        ``embedding_``.
        """
        model, views = self._fitted(), joined(views, y)
        if lazy_views := self._in_blocks(views):
            return lazy.transform(model, lazy_views, self.missing_chunks)
        views, rows, n = in_step(self, views)
        with np.errstate(over="ignore", invalid="ignore"):
            E = model.coordinates(views.arrays).astype(views.present[0].dtype)
        if not np.isfinite(E).all():
            row = int(rows[np.flatnonzero(~np.isfinite(E).all(axis=1))[0]])
            raise DataError(
                f"row {row} has no finite coordinates: it lies so far from what the fit has seen that distances "
                "overflow. Is it in the units of the fit? distance(views) measures how far each row lies."
            )
        return spread(E, rows, n)

    def distance(self, views: Any) -> NDArray:
        """How far samples lie from what the fit has seen, (n,): beyond 1 is outside, as are 0.1 % of the fit's own.

        In each view it is the distance to the nearest landmark, in units of that within which the fit's samples lie; of
        several views the largest counts. A view that is missing may be None.
        """
        model = self._fitted()
        if lazy_views := self._in_blocks(views):
            return lazy.distance(model, lazy_views, self.missing_chunks)
        views, rows, n = in_step(self, views)
        return spread(model.distance(views.arrays), rows, n)

    def _in_blocks(self, views: Any) -> dict[str, Any] | None:
        """The views in the order of the model's if they are read block by block, which lags do not allow; else None."""
        return None if self.lags_.any() else _lazy(_in_order(views, self.model_.names))

    def outside(self, views: Any) -> NDArray:
        """Which samples are unlike all that the fit has seen, (n,); their coordinates are guesses."""
        return self.distance(views) > 1

    def refit(self, new: Any, old: Any = None, *, align: str = "rotation") -> LocalCCA:
        """A model of old and new samples together, with the axes of this one; this one is left as it is.

        The landmarks are kept, and new samples that lie outside what the fit has seen get landmarks of their own. The
        axes are turned onto the old ones, so that coordinates go on meaning the same; how much the old samples moved is
        in ``change_`` of the result.

        Parameters
        ----------
        new : views of the new samples, all of them
        old : views of the samples of the fit, in their order. Without them the landmarks are used instead, and keep
            their metrics; ``embedding_`` then has the coordinates of the landmarks and of the new samples
        align : "rotation", "sign" (axes are turned around only) or "none"
        """
        if align not in ("rotation", "sign", "none"):
            raise SettingsError(f"align={align!r} is not known; {suggest(align, ('rotation', 'sign', 'none'))}")
        model = self._fitted()
        if self.lags_.any():
            raise SettingsError("refit does not know lags yet; fit old and new rows together, with lags as they are.")
        known = self._known(new, old)
        new, old = _in_order(new, model.names), old if old is None else _in_order(old, model.names)
        if _lazy(new) or (old is not None and _lazy(old)):
            if old is None:
                raise SettingsError(
                    "refit of Dask, Zarr or xarray arrays needs the old views too; give them as the second argument, "
                    "or new views that are in memory."
                )
            where = _seed(self.random_state), self.client, self.store, self.missing_chunks
            return self._appended(*lazy.refit(known, named(new), named(old), *where), align)
        new = checked(new)
        model.check(new.arrays)
        if old is None:
            return self._appended(refit_alone(known, new), model.coordinates(model.points), align)
        old = checked(old)
        model.check(old.arrays)
        result = refit_together(known, old, new, _any_seed(self.random_state))
        return self._appended(result, model.coordinates(old.arrays), align)

    def _known(self, new: Any, old: Any) -> Known:
        landmarks, clock = np.asarray(self.landmarks_), getattr(old, "clock", None)
        if clock is not None and len(self.embedding_) == len(clock.time):  # a run counts the invalid rows too
            landmarks = np.searchsorted(clock.rows, landmarks)
        quality = Quality(self.n_common_, dict(self.quality_), list(self.warnings_), list(self.notes_))
        segments = [getattr(views, "segments", None) for views in (old, new)]
        return Known(self.model_, landmarks, self.correlations_, quality, self.settings_, *segments)

    def _appended(self, result: Fit, before: NDArray, align: str) -> LocalCCA:
        """The fit as an estimator with the axes of this one; its first rows had the coordinates ``before``."""
        after = np.asarray(result.embedding[: len(before)], dtype=np.float64)
        R = np.eye(after.shape[1]) if align == "none" else rotation(after, before, only_signs=align == "sign")
        made = LocalCCA(**self.get_params())
        made._take(result)
        made.model_ = aligned(result.model, self.model_, R)
        made.embedding_ = (result.embedding @ R).astype(result.embedding.dtype)
        kept, m = len(self.landmarks_), len(result.landmarks)
        made.settings_ = self.settings_.with_options(landmarks=m, neighborhoods=self.settings_.neighborhoods.kind)
        made.choices_ = [*self.choices_, f"landmarks = {m}: {kept} kept, as rows were appended"]
        made.recordings_ = self.recordings_
        moved = vars(change(after @ R, before))
        counts = {"landmarks_kept": kept, "landmarks_added": m - kept}
        made.change_ = {**moved, "correlations": moved["correlations"].tolist(), **counts, "rotation": R.tolist()}
        return made

    def score(self, views: Any, y: Any = None) -> float:
        """How well each view alone predicts the coordinates of these samples: R² of the worst view, 1 at best.

        It needs no truth: a coordinate that some view cannot predict is not common to all. Meant for a grid search
        over static problems ("knn"); views that only move together in time need not predict each other.
        """
        from sklearn.metrics import r2_score
        from sklearn.model_selection import cross_val_predict
        from sklearn.neighbors import KNeighborsRegressor

        arrays = checked(in_step(self, joined(views, y, alone=self.metric == "mahalanobis"))[0]).present
        E = self._fitted().coordinates(arrays)
        regressor = KNeighborsRegressor(n_neighbors=min(10, max(1, len(E) // 5)), weights="distance")
        return min(float(r2_score(E, cross_val_predict(regressor, X, E, cv=min(5, len(E))))) for X in arrays)

    @property
    def plot(self) -> Plots:
        """Figures on matplotlib: ``embedding()``, ``spectrum()``, ``strength()`` and ``eigenvalues()``."""
        from dlcca.plotting import Plots

        self._fitted()
        return Plots(self)

    def summary(self) -> str:
        """The result and every choice made on the way, in plain sentences."""
        self._fitted()
        return "\n".join(
            [
                *self._common_lines(),
                *lag_lines(self.quality_),
                f"Eigenvalues {' '.join(f'{value:.3f}' for value in self.eigenvalues_)}.",
                *([] if self.stability_ is None else [str(self.stability_)]),
                *(f"Warning: {reason}" for reason in self.warnings_),
                *(f"Note: {note}" for note in self.notes_),
                "Chosen:",
                *(f"  {line}" for line in self.choices_),
            ]
        )

    def _common_lines(self) -> list[str]:
        """The size of the fit, and whether anything is common, if it was tested."""
        size = f"{len(self.embedding_)} samples, {len(self.landmarks_)} landmarks"
        if len(self.model_.names) == 1:
            return [f"{size}, one view."]  # what that means is among the warnings or the notes
        decidable = self.quality_["null_edge"] < UNDECIDABLE
        p, share = self.quality_.get("p_common"), self.quality_.get("landmarks_common", 0.0)
        where = "" if p is None or not self.n_common_ else f", significant at {share:.0%} of the landmarks"
        if where and not share:
            where = ", significant over all landmarks together (at none of them alone)"
        lines = [
            f"{size}, {self.n_common_} common dimension{'s' * (self.n_common_ != 1)}{where}.",
            f"Top correlation {self.quality_['top_correlation']:.2f}; independent views would reach "
            f"{self.quality_['null_edge']:.2f} by chance"
            + ("." if decidable else ", so neighborhoods this small cannot by themselves prove that it is common."),
        ]
        if p is None:
            return lines
        others = {"shifted": "shifted in time", "speeds": "at other speeds"}[self.quality_["common_against"]]
        return [*lines, f"Test for a variable common to all views: p = {p:.3f} (surrogates: the same views {others})."]

    def save(self, path: str | Path) -> None:
        """Write the fitted model as a Zarr group with JSON attributes; `open_model` reads it.

        A model that is at ``path`` already is replaced; anything else there is refused.
        """
        model_store.save(path, *self._saved())

    def _saved(self) -> tuple[Model, dict[str, NDArray], dict[str, Any]]:
        """What `save` writes: the model, more arrays by name, and plain facts."""
        model, recorded = self._fitted(), self.recordings_
        arrays = {name: np.asarray(getattr(self, f"{name}_")) for name in _SAVED_ARRAYS}
        arrays |= {} if recorded is None else recorded.scaling
        arrays |= {f"local_quality/{name}": X for name, X in self.local_quality_.items()}
        arrays |= {} if self.common_strength_ is None else {"common_strength": self.common_strength_}
        facts = {
            **{name: getattr(self, f"{name}_") for name in _SAVED_FACTS},
            "params": self._requested().to_dict(),
            "settings": self.settings_.to_dict(),
            "notes": self.notes_,
            "lags": self.lags_.tolist(),
            "versions": run_store.versions(),
            "recordings": None if recorded is None else recorded.facts,
        }
        return model, arrays, facts

    def _as_run(self, time: NDArray, **facts: Any) -> run_store.Run:
        """The fit as a finished run; ``facts`` are what only the caller knows, as the fingerprint."""
        model, same = self._fitted(), ("eigenvalues", "landmarks", "correlations", *_SAVED_FACTS)
        facts |= {name: getattr(self, f"{name}_") for name in same}
        facts |= {"settings": self.settings_.to_dict(), "local": self.local_quality_}
        views = {name: points.shape[1] for name, points in zip(model.names, model.points, strict=True)}
        return run_store.Run(embedding=np.asarray(self.embedding_), time=time, views=views, **facts)

    def _take(self, result: Fit) -> None:
        """The results of a fit, under the names that users know."""
        self.stability_: Any = None  # of an earlier fit, if `dlcca.stability` was called
        self.model_ = result.model
        self.settings_ = result.choices.settings
        self.choices_ = result.choices.lines()
        lags = self.settings_.neighborhoods.lags
        self.lags_ = np.zeros(len(result.model.names), np.int64) if lags is None else np.asarray(lags, np.int64)
        self.embedding_ = result.embedding
        self.eigenvalues_ = result.eigenvalues[1:]
        self.landmarks_ = result.landmarks
        self.correlations_ = result.correlations
        self.bandwidth_ = result.bandwidth
        self.n_common_ = result.quality.n_common
        self.quality_ = result.quality.measures
        self.warnings_ = result.quality.reasons
        self.notes_ = result.quality.notes
        self.local_quality_ = result.quality.local
        self.common_strength_ = result.quality.strength

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise NotFittedYet("this LocalCCA is not fitted yet; call fit(views) first.")
        return self.model_

    def __sklearn_tags__(self) -> Any:
        refuse_split_by_views(self)
        return super().__sklearn_tags__()

    def __dask_tokenize__(self) -> Any:
        """Parameters and results; of a dataclass Dask would use the parameters alone, and mix up two fits."""
        from dask.base import normalize_token

        return normalize_token((type(self), vars(self)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the coordinates, for scikit-learn's pipelines."""
        return np.array([f"common{i}" for i in range(len(self._fitted().scale))], dtype=object)

    def set_params(self, **params: Any) -> LocalCCA:
        """Change parameters; an unknown one is an error that names the nearest."""
        known = self.get_params(deep=False)
        for name in params:
            if name not in known:
                raise SettingsError(f"{name!r} is not a parameter of LocalCCA; {suggest(name, known)}")
        return super().set_params(**params)


#: Attributes that are saved under their own names: arrays, and plain values.
_SAVED_ARRAYS = ("embedding", "eigenvalues", "landmarks", "correlations", "bandwidth")
_SAVED_FACTS = ("choices", "n_common", "quality", "warnings")


def fit(views: Any, settings: Settings | None = None, *, random_state: Any = None, **options: Any) -> LocalCCA:
    """A `LocalCCA` fitted to the views, from settings, options, or both (options win)."""
    if not isinstance(settings, Settings | None):
        raise SettingsError(
            f"settings is of type {type(settings).__name__}; Settings are needed. Views are one argument: fit([X, Y])."
        )
    settings = (settings or Settings()).with_options(**options)
    return LocalCCA.from_settings(settings, random_state=random_state).fit(views)


def _fit_in_step(views: Views, settings: Settings, seed: int, *, segments: NDArray | None) -> Fit:
    """The fit to views that lag behind each other; rows are numbered as in the first view."""
    found = settled_lags(views, settings)
    views, rows, segments = paired(views, found.rows, segments)
    result = fit_views(views, settings, seed, segments=segments)
    quality, choices = result.quality, result.choices
    measures, notes = {**quality.measures, "lags": found.measures}, [*quality.notes, *found.notes]
    strength = None if quality.strength is None else spread(quality.strength, rows, found.n)
    settings, reasons = choices.settings.with_options(lags=found.rows.tolist()), {**choices.reasons, "lags": found.why}
    return replace(
        result,
        embedding=spread(result.embedding, rows, found.n),
        landmarks=rows[result.landmarks],
        quality=replace(quality, measures=measures, notes=notes, strength=strength),
        choices=replace(choices, settings=settings, reasons=reasons),
    )


def refit(model: LocalCCA, new: Any, old: Any = None, *, align: str = "rotation") -> LocalCCA:
    """A model of old and new samples together, with the axes of a fitted one: see `LocalCCA.refit`."""
    return model.refit(new, old, align=align)


def transform(model: LocalCCA, views: Any) -> NDArray:
    """Coordinates of samples in a fitted model."""
    return model.transform(views)


def open_model(path: str | Path) -> LocalCCA:
    """The fitted model that `LocalCCA.save` wrote, or that of a finished run."""
    is_run = run_store.is_finished(path)
    model, arrays, facts = model_store.load(run_store.model_of(path) if is_run else path)
    if is_run:
        arrays["embedding"] = run_store.lazy_embedding(path)
    # Row numbers that were given are not in saved settings; they are arrays of their own.
    requested, settings = (
        Settings.from_dict({s: {k: v for k, v in said.items() if v != "given"} for s, said in facts[name].items()})
        for name in ("params", "settings")
    )
    estimator = LocalCCA.from_settings(requested)
    estimator.model_, estimator.settings_, estimator.stability_ = model, settings, None
    for name in (*_SAVED_ARRAYS, *_SAVED_FACTS):
        setattr(estimator, f"{name}_", arrays[name] if name in arrays else facts[name])
    estimator.bandwidth_ = float(arrays["bandwidth"]) if arrays["bandwidth"].ndim == 0 else arrays["bandwidth"]
    estimator.notes_ = facts.get("notes", facts["quality"].get("notes", []))
    estimator.lags_ = np.array(facts.get("lags", [0] * len(model.names)), np.int64)
    local, scaling = ({k: X for k, X in arrays.items() if k.startswith(s)} for s in ("local_quality/", "scaling/"))
    estimator.local_quality_ = {name.removeprefix("local_quality/"): X for name, X in local.items()}
    estimator.common_strength_ = arrays.get("common_strength")
    estimator.recordings_ = Recordings(facts["recordings"], scaling) if facts.get("recordings") else None
    return estimator


def _in_order(views: Any, names: tuple[str, ...]) -> Any:
    """A dict of views in the order of the model's, whatever its own; None for one that it lacks."""
    if not isinstance(views, Mapping) or hasattr(views, "data_vars"):
        return views
    for name in views:
        if name not in names:
            raise SettingsError(f"the model has no view {name!r}; {suggest(name, names)}")
    return {name: views.get(name) for name in names}


def in_step(model: LocalCCA, views: Any) -> tuple[Views, NDArray[np.int64], int]:
    """Views for a fitted model, checked and shifted by its lags; the rows of the first that they are, of how many."""
    ordered = _in_order(views, model._fitted().names)
    if model.lags_.any() and _lazy(ordered):
        raise SettingsError("this model has lags, and shifts arrays in memory only; give NumPy arrays.")
    found = checked(ordered, may_be_none=True)
    if not model.lags_.any():
        return found, np.arange(found.n), found.n
    shifted, rows, _ = paired(found, model.lags_, getattr(views, "segments", None))
    return shifted, rows, found.n


def _lazy(views: Any) -> dict[str, Any] | None:
    """The views by name if any of them is read in parts (Dask, Zarr, xarray over them), else None."""
    by_name = {} if isinstance(views, Views) else named(views)
    return by_name if any(map(lazy.is_lazy, by_name.values())) else None


def _seed(random_state: Any) -> int | None:
    """A seed that can be stored, from a seed, a Generator or scikit-learn's RandomState; None if any will do."""
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(np.iinfo(np.int32).max)
    return int(np.random.default_rng(random_state).integers(np.iinfo(np.int64).max))


def _any_seed(random_state: Any) -> int:
    """A seed; a new one if none was given."""
    return _seed(np.random.default_rng() if random_state is None else random_state) or 0

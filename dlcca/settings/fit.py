"""Settings: frozen, one class for each stage, checked when they are made, read from TOML.

`LocalCCA` and the command line speak flat option names (``n_links``); a file has sections (``[kernel] n_links``).
`OPTIONS` maps the one to the other.
"""

from __future__ import annotations

import math
import operator
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, suggest

NEIGHBORHOODS = ("time", "knn")
FUSIONS = ("auto", "view", "average", "alternating")
MISSING_CHUNKS = ("refuse", "fill")
BANDWIDTHS = ("auto", "median", "quantile", "neighbor", "slope")


#: The largest count that fits an integer of NumPy.
LARGEST = 2**63 - 1


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that fits a float; true and false are none."""
    if isinstance(value, bool | str | bytes):
        return False
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def is_count(value: Any, least: int) -> bool:
    """Whether a value is a whole number from ``least`` on that fits an integer of NumPy."""
    if isinstance(value, bool):
        return False
    try:
        return least <= operator.index(value) <= LARGEST
    except TypeError:
        return False


def count_needed(value: Any, least: int) -> str:
    """The end of a message about a value that is no count."""
    too_large = isinstance(value, int) and value > LARGEST
    return f"at most {LARGEST} is possible." if too_large else f"a whole number of at least {least} is needed."


def read_toml(path: Path, called: str | None = None) -> dict[str, Any]:
    """The content of a settings file; ``called`` is what messages call it, its path if not given."""
    called = str(path) if called is None else called
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{called} cannot be read: {error.strerror or error}.") from error
    except RecursionError as error:
        raise SettingsError(f"{called} is not TOML that can be read: it is nested too deeply.") from error
    except ValueError as error:  # also UnicodeDecodeError, TOMLDecodeError, and numbers of thousands of digits
        raise SettingsError(f"{called} is not TOML: {error}.") from error


def _is_rows(value: Any) -> bool:
    """Row numbers given by the user: an array, or a list of numbers."""
    return hasattr(value, "shape") or isinstance(value, list | tuple)


def _check_rows(option: str, value: Any, *axes: str) -> None:
    """Row numbers are whole numbers in an array with these axes. A list may hold anything, and lists of any length."""
    import numpy as np

    needed = f"row numbers ({', '.join(axes)}{',' * (len(axes) == 1)}) are needed"
    try:
        found = value if hasattr(value, "shape") else np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise SettingsError(f"{option}={value!r}; {needed}.") from error
    dtype = getattr(found, "dtype", np.dtype(np.int64))
    if len(found.shape) != len(axes) or np.dtype(dtype).kind not in "iu":
        raise SettingsError(f"{option} is an array {found.shape} of {dtype}; {needed}.")


def _check_name(option: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise SettingsError(f"{option}={value!r} is not known; {suggest(value, known)}")


def check_missing_chunks(value: Any) -> None:
    """An error if it is not known what to do about missing chunks of an input."""
    _check_name("missing_chunks", value, MISSING_CHUNKS)


def _check_count(option: str, value: Any, least: int) -> None:
    if not is_count(value, least):
        raise SettingsError(f"{option}={value!r}; {count_needed(value, least)}")


def _check_number(option: str, value: Any, *, positive: bool) -> None:
    if not is_number(value) or float(value) < 0:
        raise SettingsError(f"{option}={value!r}; a number {'above' if positive else 'of at least'} 0 is needed.")
    if positive and float(value) == 0:
        raise SettingsError(f"{option}=0; a number above 0 is needed.")


@dataclass(frozen=True, eq=False)
class LandmarkSettings:
    """The samples at which local metrics are fitted."""

    count: Any = "auto"
    """"auto", "all", how many, or row numbers."""
    rule: str = "auto"
    """How that many are chosen: "even" in time, at "random", by "kmeans++" or by "farthest" point."""

    def __post_init__(self) -> None:
        if _is_rows(self.count):
            _check_rows("landmarks", self.count, "L")
        else:
            if isinstance(self.count, str):
                _check_name("landmarks", self.count, ("auto", "all"))
            else:
                _check_count("landmarks", self.count, 2)
        _check_name("landmark_rule", self.rule, ("auto", "even", "random", "kmeans++", "farthest"))


@dataclass(frozen=True, eq=False)
class NeighborhoodSettings:
    """The samples around a landmark from which its metric is fitted."""

    kind: Any = "time"
    """"time" (a window), "knn" (nearest in all views at once), or an (L, k) array of row numbers."""
    window: Any = 8
    """Samples in a window of time, or "auto"."""
    n_neighbors: int = 64
    """Neighbours in "knn", the landmark itself included."""
    neighbor_index: str = "auto"
    """How neighbours are searched: "exact", "pynndescent", or "auto"."""
    lags: Any = None
    """Rows that each view runs behind the first, "auto" to estimate them, or None for views that are in step."""
    max_lag: int | None = None
    """The largest lag that "auto" looks at, in rows; None for a tenth of them, at most 500."""

    def __post_init__(self) -> None:
        if _is_rows(self.kind):
            _check_rows("neighborhoods", self.kind, "L", "k")
        else:
            _check_name("neighborhoods", self.kind, NEIGHBORHOODS)
        if not isinstance(self.window, str) or self.window != "auto":
            _check_count("window", self.window, 2)
        _check_count("n_neighbors", self.n_neighbors, 2)
        _check_name("neighbor_index", self.neighbor_index, ("auto", "exact", "pynndescent"))
        if isinstance(self.lags, str):
            _check_name("lags", self.lags, ("auto",))
        elif _is_rows(self.lags):
            _check_rows("lags", self.lags, "views")
        elif self.lags is not None:
            raise SettingsError(f"lags={self.lags!r}; a whole number of rows for each view is needed, 'auto', or None.")
        if self.max_lag is not None:
            _check_count("max_lag", self.max_lag, 1)


@dataclass(frozen=True, eq=False)
class MetricSettings:
    """The local metric."""

    kind: str = "auto"
    """"cca" (two views), "maxvar" (two or more), "tcca" (two or more, rank one), "mahalanobis" (one)."""
    ridge: float = 0.03
    """Added to each local covariance, as a share of its largest eigenvalue."""
    rank: int = 16
    """Directions kept at a landmark, those of the largest correlations; the rest weighs next to nothing."""

    def __post_init__(self) -> None:
        from dlcca.numerics.metrics import METRICS  # needs NumPy, which `dlcca --help` does without

        _check_name("metric", self.kind, ("auto", *METRICS))
        _check_number("ridge", self.ridge, positive=False)
        _check_count("rank", self.rank, 1)


@dataclass(frozen=True, eq=False)
class KernelSettings:
    """The kernel, and how the views' distances come together in it."""

    fusion: str = "auto"
    """"view" (the first view's distances), "average" (of all views), "alternating" (a step along each view)."""
    kind: str = "auto"
    """"dense" or "sparse" rows."""
    n_links: int = 32
    """Landmarks that a sparse row keeps."""
    bandwidth: Any = "auto"
    """σ: a number, or the rule "median", "quantile" (of 20 %), "neighbor" or "slope"."""
    normalization: str = "balanced"
    """"balanced" (independent of how densely the landmarks lie) or "paper" (Algorithm 2 as printed)."""

    def __post_init__(self) -> None:
        _check_name("fusion", self.fusion, FUSIONS)
        _check_name("kernel", self.kind, ("auto", "dense", "sparse"))
        _check_count("n_links", self.n_links, 1)
        if isinstance(self.bandwidth, str):
            _check_name("bandwidth", self.bandwidth, BANDWIDTHS)
        else:
            _check_number("bandwidth", self.bandwidth, positive=True)
        _check_name("normalization", self.normalization, ("balanced", "paper"))


@dataclass(frozen=True, eq=False)
class SpectrumSettings:
    """The diffusion eigenproblem."""

    n_components: int = 2
    """Coordinates wanted."""
    solver: str = "auto"
    """"gram" (exact, L x L) or "lanczos" (matrix-free)."""

    def __post_init__(self) -> None:
        _check_count("n_components", self.n_components, 1)
        _check_name("solver", self.solver, ("auto", "gram", "lanczos"))


@dataclass(frozen=True, eq=False)
class Settings:
    """All settings of a fit, stage by stage."""

    landmarks: LandmarkSettings = field(default_factory=LandmarkSettings)
    neighborhoods: NeighborhoodSettings = field(default_factory=NeighborhoodSettings)
    metric: MetricSettings = field(default_factory=MetricSettings)
    kernel: KernelSettings = field(default_factory=KernelSettings)
    spectrum: SpectrumSettings = field(default_factory=SpectrumSettings)

    @classmethod
    def from_options(cls, **options: Any) -> Settings:
        """Settings from the flat names that `LocalCCA` takes; an unknown one is an error that names the nearest."""
        return cls().with_options(**options)

    def with_options(self, **options: Any) -> Settings:
        """These settings with some options changed."""
        changed: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            if name not in OPTIONS:
                raise SettingsError(f"{name!r} is not an option; {suggest(name, OPTIONS)}")
            section, key = OPTIONS[name]
            changed.setdefault(section, {})[key] = value
        return replace(self, **{s: replace(getattr(self, s), **values) for s, values in changed.items()})

    @classmethod
    def from_toml(cls, path: str | Path) -> Settings:
        """Settings from the sections of a TOML file that are named like the stages."""
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, RecursionError, ValueError) as error:
            raise SettingsError(f"{path} cannot be read as TOML: {error}") from error
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Settings:
        """Settings from nested sections, as in a file; what is not said keeps its default."""
        stages = {stage.name: stage.default_factory for stage in fields(cls)}
        made = {}
        for section, values in content.items():
            if section not in stages:
                raise SettingsError(f"[{section}] is not a section; {suggest(section, stages)}")
            if not isinstance(values, Mapping):
                raise SettingsError(f"{section} = {values!r}; a section [{section}] is needed.")
            stage = stages[section]()  # type: ignore[operator]
            known = [key.name for key in fields(stage)]
            for key in values:
                if key not in known:
                    raise SettingsError(f"[{section}] {key} is not a setting; {suggest(key, known)}")
            made[section] = replace(stage, **values)
        return cls(**made)

    def options(self) -> dict[str, Any]:
        """The flat options, each with its value."""
        return {name: getattr(getattr(self, section), key) for name, (section, key) in OPTIONS.items()}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values, for JSON; row numbers given by the user are only told of ("given")."""
        sections = {stage.name: getattr(self, stage.name) for stage in fields(self)}
        plain = {name: {f.name: getattr(stage, f.name) for f in fields(stage)} for name, stage in sections.items()}
        for values in plain.values():
            for key, value in values.items():
                if _is_rows(value):
                    values[key] = "given"
                elif hasattr(value, "item"):
                    values[key] = value.item()
        return plain


#: Flat option name -> (section, key).
OPTIONS = {
    "n_components": ("spectrum", "n_components"),
    "neighborhoods": ("neighborhoods", "kind"),
    "window": ("neighborhoods", "window"),
    "n_neighbors": ("neighborhoods", "n_neighbors"),
    "neighbor_index": ("neighborhoods", "neighbor_index"),
    "lags": ("neighborhoods", "lags"),
    "max_lag": ("neighborhoods", "max_lag"),
    "landmarks": ("landmarks", "count"),
    "landmark_rule": ("landmarks", "rule"),
    "metric": ("metric", "kind"),
    "ridge": ("metric", "ridge"),
    "rank": ("metric", "rank"),
    "fusion": ("kernel", "fusion"),
    "kernel": ("kernel", "kind"),
    "n_links": ("kernel", "n_links"),
    "bandwidth": ("kernel", "bandwidth"),
    "normalization": ("kernel", "normalization"),
    "solver": ("spectrum", "solver"),
}

"""Settings of a fit: frozen, one class for each stage, checked when they are made.

`LocalCCA` and the command line use flat option names (``n_links``); a file has sections (``[kernel] n_links``).
`OPTIONS` maps the one to the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from dlcca.errors import SettingsError, suggest
from dlcca.settings.schema import (
    NOT_NEGATIVE,
    POSITIVE,
    Rule,
    Section,
    check_sections,
    choice,
    count,
    either,
    from_table,
    is_array,
    read_toml,
    rows,
    setting,
)

AUTO = choice("auto")
LAGS_NEEDED = "a whole number of rows for each view is needed, 'auto', or None."


def _registered(option: str) -> Rule:
    """A name in a registry of `numerics`, which needs SciPy: it is imported when a value has to be checked."""
    from dlcca.numerics import coordinates, fusion, metrics

    known: dict[str, Iterable[str]]
    known = {"metric": metrics.METRICS, "fusion": fusion.FUSIONS, "coordinates": coordinates.COORDINATES}
    return choice(*dict.fromkeys(["auto", *known[option]]))


class Stage(Section):
    """Settings of one stage; messages call them by the names of the options, as Python does."""

    equals = "="


@dataclass(frozen=True, eq=False)
class LandmarkSettings(Stage):
    """The samples at which local metrics are fitted."""

    count: Any = setting(either(choice("auto", "all"), count(2), rows("L")), "auto", option="landmarks")
    """"auto", "all", how many, or row numbers."""
    rule: str = setting(choice("auto", "even", "random", "kmeans++", "farthest"), "auto", option="landmark_rule")
    """How that many are chosen: "even" in time, at "random", by "kmeans++" or by "farthest" point."""


@dataclass(frozen=True, eq=False)
class NeighborhoodSettings(Stage):
    """The samples around a landmark from which its metric is fitted."""

    kind: Any = setting(either(choice("time", "knn"), rows("L", "k")), "time", option="neighborhoods")
    """"time" (a window), "knn" (nearest in all views at once), or an (L, k) array of row numbers."""
    window: Any = setting(either(AUTO, count(2)), 8)
    """Samples in a window of time, or "auto"."""
    n_neighbors: Any = setting(either(AUTO, count(2)), "auto")
    """Neighbours in "knn", or "auto"."""
    neighbor_rows: Any = setting(either(choice("auto", "all"), count(2)), "auto")
    """Rows among which they are searched: "all", or so many at random. "auto" is "all" if n_neighbors is a number."""
    neighbor_index: str = setting(choice("auto", "exact", "pynndescent"), "auto")
    """How neighbours are searched: "exact", "pynndescent", or "auto"."""
    lags: Any = setting(either(AUTO, rows("views", needed=LAGS_NEEDED)))
    """Rows that each view runs behind the first, "auto" to estimate them, or None for views that are in step."""
    max_lag: int | None = setting(count(1))
    """The largest lag that "auto" looks at, in rows; None for a tenth of them, at most 500."""


@dataclass(frozen=True, eq=False)
class MetricSettings(Stage):
    """The local metric."""

    kind: str = setting(partial(_registered, "metric"), "auto", option="metric")
    """"cca" (two views), "maxvar" (two or more), "tcca" (two or more, rank one), "mahalanobis" (one)."""
    ridge: float = setting(NOT_NEGATIVE, 0.03)
    """Added to each local covariance, as a share of its largest eigenvalue."""
    rank: int = setting(count(1), 16)
    """Directions kept at a landmark, those of the largest correlations; the rest weighs next to nothing."""


@dataclass(frozen=True, eq=False)
class KernelSettings(Stage):
    """The kernel, and how the views' distances come together in it."""

    fusion: str = setting(partial(_registered, "fusion"), "auto")
    """"view" (the first view's distances), "average" (of all views), "alternating" (a step along each view)."""
    kind: str = setting(choice("auto", "dense", "sparse"), "auto", option="kernel")
    """"dense" or "sparse" rows."""
    n_links: int = setting(count(1), 32)
    """Landmarks that a sparse row keeps."""
    bandwidth: Any = setting(either(choice("auto", "median", "quantile", "neighbor", "slope"), POSITIVE), "auto")
    """σ: a number, or the rule "median", "quantile" (of 20 %), "neighbor" or "slope"."""
    normalization: str = setting(choice("balanced", "paper"), "balanced")
    """"balanced" (independent of how densely the landmarks lie) or "paper" (Algorithm 2 as printed)."""


@dataclass(frozen=True, eq=False)
class SpectrumSettings(Stage):
    """The diffusion eigenproblem."""

    n_components: int = setting(count(1), 2)
    """Coordinates wanted."""
    solver: str = setting(choice("auto", "gram", "lanczos"), "auto")
    """"gram" (exact, L x L) or "lanczos" (matrix-free)."""
    coordinates: str = setting(partial(_registered, "coordinates"), "auto")
    """"diffusion" (eigenfunctions) or "potential" (principal components of powers of transition probabilities)."""
    diffusion_time: Any = setting(either(AUTO, count(1)), "auto")
    """Round trips along all views of "potential" coordinates, or "auto"."""


@dataclass(frozen=True, eq=False)
class Settings:
    """All settings of a fit, stage by stage."""

    landmarks: LandmarkSettings = field(default_factory=LandmarkSettings)
    neighborhoods: NeighborhoodSettings = field(default_factory=NeighborhoodSettings)
    metric: MetricSettings = field(default_factory=MetricSettings)
    kernel: KernelSettings = field(default_factory=KernelSettings)
    spectrum: SpectrumSettings = field(default_factory=SpectrumSettings)

    @classmethod
    def from_options(cls, **options: Any) -> Self:
        """Settings from the flat names that `LocalCCA` takes; an unknown one is an error that names the nearest."""
        return cls().with_options(**options)

    def with_options(self, **options: Any) -> Self:
        """These settings with some options changed."""
        changed: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            if name not in OPTIONS:
                raise SettingsError(f"{name!r} is not an option; {suggest(name, OPTIONS)}")
            section, key = OPTIONS[name]
            changed.setdefault(section, {})[key] = value
        return replace(self, **{s: replace(getattr(self, s), **values) for s, values in changed.items()})

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Settings from the sections of a TOML file that are named like the stages."""
        return cls.from_dict(read_toml(Path(path)))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Settings from nested sections, as in a file; what is left out has its default."""
        check_sections(content, STAGES)
        made: dict[str, Any] = {name: from_table(STAGES[name], table, f"[{name}]") for name, table in content.items()}
        return cls(**made)

    def options(self) -> dict[str, Any]:
        """The flat options, each with its value."""
        return {name: getattr(getattr(self, section), key) for name, (section, key) in OPTIONS.items()}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values, for JSON; row numbers given by the user become "given"."""

        def plain(value: Any) -> Any:
            return "given" if is_array(value) else value.item() if hasattr(value, "item") else value

        return {name: {key: plain(v) for key, v in vars(getattr(self, name)).items()} for name in STAGES}


#: Section -> its class.
STAGES: dict[str, type[Stage]] = {stage.name: stage.default_factory for stage in fields(Settings)}  # type: ignore[misc]
#: Flat option name -> (section, key).
OPTIONS = {
    key.metadata["option"] or key.name: (name, key.name)
    for name, stage in STAGES.items()
    for key in fields(stage)  # type: ignore[arg-type]
}

"""How a view is made of recordings: which files and channels, which features of which windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dlcca.errors import SettingsError, suggest
from dlcca.settings.fit import check_missing_chunks, count_needed, is_count, is_number

#: Kind of features -> the parameters that it takes.
KINDS: dict[str, tuple[str, ...]] = {
    "raw": (),
    "delay": ("delay_s", "n_delays"),
    "bandpower": ("bands",),
    "spectrogram": ("segment_s", "most_hz"),
    "covariance": ("ridge",),
}
SCALINGS = ("robust", "standard", "none")
RESAMPLINGS = ("exact", "nearest", "linear")


@dataclass(frozen=True)
class FeatureRecipe:
    """What is computed of each window."""

    kind: str = "raw"
    """"raw", "delay", "bandpower", "spectrogram" or "covariance"."""
    delay_s: float | None = None
    """Of "delay": seconds between samples; by default one sample."""
    n_delays: int | None = None
    """Of "delay": samples taken, counted back from the end of the window; by default all that fit."""
    bands: Mapping[str, tuple[float, float]] | None = None
    """Of "bandpower": name = [from, to] in Hz; by default delta, theta, alpha, beta and gamma up to half the rate."""
    segment_s: float | None = None
    """Of "spectrogram": seconds of a segment; by default a quarter of the window."""
    most_hz: float | None = None
    """Of "spectrogram": the highest frequency kept; by default half the rate."""
    ridge: float = 1e-3
    """Of "covariance": added to the diagonal, as a share of the mean variance."""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise SettingsError(f"features = {self.kind!r} is not known; {suggest(self.kind, KINDS)}")
        for name in ("delay_s", "segment_s", "most_hz"):
            if getattr(self, name) is not None:
                _positive(f"features {name}", getattr(self, name))
        _positive("features ridge", self.ridge)
        if self.n_delays is not None:
            _count("features n_delays", self.n_delays, 1)
        if not isinstance(self.bands, Mapping | None):
            raise SettingsError(f"features bands = {self.bands!r}; a table of name = [from, to] in Hz is needed.")
        for name, edges in (self.bands or {}).items():
            if not isinstance(edges, list | tuple) or len(edges) != 2 or not all(is_number(edge) for edge in edges):
                raise SettingsError(f"features bands {name} = {edges!r}; [from, to] in Hz is needed.")

    @classmethod
    def of(cls, said: Any) -> FeatureRecipe:
        """From the name of a kind, or a table ``{ kind = ..., parameters }``."""
        if isinstance(said, FeatureRecipe):
            return said
        if isinstance(said, str):
            return cls(kind=said)
        if not isinstance(said, Mapping):
            raise SettingsError(f"features = {said!r}; a name or a table with a kind is needed ({', '.join(KINDS)}).")
        kind = said.get("kind", "raw")
        if not isinstance(kind, str) or kind not in KINDS:
            raise SettingsError(f"features kind = {kind!r} is not known; {suggest(kind, KINDS)}")
        known = ("kind", *KINDS[kind])
        for key in said:
            if key not in known:
                raise SettingsError(f"features {key} is no parameter of {kind!r}; {suggest(key, known)}")
        return cls(**said)

    def to_dict(self) -> dict[str, Any]:
        """The kind with its parameters, as in a file."""
        said = {"kind": self.kind, **{name: getattr(self, name) for name in KINDS[self.kind]}}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True)
class ViewRecipe:
    """One view, from recordings."""

    source: tuple[str, ...] = ()
    """Files, or patterns such as "night*.edf"."""
    channels: tuple[str, ...] = ("*",)
    """Channels by name, pattern ("EEG *") or type ("type:ecg"), in the order in which they are wanted."""
    features: FeatureRecipe = field(default_factory=FeatureRecipe)
    """What is computed of each window."""
    window_s: float | None = None
    """Seconds of a window; all views of a run share it. By default about a second."""
    step_s: float | None = None
    """Seconds from the start of a window to that of the next; all views share it. By default a window."""
    scaling: str = "robust"
    """Of each channel: "robust" (median and quartiles), "standard" (mean and standard deviation) or "none"."""
    pca_components: int = 0
    """Principal components of all features that are kept in their place; 0 keeps the features."""
    resample: str = "exact"
    """A rate of which window and step are no whole number of samples: "exact" refuses it, "nearest" takes the nearest
    sample, "linear" the line between two samples (which also follows drift and start times between samples)."""
    flat_s: float = 1.0
    """A channel that keeps one value for so many seconds is off, and its windows are invalid; 0 to take no notice."""
    saturated_s: float = 0.1
    """A channel that keeps its largest or smallest value for so many seconds is saturated; 0 to take no notice."""
    overlap_s: float | None = None
    """Files whose start times say that one begins less than this before the other ends follow each other at once; what
    overlaps more is refused. By default 1 if both starts are whole seconds, as many formats round them, else 0."""
    reader: Mapping[str, Any] = field(default_factory=dict)
    """What the reader of the format is told beside the file, such as the rate of an array that has none."""

    missing_chunks: str = "refuse"
    """Of a Zarr array: "refuse" one that lacks chunks, or "fill" these with the array's fill value."""

    def __post_init__(self) -> None:
        check_missing_chunks(self.missing_chunks)
        for name in ("window_s", "step_s"):
            if getattr(self, name) is not None:
                _positive(name, getattr(self, name))
        for name in ("flat_s", "saturated_s", *(("overlap_s",) if self.overlap_s is not None else ())):
            if not is_number(getattr(self, name)) or getattr(self, name) < 0:
                raise SettingsError(f"{name} = {getattr(self, name)!r}; a number of at least 0 is needed.")
        _known("scaling", self.scaling, SCALINGS)
        _known("resample", self.resample, RESAMPLINGS)
        _count("pca_components", self.pca_components, 0)

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> ViewRecipe:
        """From the keys of a section; an unknown one is an error that names the nearest. ``where`` is for errors."""
        known = [key.name for key in fields(cls)]
        for key in values:
            if key not in known:
                raise SettingsError(f"{where} {key} is not a setting; {suggest(key, known)}")
        made = dict(values)
        for name in ("source", "channels"):
            if name in made:
                made[name] = _texts(made[name], f"{where} {name}")
        if not isinstance(made.get("reader", {}), Mapping):
            raise SettingsError(f"{where} reader = {made['reader']!r}; a table of the reader's options is needed.")
        if "path" in made.get("reader", {}):
            raise SettingsError(f"{where} reader path is not an option of a reader; the files are named by source.")
        try:
            if "features" in made:
                made["features"] = FeatureRecipe.of(made["features"])
            return cls(**made)
        except SettingsError as error:
            raise SettingsError(f"{where} {error}") from error

    @property
    def reader_options(self) -> dict[str, Any]:
        """All that the reader is told beside the file."""
        asked = {} if self.missing_chunks == "refuse" else {"missing_chunks": self.missing_chunks}
        return {**self.reader, **asked}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and for fingerprints."""
        values = {key.name: getattr(self, key.name) for key in fields(self)}
        if self.missing_chunks == "refuse":  # fingerprints stay as they were before there was this setting
            del values["missing_chunks"]
        return values | {"features": self.features.to_dict(), "reader": dict(self.reader)}


def _texts(said: Any, where: str) -> tuple[str, ...]:
    texts = [said] if isinstance(said, str) else said
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise SettingsError(f"{where} = {said!r}; a text or a list of texts is needed.")
    return tuple(texts)


def _positive(name: str, value: Any) -> None:
    if not is_number(value) or value <= 0:
        raise SettingsError(f"{name} = {value!r}; a number above 0 is needed.")


def _count(name: str, value: Any, least: int) -> None:
    if not is_count(value, least):
        raise SettingsError(f"{name} = {value!r}; {count_needed(value, least)}")


def _known(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SettingsError(f"{name} = {value!r} is not known; {suggest(value, known)}")

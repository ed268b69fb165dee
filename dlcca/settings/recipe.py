"""How a view is made of recordings: which files and channels, which features of which windows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dlcca.errors import SettingsError
from dlcca.settings.schema import (
    NOT_NEGATIVE,
    POSITIVE,
    Json,
    Rule,
    Section,
    choice,
    count,
    from_table,
    is_number,
    json_schema,
    setting,
    table,
    texts,
)

#: Kind of features -> the parameters that it takes.
KINDS: dict[str, tuple[str, ...]] = {
    "raw": (),
    "delay": ("delay_s", "n_delays"),
    "bandpower": ("bands",),
    "spectrogram": ("segment_s", "most_hz"),
    "covariance": ("ridge",),
}
KIND = choice(*KINDS)
#: What to do about chunks that a Zarr array lacks.
MISSING_CHUNKS = choice("refuse", "fill")
BAND_NEEDED = "[from, to] in Hz is needed."
BAND = Rule(
    lambda edges: isinstance(edges, list | tuple) and len(edges) == 2 and all(map(is_number, edges)),
    BAND_NEEDED,
    {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
)


@dataclass(frozen=True)
class FeatureRecipe(Section):
    """What is computed of each window."""

    kind: str = setting(KIND, "raw")
    """"raw", "delay", "bandpower", "spectrogram" or "covariance"."""
    delay_s: float | None = setting(POSITIVE)
    """Of "delay": seconds between samples; by default one sample."""
    n_delays: int | None = setting(count(1))
    """Of "delay": samples taken, counted back from the end of the window; by default all that fit."""
    bands: Mapping[str, tuple[float, float]] | None = setting(table(f"a table of name = {BAND_NEEDED}", BAND))
    """Of "bandpower": name = [from, to] in Hz; by default delta, theta, alpha, beta and gamma up to half the rate."""
    segment_s: float | None = setting(POSITIVE)
    """Of "spectrogram": seconds of a segment; by default a quarter of the window."""
    most_hz: float | None = setting(POSITIVE)
    """Of "spectrogram": the highest frequency kept; by default half the rate."""
    ridge: float = setting(POSITIVE, 1e-3)
    """Of "covariance": added to the diagonal, as a share of the mean variance."""

    @classmethod
    def of(cls, said: Any) -> Self:
        """From the name of a kind, or a table ``{ kind = ..., parameters }``."""
        if isinstance(said, cls):
            return said
        values = {"kind": said} if isinstance(said, str) else said
        if not isinstance(values, Mapping):
            raise SettingsError(f"features = {said!r}; a name or a table with a kind is needed ({', '.join(KINDS)}).")
        kind = values.get("kind", "raw")
        KIND.check("features kind", kind, " = ")
        return from_table(cls, values, "features", called=f"a parameter of {kind!r}", known=("kind", *KINDS[kind]))

    def to_dict(self) -> dict[str, Any]:
        """The kind with its parameters, as in a file."""
        return {name: said for name in ("kind", *KINDS[self.kind]) if (said := getattr(self, name)) is not None}


def _features_schema() -> dict[str, Any]:
    """A name, or a table whose keys depend on its kind."""
    tables = [json_schema(FeatureRecipe, ("kind", *keys), kind={"const": kind}) for kind, keys in KINDS.items()]
    for made in tables[1:]:  # the first kind is the default one
        made["required"] = ["kind"]
    return {"anyOf": [KIND.schema, *tables]}


FEATURES = Rule(
    lambda value: isinstance(value, FeatureRecipe),
    "a name or a table is needed.",
    _features_schema,
    FeatureRecipe.of,
)


@dataclass(frozen=True)
class ViewRecipe(Section):
    """One view, from recordings."""

    source: tuple[str, ...] = setting(texts(may_be_empty=False), ())
    """Files, or patterns such as "night*.edf"."""
    channels: tuple[str, ...] = setting(texts(), ("*",))
    """Channels by name, pattern ("EEG *") or type ("type:ecg"), in the order in which they are wanted."""
    features: FeatureRecipe = setting(FEATURES, FeatureRecipe)
    """What is computed of each window."""
    window_s: float | None = setting(POSITIVE)
    """Seconds of a window; all views of a run share it. By default about a second."""
    step_s: float | None = setting(POSITIVE)
    """Seconds from the start of a window to that of the next; all views share it. By default a window."""
    scaling: str = setting(choice("robust", "standard", "none"), "robust")
    """Of each channel: "robust" (median and quartiles), "standard" (mean and standard deviation) or "none"."""
    pca_components: int = setting(count(0), 0)
    """Principal components of all features that are kept in their place; 0 keeps the features."""
    resample: str = setting(choice("exact", "nearest", "linear"), "exact")
    """A rate of which window and step are no whole number of samples: "exact" refuses it, "nearest" takes the nearest
    sample, "linear" the line between two samples (which also follows drift and start times between samples)."""
    flat_s: float = setting(NOT_NEGATIVE, 1.0)
    """A channel that keeps one value for so many seconds is off, and its windows are invalid; 0 to take no notice."""
    saturated_s: float = setting(NOT_NEGATIVE, 0.1)
    """A channel that keeps its largest or smallest value for so many seconds is saturated; 0 to take no notice."""
    overlap_s: float | None = setting(NOT_NEGATIVE)
    """Files whose start times say that one begins less than this before the other ends follow each other at once; what
    overlaps more is refused. By default 1 if both starts are whole seconds, as many formats round them, else 0."""
    reader: Mapping[str, Any] = setting(table("a table of the reader's options is needed."), dict)
    """Options for the reader of the format, such as the rate of an array that has none."""
    missing_chunks: str = setting(MISSING_CHUNKS, "refuse")
    """Of a Zarr array: "refuse" one that lacks chunks, or "fill" these with the array's fill value."""

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> Self:
        """From the keys of a section; ``where`` begins messages."""
        return from_table(cls, values, where)

    def check(self) -> None:
        if "path" in self.reader:
            raise SettingsError("reader path is not an option of a reader; the files are named by source.")

    @property
    def reader_options(self) -> dict[str, Any]:
        """All options of the reader beside the file."""
        return {**self.reader, **({"missing_chunks": "fill"} if self.missing_chunks == "fill" else {})}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and for fingerprints."""
        return vars(self) | {"features": self.features.to_dict(), "reader": dict(self.reader)}


def read_views(views: Any) -> dict[str, ViewRecipe]:
    """The sections [views.NAME] of a file."""
    if not views or not isinstance(views, Mapping):
        raise SettingsError("no views are named; add a section [views.NAME] for each sensor.")
    for name in views:
        if "/" in name or name.startswith("."):
            raise SettingsError(f"[views.{name}]: a name that begins with a point or holds a / is no name of a view.")
    return {name: ViewRecipe.of(values, f"[views.{name}]") for name, values in views.items()}


def views_schema(required: tuple[str, ...] = ()) -> Json:
    """The JSON Schema of these sections."""
    names = {"pattern": "^([^./][^/]*)?$"}
    view = {**json_schema(ViewRecipe), "required": list(required)}
    return {"type": "object", "minProperties": 1, "propertyNames": names, "additionalProperties": view}

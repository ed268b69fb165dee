"""Settings in ``pipeline.toml``: sources, views, outputs, and when a model is refitted; example files."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass
from datetime import date
from pathlib import Path
from typing import Any, get_type_hints

from dlcca.errors import SettingsError
from dlcca.settings import fit, runfile
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import ViewRecipe, read_views
from dlcca.settings.runfile import ClusterSettings
from dlcca.settings.schema import (
    FLAG,
    NOT_NEGATIVE,
    SHARE,
    Json,
    Section,
    check_sections,
    choice,
    count,
    file_schema,
    from_table,
    json_schema,
    number,
    read_toml,
    setting,
    table_schema,
    text,
    texts,
)
from dlcca.storage.files import installed_folder
from dlcca.storage.manifest import digest_of_facts

TEXT = text(may_be_empty=True)
#: Object storage has no renames.
FOLDER = text("a folder on a file system is needed.", may_be_empty=True, without="://")


@dataclass(frozen=True)
class PipelineSection(Section):
    """The pipeline as a whole."""

    name: str = setting(TEXT, "pipeline")
    """Its name in messages."""
    state: str = setting(FOLDER, "state")
    """Folder of the catalog, of the views and results of each recording, and of temporary files."""
    busy: str = setting(choice("leave", "fail"), "leave")
    """What a second run does while one is in progress: "leave" (exit code 0) or "fail" (exit code 4)."""


@dataclass(frozen=True)
class SourceSection(Section):
    """Where recordings come from, and when one is complete."""

    files: tuple[str, ...] = setting(texts(1, may_be_empty=False), MISSING)
    """Patterns such as "incoming/**/*.edf" or "s3://bucket/prefix/*.edf"."""
    companions: tuple[str, ...] = setting(texts(), ())
    """Further files of a recording, read with it; the * stands for the same text as in ``files``."""
    sidecars: tuple[str, ...] = setting(texts(), ())
    """Files that its reader opens by itself, such as "*.dat" of "*.hea"."""
    complete: str = setting(choice("settle", "marker"), "settle")
    """A file is complete if it has not changed for ``settle_s`` ("settle"), or if a ``marker`` exists ("marker")."""
    settle_s: float = setting(NOT_NEGATIVE, 60.0)
    """Seconds since the last change of the file."""
    marker: str = setting(TEXT, "*.done")
    """Name of the marker, * being the name of the file; without a *, one marker for the folder, such as "_SUCCESS"."""
    day_pattern: str = setting(TEXT, "")
    """Regular expression with the groups year, month and day, for the name of a file; overrides its header."""

    def check(self) -> None:
        for pattern in (*self.companions, *self.sidecars):
            if pattern.count("*") != 1 or "/" in pattern:
                raise SettingsError(f"{pattern!r} is not a companion; a name with one * is needed, such as '*_2.csv'.")
        if self.companions or self.sidecars:
            for pattern in self.files:
                if pattern.rsplit("/", 1)[-1].count("*") != 1:
                    raise SettingsError(f"files = {pattern!r}: with companions or sidecars the file name needs one *.")
        if self.day_pattern:
            try:
                groups = re.compile(self.day_pattern).groups
            except re.error as error:
                raise SettingsError(f"day_pattern = {self.day_pattern!r} is no regular expression: {error}.") from error
            if groups != 3:
                raise SettingsError(f"day_pattern = {self.day_pattern!r} has {groups} groups; 3 are needed.")


@dataclass(frozen=True)
class ModelSection(Section):
    """The models."""

    path: str = setting(FOLDER, "models")
    """Folder of all versions; `current.zarr` in it is a link to the one in use."""
    start: str = setting(TEXT, "")
    """A finished run or a saved model to start from; without one, the first run fits a model."""
    first_rows: int = setting(count(2), 200_000)
    """Maximum number of rows of the first fit, of the earliest recordings."""


@dataclass(frozen=True)
class OutputSection(Section):
    """What is published: one partition per day."""

    zarr: str = setting(FOLDER, "published/zarr")
    """Folder of Zarr groups, DAY.zarr; "" for none."""
    parquet: str = setting(FOLDER, "published/parquet")
    """Folder of Parquet files, date=DAY/rows.parquet; "" for none."""
    page: str = setting(TEXT, "published/index.html")
    """The HTML page, written after each run, with reports of the models beside it; "" for none."""
    day_begins_h: float = setting(number("an hour from 0 to 24 is needed.", least=0, below=24), 0.0)
    """Hour (UTC) at which a day begins; with 12, a day is from noon to noon."""

    def check(self) -> None:
        if not (self.zarr or self.parquet):
            raise SettingsError("zarr and parquet are both empty; name at least one folder.")


@dataclass(frozen=True)
class GateSection(Section):
    """Requirements on a recording."""

    least_valid_share: float = setting(SHARE, 0.5)
    """Minimum share of windows that are valid."""
    least_rows: int = setting(count(1), 2)
    """Minimum number of windows that are valid."""
    all_views: bool = setting(FLAG, True)
    """Whether a recording without a view is held back, even if the model could be used without it."""
    earliest: str = setting(TEXT, "")
    """A recording that starts before this day, such as 2020-01-31, or in the future is held back."""

    def check(self) -> None:
        if self.earliest:
            try:
                date.fromisoformat(self.earliest)
            except ValueError as error:
                raise SettingsError(f"earliest = {self.earliest!r}; a day such as '2020-01-31' is needed.") from error


@dataclass(frozen=True)
class DriftSection(Section):
    """When a recording differs from those of the fit: exceeding any of these bounds is an alarm."""

    most_outside: float = setting(SHARE, 0.2)
    """Share of rows outside the data of the fit."""
    most_distance: float = setting(NOT_NEGATIVE, 1.0)
    """Median distance of a row to the nearest landmark; 1 is the 99.9 % quantile of the rows of the fit."""
    correlation_change: float = setting(NOT_NEGATIVE, 0.2)
    """Change of the median local correlation, from the most similar recording of the fit."""
    eigenvalue_change: float = setting(NOT_NEGATIVE, 0.2)
    """Largest change of a leading eigenvalue, likewise."""


#: The measures: column of the catalog, its bound in [drift], title and format in figures, and the text of an alarm.
#: The distance is the median over rows to the nearest landmark; 1 is the coverage radius of the fit.
MEASURES = (
    ("outside", "most_outside", "Share of rows outside", ".0%", "{} of its rows are outside"),
    ("distance", "most_distance", "Distance to the nearest landmark", ".2f", "its median distance to a landmark is {}"),
    ("correlation_change", "correlation_change", "Change of local correlation", ".2f", "a correlation differs by {}"),
    ("eigenvalue_change", "eigenvalue_change", "Change of leading eigenvalues", ".2f", "an eigenvalue differs by {}"),
)


@dataclass(frozen=True)
class RefitSection(Section):
    """When the model is refitted, and when the new one is used. 0 switches a rule off."""

    drift_alarms: int = setting(count(0), 1)
    """Refit after this many alarms since the last fit."""
    age_days: float = setting(NOT_NEGATIVE, 0.0)
    """Refit if the model is older than this and there are new recordings."""
    new_rows: float = setting(NOT_NEGATIVE, 0.0)
    """Refit if there are more new rows than this share of the rows of the fit."""
    most_rows: int = setting(count(2), 400_000)
    """Maximum number of rows of a refit; if there are more, the landmarks replace the old rows."""
    held_out: float = setting(number("a share above 0 and up to 0.5 is needed.", above=0, most=0.5), 0.2)
    """Share of each recording, at its end, that is held out for the comparison."""
    least_axis_correlation: float = setting(SHARE, 0.9)
    """Minimum correlation of each axis of the new model with the same axis of the old one."""
    least_agreement: float = setting(SHARE, 0.3)
    """Minimum agreement of the views of the new recordings on held-out rows."""
    agreement_loss: float = setting(SHARE, 0.05)
    """Maximum loss of agreement of the views on held-out rows, relative to the old model."""
    outside_gain: float = setting(SHARE, 0.02)
    """Maximum increase of the share of held-out rows that are outside."""


@dataclass(frozen=True)
class RetentionSection(Section):
    """What is removed at the end of a run; 0 keeps it forever. Published days are never removed."""

    views_days: float = setting(NOT_NEGATIVE, 0.0)
    """Days after which the views of an embedded recording are removed; refits and backfills read them."""
    replaced_days: float = setting(NOT_NEGATIVE, 1.0)
    """Days after which replaced results are removed; processes that have them open can read them until then."""
    models: int = setting(count(0), 0)
    """Number of model versions that are kept, including the current one."""
    history_days: float = setting(NOT_NEGATIVE, 0.0)
    """Days after which lines of the history are removed."""


@dataclass(frozen=True)
class NotifySection(Section):
    """Notifications after a run; they never change its exit code."""

    command: tuple[str, ...] = setting(texts(), ())
    """A program and its arguments; it receives the summary as JSON on standard input."""
    webhook: str = setting(TEXT, "")
    """A URL that the summary is posted to as JSON."""
    webhook_env: str = setting(TEXT, "")
    """An environment variable with this URL, if it is a secret."""
    when: str = setting(choice("trouble", "news", "always"), "trouble")
    """When to notify: "trouble" (exit code other than 0), "news" (anything was done) or "always"."""
    timeout_s: float = setting(number(least=0.1), 10.0)
    """Seconds for one attempt."""
    attempts: int = setting(count(1), 3)
    """Maximum number of attempts."""

    def check(self) -> None:
        if self.webhook and self.webhook_env:
            raise SettingsError("webhook and webhook_env are both given; give one of them.")
        if self.webhook and not self.webhook.startswith(("https://", "http://")):
            raise SettingsError("webhook is not a URL that begins with https:// or http://.")


@dataclass(frozen=True)
class RunSection(Section):
    """A run.toml with the views and the settings of the fit, if they are not in this file."""

    file: str = setting(TEXT, "")
    """A run.toml with the sections [views.NAME], those of the fit and [cluster]."""
    seed: int | None = setting(count(0))
    """Replaces the seed of that file; 0 if neither is given."""


@dataclass(frozen=True)
class PipelineSettings:
    """The content of a pipeline file, paths made absolute."""

    pipeline: PipelineSection
    sources: SourceSection
    model: ModelSection
    outputs: OutputSection
    gate: GateSection
    drift: DriftSection
    refit: RefitSection
    retention: RetentionSection
    notify: NotifySection
    path: Path
    recipes: dict[str, ViewRecipe]
    fit: Settings
    seed: int
    cluster: ClusterSettings

    @property
    def state(self) -> Path:
        return self.place(self.pipeline.state)

    @property
    def models(self) -> Path:
        return self.place(self.model.path)

    def place(self, path: str) -> Path:
        """A path in the file, which is relative to the file, as an absolute path."""
        return (self.path.parent / path).resolve()

    def address(self, path: str) -> str:
        """A path in the file or the catalog made absolute; an address in object storage as it is."""
        return path if "://" in path else os.path.join(self.path.parent, path)

    def fingerprint(self) -> str:
        """Of everything that decides the coordinates of a recording."""

        def changed(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
            """Without default values, so that a new setting in a later version does not invalidate models."""
            return {key: value for key, value in values.items() if value != defaults[key]}

        defaults, recipe = Settings().to_dict(), ViewRecipe().to_dict()
        content = {
            "views": {name: changed(made.to_dict() | {"source": ()}, recipe) for name, made in self.recipes.items()},
            "fit": {name: changed(values, defaults[name]) for name, values in self.fit.to_dict().items()},
            "seed": self.seed,
        }
        return digest_of_facts(content)


#: The sections of pipeline files alone, each with its class.
OWN = {name: kind for name, kind in get_type_hints(PipelineSettings).items() if kind.__module__ == __name__}


def read(path: str | Path) -> PipelineSettings:
    """Read and check a pipeline file."""
    path = Path(path).absolute()
    content = read_toml(path)
    check_sections(content, (*OWN, "run", *runfile.SHARED), path)
    try:
        made: dict[str, Any] = {
            name: from_table(kind, content.get(name, {}), f"[{name}]") for name, kind in OWN.items()
        }
        # Views, settings of the fit, seed and cluster are in this file, or in the run.toml of [run] file.
        run, store = from_table(RunSection, content.get("run", {}), "[run]"), None
        if run.file:
            if here := [name for name in runfile.SHARED if name in content]:
                twice = f"[{here[0]}] is given here, and [run] file = {run.file!r} too; move it to that file."
                raise SettingsError(twice)
            place = (path.parent / run.file).resolve()
            content = read_toml(place)
            check_sections(content, ("store", *runfile.SHARED), place)
            store = content.get("store")
        stored = store.get("seed") if isinstance(store, Mapping) else None
        made["recipes"] = read_views(content.get("views"))
        made["fit"] = Settings.from_dict({name: content[name] for name in fit.STAGES if name in content})
        made["seed"] = RunSection(seed=stored if run.seed is None else run.seed).seed or 0
        made["cluster"] = from_table(ClusterSettings, content.get("cluster", {}), "[cluster]")
    except SettingsError as error:
        raise SettingsError(f"{path.name}: {error}") from error
    return PipelineSettings(path=path, **made)


def pipeline_schema() -> Json:
    """The JSON Schema of pipeline files."""
    own = {name: json_schema(kind) for name, kind in {**OWN, "run": RunSection}.items()}
    return file_schema("dlcca pipeline file", table_schema({**own, **runfile.shared_schemas()}, ("sources",)))


def state_of(path: str | Path) -> Path | None:
    """The state folder of a pipeline, even if the rest of its file is wrong; None if it is not known."""
    path = Path(path).absolute()
    content: dict[str, Any] = {}
    with suppress(SettingsError):
        content = read_toml(path)
    section = content.get("pipeline", {})
    state = section.get("state", PipelineSection.state) if isinstance(section, Mapping) else None
    if not isinstance(state, str):
        return None
    folder = (path.parent / state).resolve()
    return folder if "sources" in content or (not content and (folder / "catalog.sqlite").is_file()) else None


def examples_folder() -> Path:
    """The folder of example settings."""
    return installed_folder("examples", "pipelines", "run.toml")

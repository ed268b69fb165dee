"""The sections of `pipeline.toml`, one class each, checked when they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from dlcca.errors import SettingsError
from dlcca.pipelines.checking import a_folder, at_least, one_of, shares

#: What may be told of by [notify].
TOLD = ("trouble", "news", "always")


@dataclass(frozen=True)
class PipelineSection:
    """The flow as a whole."""

    name: str = "pipeline"
    """What messages call it."""
    state: str = "state"
    """Folder of the catalog, of the views and results of each recording, and of what is being made."""
    busy: str = "leave"
    """What a second driver does while one runs: "leave" (exit code 0) or "fail" (exit code 4)."""

    def __post_init__(self) -> None:
        one_of(("leave", "fail"), busy=self.busy)
        a_folder(state=self.state)


@dataclass(frozen=True)
class SourceSection:
    """Where recordings come from, and when one is complete."""

    files: tuple[str, ...] = ()
    """Patterns, as "incoming/**/*.edf" or "s3://bucket/prefix/*.edf"."""
    companions: tuple[str, ...] = ()
    """Further files of a recording, read with it: the * stands for what it does in the name in ``files``."""
    sidecars: tuple[str, ...] = ()
    """Files that belong to it and are opened by its reader (as "*.dat" of "*.hea")."""
    complete: str = "settle"
    """"settle": not changed for ``settle_s``; "marker": a file ``marker`` is there."""
    settle_s: float = 60.0
    """Seconds since the last change of size, content or name."""
    marker: str = "*.done"
    """Name beside the recording, its * the whole name of the file; without a *, one for the folder, as "_SUCCESS"."""
    day_pattern: str = ""
    """Regular expression for the name of a file, whose groups are year, month and day: goes before its header."""

    def __post_init__(self) -> None:
        if not self.files:
            raise SettingsError("lacks files, where recordings arrive, for instance files = 'incoming/*.edf'.")
        one_of(("settle", "marker"), complete=self.complete)
        at_least(0, settle_s=self.settle_s)
        for pattern in (*self.companions, *self.sidecars):
            if pattern.count("*") != 1 or "/" in pattern:
                raise SettingsError(f"{pattern!r} names no companion: a file name with one * is needed, as '*_2.csv'.")
        if self.companions or self.sidecars:
            for pattern in self.files:
                if pattern.rsplit("/", 1)[-1].count("*") != 1:
                    raise SettingsError(f"files = {pattern!r}: with companions or sidecars its name needs one *.")
        if self.day_pattern:
            try:
                groups = re.compile(self.day_pattern).groups
            except re.error as error:
                raise SettingsError(f"day_pattern = {self.day_pattern!r} is no regular expression: {error}.") from error
            if groups != 3:
                raise SettingsError(f"day_pattern = {self.day_pattern!r} has {groups} groups; year, month, day: 3.")


@dataclass(frozen=True)
class ModelSection:
    """The fitted models."""

    path: str = "models"
    """Folder of all versions; `current.zarr` in it is the one in use."""
    start: str = ""
    """A finished run or a saved model to begin with; without one the first night fits one."""
    first_rows: int = 200_000
    """Rows of the first fit at most, of the earliest recordings."""

    def __post_init__(self) -> None:
        at_least(2, first_rows=self.first_rows)
        a_folder(path=self.path)


@dataclass(frozen=True)
class OutputSection:
    """What is published, a partition for each day."""

    zarr: str = "published/zarr"
    """Folder of Zarr groups, DAY.zarr; "" for none."""
    parquet: str = "published/parquet"
    """Folder of Parquet files, date=DAY/rows.parquet; "" for none."""
    page: str = "published/index.html"
    """The page over all nights, written after each; reports of the models are beside it; "" for none."""
    day_begins_h: float = 0.0
    """Hour (UTC) at which a day begins: with 12, what is recorded after midnight belongs to the evening before."""

    def __post_init__(self) -> None:
        if not (self.zarr or self.parquet):
            raise SettingsError("zarr and parquet are both empty; name at least one folder.")
        a_folder(zarr=self.zarr, parquet=self.parquet)
        if not 0 <= self.day_begins_h < 24:
            raise SettingsError(f"day_begins_h = {self.day_begins_h!r}; an hour from 0 to 24 is needed.")


@dataclass(frozen=True)
class GateSection:
    """What a recording must be like to be published."""

    least_valid_share: float = 0.5
    """Share of its windows that must be valid."""
    least_rows: int = 2
    """Windows that must be valid."""
    all_views: bool = True
    """Whether a recording that lacks a view is held back, even where the model could do without."""
    earliest: str = ""
    """A start before this day (2020-01-31) is a clock that was wrong; so is one in the future."""

    def __post_init__(self) -> None:
        shares(least_valid_share=self.least_valid_share)
        at_least(1, least_rows=self.least_rows)
        if self.earliest:
            try:
                date.fromisoformat(self.earliest)
            except ValueError as error:
                raise SettingsError(f"earliest = {self.earliest!r}; a day as '2020-01-31' is needed.") from error


@dataclass(frozen=True)
class DriftSection:
    """When a recording is unlike those of the fit: any of these is enough for an alarm."""

    most_outside: float = 0.2
    """Share of rows outside what the fit has seen."""
    most_distance: float = 1.0
    """Distance of the typical row to the nearest landmark; 1 is as far as 99.9 % of the fit's own rows."""
    correlation_change: float = 0.2
    """Change of the typical local correlation, from the recording of the fit that is nearest in it."""
    eigenvalue_change: float = 0.2
    """Largest change of a leading eigenvalue, likewise."""

    def __post_init__(self) -> None:
        shares(most_outside=self.most_outside)
        at_least(
            0,
            most_distance=self.most_distance,
            correlation_change=self.correlation_change,
            eigenvalue_change=self.eigenvalue_change,
        )


@dataclass(frozen=True)
class RefitSection:
    """When a model is fitted anew, and when it takes over. A 0 switches a rule off."""

    drift_alarms: int = 1
    """So many alarms since the last fit."""
    age_days: float = 0.0
    """The model is older than this, and there are new recordings."""
    new_rows: float = 0.0
    """New rows are more than this share of the rows of the fit."""
    most_rows: int = 400_000
    """Old and new rows of a refit at most; beyond it the landmarks stand for the old rows."""
    held_out: float = 0.2
    """Share of each recording, its end, that is kept for the comparison."""
    least_axis_correlation: float = 0.9
    """Each axis, on rows that both models know, must correlate so well with what it was."""
    least_agreement: float = 0.3
    """So well must the views of the new recordings agree on held-out rows; else there is nothing to learn from them."""
    agreement_loss: float = 0.05
    """By how much views may agree less on held-out rows than they did in the old model."""
    outside_gain: float = 0.02
    """By how much the share of held-out rows outside may be larger than it was."""

    def __post_init__(self) -> None:
        at_least(0, drift_alarms=self.drift_alarms, age_days=self.age_days, new_rows=self.new_rows)
        at_least(2, most_rows=self.most_rows)
        shares(least_axis_correlation=self.least_axis_correlation, agreement_loss=self.agreement_loss)
        shares(least_agreement=self.least_agreement, outside_gain=self.outside_gain)
        if not 0 < self.held_out <= 0.5:
            raise SettingsError(f"held_out = {self.held_out!r}; a share above 0 and up to 0.5 is needed.")


@dataclass(frozen=True)
class RetentionSection:
    """What is removed at the end of a night; 0 keeps it for ever. Published days are never removed by it."""

    views_days: float = 0.0
    """Views of a recording, which a refit and a new embedding read, so long after it was embedded."""
    replaced_days: float = 1.0
    """What was replaced by something newer: those who read it now may go on so long."""
    models: int = 0
    """Versions of the model that are kept, the current one included."""
    history_days: float = 0.0
    """Lines of the history."""

    def __post_init__(self) -> None:
        at_least(0, views_days=self.views_days, replaced_days=self.replaced_days, models=self.models)
        at_least(0, history_days=self.history_days)


@dataclass(frozen=True)
class NotifySection:
    """Who is told of a night, after it; it never changes how the night ends."""

    command: tuple[str, ...] = ()
    """A program and its arguments; it gets the summary as JSON on standard input."""
    webhook: str = ""
    """An address that the summary is posted to as JSON."""
    webhook_env: str = ""
    """The environment variable that holds this address, where it is a secret."""
    when: str = "trouble"
    """"trouble" (exit code other than 0), "news" (anything was done) or "always"."""
    timeout_s: float = 10.0
    """Seconds for one attempt."""
    attempts: int = 3
    """Attempts at most."""

    def __post_init__(self) -> None:
        one_of(TOLD, when=self.when)
        at_least(0.1, timeout_s=self.timeout_s)
        at_least(1, attempts=self.attempts)
        if self.webhook and self.webhook_env:
            raise SettingsError("webhook and webhook_env are both given; give one of them.")
        if self.webhook and not self.webhook.startswith(("https://", "http://")):
            raise SettingsError("webhook is no address that begins with https:// or http://.")

"""A run of a pipeline: all steps in their order, under one lock, recorded in the catalog however it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from dlcca.errors import DlccaError, SettingsError, StoreFileError, described, exit_code
from dlcca.pipelines import page, publish, retention, settings, versions
from dlcca.pipelines.catalog import FILE, Catalog, iso, locked, refuse_other_state
from dlcca.pipelines.context import Pipeline, Say, claim, opened, refuse_occupied, silent
from dlcca.pipelines.recordings import NOT_MEASURED, discover, order
from dlcca.pipelines.summary import Summary, is_wanted, notify

#: How a step is called: with its name, its function and its arguments. A scheduler may make it a task of its own.
Do = Callable[..., Any]
Clock = Callable[[], datetime] | None


def _call(name: str, step: Callable[..., Any], *arguments: Any) -> Any:
    return step(*arguments)


def run(path: str | Path, cluster: str | None = None, say: Say = silent, clock: Clock = None) -> Summary:
    """Run a pipeline: discover, embed, publish, check for drift, refit, and remove what is old."""
    with begun(path, "run", cluster, say, clock) as (pipeline, summary):
        nightly(pipeline, summary)
    return summary


def nightly(pipeline: Pipeline, summary: Summary, do: Do = _call) -> None:
    """All steps of a run, inside of `begun`."""
    summary.found = do("discover", discover, pipeline)
    work_off(pipeline, summary, do)
    summary.troubles += do("retention", retention.retain, pipeline).refused


@contextmanager
def begun(
    path: str | Path, verb: str, cluster: str | None = None, say: Say = silent, clock: Clock = None
) -> Iterator[tuple[Pipeline, Summary]]:
    """A run of a verb that changes something, with the lock, or `catalog.Busy`; it is recorded in the catalog."""
    try:
        read = settings.read(path)
    except SettingsError as error:  # also in the history: nobody may read the output of cron
        with suppress(DlccaError):
            _record_invalid_settings(path, verb, error, clock() if clock else datetime.now(UTC))
        raise
    refuse_occupied(read)
    claim(read)  # before the catalog is opened, which may be that of another pipeline
    with opened(path, cluster, say, clock) as pipeline:
        document: dict[str, Any] | None = None
        try:
            with locked(pipeline.state):
                pipeline.run = run = pipeline.catalog.begin_run(verb, pipeline.now)
                summary = Summary(run=run, name=read.pipeline.name)
                try:
                    _note_clock(pipeline)
                    # Temporary files of a killed run.
                    pipeline.remove(pipeline.state / "work", *read.models.glob(".*.zarr.*"))
                    yield pipeline, summary
                except BaseException as error:
                    document = _error_document(run, error)
                    try:
                        pipeline.note("error", document["text"])
                        pipeline.catalog.end_run(run, pipeline.now, document, reported=False)
                    except Exception as second:
                        say(f"the error could not be recorded in the catalog: {second}")
                    raise
                claim(read)  # with the folders that this run has made
                document = summary.document()
                pipeline.catalog.end_run(run, pipeline.now, document, reported=summary.complete)
        finally:
            if document is not None:  # after the lock is released, because a notification may be slow
                _report(pipeline, document)


def _record_invalid_settings(path: str | Path, verb: str, error: SettingsError, now: datetime) -> None:
    state = settings.state_of(path)
    if state is not None:
        refuse_other_state(state)
        with Catalog(state / FILE) as catalog, catalog.change():
            run = catalog.begin_run(verb, now)
            catalog.insert("history", {"run": run, "at": iso(now), "kind": "error", "text": str(error)})
            catalog.end_run(run, now, _error_document(run, error), reported=False)


def catalog_of(path: str | Path) -> tuple[Catalog, str]:
    """The catalog of a pipeline, and the error in its file ("" if there is none)."""
    try:
        return Catalog(settings.read(path).state / FILE), ""
    except SettingsError as error:
        state = settings.state_of(path)
        if state is None or not (state / FILE).is_file():
            raise
        return Catalog(state / FILE), str(error)


def _note_clock(pipeline: Pipeline) -> None:
    """Note a clock that was set back: ages of files are then wrong."""
    query = "SELECT max(coalesce(ended, started)) FROM runs WHERE id < ?"
    last = pipeline.catalog.value(query, [pipeline.run])
    if last is not None and last > iso(pipeline.now):
        back = datetime.fromisoformat(last) - pipeline.now
        pipeline.note("clock", f"The clock of this machine was set back: the last run is {back} in the future.")


def _error_document(run: int, error: BaseException) -> dict[str, Any]:
    """The summary of a run that ended with an error."""
    reason = described(error)
    return {"exit_code": exit_code(error), "news": True, "error": reason, "text": reason, "run": run}


def _report(pipeline: Pipeline, document: dict[str, Any]) -> None:
    """Write the page of the pipeline and send notifications; an error is only noted."""
    found, options = pipeline.settings, pipeline.settings.notify
    failures = []
    if found.outputs.page:
        try:
            page.write(pipeline)
        except Exception as error:
            failures.append(("page", f"The page of the pipeline could not be written: {error}"))
    if is_wanted(options, document):
        failures += [("notify", text) for text in notify(options, {"pipeline": found.pipeline.name, **document})]
    for kind, text in failures:
        try:
            pipeline.note(kind, text)
        except DlccaError as error:
            pipeline.say(f"{text} {error}")


def work_off(pipeline: Pipeline, summary: Summary, do: Do = _call) -> None:
    """Everything that is missing by the catalog."""
    catalog = pipeline.catalog
    # Without a model, recordings may have been embedded with one that is no longer in use.
    pending = "'new', 'failed', 'done'" if pipeline.current_model() is None else "'new', 'failed'"
    if (  # before slow imports
        versions.due(pipeline)
        or catalog.value(f"SELECT 1 FROM recordings WHERE status IN ({pending})")
        or catalog.value("SELECT 1 FROM models WHERE status = 'fitting'")
        or publish.due(pipeline)
        or catalog.value(f"SELECT 1 FROM recordings WHERE {NOT_MEASURED}")
    ):
        _work_off(pipeline, summary, do)
    collect(pipeline, summary)


def _work_off(pipeline: Pipeline, summary: Summary, do: Do) -> None:
    from dlcca.pipelines import drift, embed, models

    versions.remove_unfinished(pipeline)
    model, file = pipeline.current_model(), pipeline.settings.path.name
    if model is not None and model["settings"] not in ("", pipeline.settings.fingerprint()):
        raise SettingsError(
            f"the views or the settings of the fit in {file} are not those of model {model['version']}; coordinates "
            "before and after would not be comparable. Restore them, or fit a model with the new settings to all "
            f"existing recordings: dlcca pipeline backfill {file} --anew."
        )
    if broken := models.unusable(pipeline):  # recordings wait; days that need no model are published
        pipeline.note("failed", broken)
        summary.troubles.append(broken)
        do("publish", publish_due, pipeline, summary)
        return
    ordered = do("order", order, pipeline)
    if model is None and pipeline.settings.model.start:
        do("adopt model", models.adopt, pipeline)
    elif model is None:
        do("first fit", models.first_fit, pipeline)
        ordered = order(pipeline)  # without those that do not pass the gate
    model = pipeline.current_model()
    if model is not None:
        summary.model = model["version"]
        for day, recordings in groupby(ordered, key=itemgetter("day")):
            do(f"embed {day}", embed.embed, pipeline, [*recordings])
            do("publish", publish_due, pipeline, summary)
    do("publish", publish_due, pipeline, summary)
    if model is not None:
        do("drift", drift.measure_pending, pipeline)
        summary.refit = do("refit if due", models.refit_if_due, pipeline)


def publish_due(pipeline: Pipeline, summary: Summary) -> None:
    """Publish the days that are not up to date; an error of one does not stop the others."""
    for day in publish.due(pipeline):
        try:
            publish.publish(pipeline, day)
            summary.published.append(day)
        except DlccaError as error:
            pipeline.note("failed", str(error), day=day)
            if isinstance(error, StoreFileError):
                publish.repeat_damaged(pipeline, day)
            if str(error) not in summary.troubles:
                summary.troubles.append(str(error))


def collect(pipeline: Pipeline, summary: Summary) -> None:
    """Fill the summary from the catalog: what this run did, and stopped runs before it that have no summary."""
    catalog = pipeline.catalog
    summary.doubts = [text] if (text := versions.doubt(pipeline)) else []
    last = catalog.value("SELECT max(id) FROM runs WHERE reported AND id < ?", [pipeline.run]) or 0
    query = (
        "SELECT 1 AS part, id, path, status, reason FROM recordings WHERE run > :last "
        "UNION ALL "  # failed to be embedded again, and kept the earlier result
        "SELECT 2, h.id, h.path, h.kind, h.text FROM history AS h JOIN recordings AS r ON r.id = h.recording "
        "WHERE h.run > :last AND h.kind IN ('refused', 'held', 'failed') AND r.status = 'done' AND r.run <= :last "
        "ORDER BY part, id"
    )
    for row in catalog.all(query, {"last": last}):
        if row["status"] in ("done", "refused", "held", "failed"):
            getattr(summary, row["status"]).append(row["path"])
        if row["reason"]:
            summary.reasons[row["path"]] = row["reason"]
    query = "SELECT text FROM drift WHERE alarm AND run > ? ORDER BY id"
    summary.alarms = [row["text"] for row in catalog.all(query, [last])]
    summary.complete = True


def backfill(
    path: str | Path,
    first: str | None = None,
    last: str | None = None,
    *,
    again: bool = False,
    anew: bool = False,
    cluster: str | None = None,
    say: Say = silent,
    clock: Clock = None,
) -> Summary:
    """Embed days first to last (default: all) again with the model in use, where another model was used.

    ``again``: also recordings that were refused or held back. ``anew``: all recordings, with a newly fitted model.
    """
    days = {"first": _day(first, "0000-01-01"), "last": _day(last, "9999-12-31")}
    if anew and (first or last):
        raise SettingsError("--anew is for all days: coordinates of models that were fitted separately differ.")
    with begun(path, "backfill", cluster, say, clock) as (pipeline, summary):
        summary.found = discover(pipeline)
        catalog, mark = pipeline.catalog, "UPDATE recordings SET status = 'new', attempts = 0"
        with catalog.change():
            if anew:  # a new generation: no model is in use
                catalog.update("models", {"status": "kept"}, status="current")
                # Without a reason they count as used: this ends their generation, and allows the same fit again.
                catalog.do(f"UPDATE models SET reason = NULL WHERE {versions.UNTRUSTED}")
                catalog.do(
                    f"{mark}, reason = NULL, result = NULL WHERE status IN ('done', 'refused', 'held', 'failed') "
                    "AND content IN (SELECT content FROM files WHERE state = 'known')"
                )
                pipeline.note("anew", "A new model is fitted, and all recordings are embedded again with it.")
            else:  # published results stay until there are new ones
                within, in_use = "BETWEEN :first AND :last", "(SELECT version FROM models WHERE status = 'current')"
                catalog.do(f"{mark} WHERE status = 'done' AND day {within} AND model != {in_use}", days)
                if again:
                    not_done = f"status IN ('refused', 'held') AND coalesce(day, :first) {within}"
                    catalog.do(f"{mark}, reason = NULL, day = NULL WHERE {not_done}", days)
        work_off(pipeline, summary)
    return summary


def _day(text: str | None, default: str) -> str:
    try:
        return default if text is None else date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise SettingsError(f"{text!r} is not a day; give one such as 2026-01-31.") from error

"""A night: all steps in their order, under one lock, with a line in the catalog whatever the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from dlcca.errors import DlccaError, StoreFileError
from dlcca.pipelines import folders, invalid_config, lock, notify, settings
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline, Say, opened, refuse_occupied
from dlcca.pipelines.discover import discover
from dlcca.pipelines.summary import Summary

#: How a step is done: called with its name, its function and its arguments. A scheduler may make it a task of its own.
Do = Callable[..., Any]


def _plainly(name: str, step: Callable[..., Any], *arguments: Any) -> Any:
    return step(*arguments)


def _silent(text: str) -> None:
    """Nobody listens."""


@contextmanager
def begun(
    path: str | Path,
    verb: str,
    cluster: str | None = None,
    say: Say = _silent,
    clock: Callable[[], datetime] | None = None,
) -> Iterator[tuple[Pipeline, Summary]]:
    """A run of a verb that changes something: the lock is held, and the catalog knows of it from beginning to end.

    Whoever drives the steps one by one does so inside of this. `lock.Busy` is raised if another driver is at work.
    """
    invalid_config.refuse(path, verb, clock)
    read = settings.read(path)
    refuse_occupied(read)
    folders.claim(read)  # before the catalog is opened, which may be that of another pipeline
    with opened(path, cluster, say, clock) as flow:
        document: dict[str, Any] | None = None
        try:
            with lock.held(flow.state / "lock.sqlite"):
                flow.run = flow.catalog.begin_run(verb, flow.now)
                summary = Summary(run=flow.run, name=flow.settings.pipeline.name)
                try:
                    _note_clock(flow)
                    _clear_scratch(flow)
                    yield flow, summary
                except BaseException as error:
                    document = _note_end(flow, error)
                    raise
                folders.claim(flow.settings)  # with those that were made by this run
                document = summary.document()
                flow.catalog.end_run(flow.run, flow.now, document, told=summary.tells_all)
        finally:
            if document is not None:  # the lock is free by now: who is slow to be told keeps nobody from running
                draw(flow)
                tell(flow, document)


def _note_clock(flow: Pipeline) -> None:
    """A clock that was set back is worth a line: ages and settling times are then not what they seem."""
    query = "SELECT max(coalesce(ended, started)) FROM runs WHERE id < ?"
    last = flow.catalog.value(query, [flow.run])
    if last is not None and last > iso(flow.now):
        back = datetime.fromisoformat(last) - flow.now
        flow.note("clock", f"The clock of this machine went back: the last run was {back} ahead of now.")


def _clear_scratch(flow: Pipeline) -> None:
    """What a stopped run has left in the making, which nobody else can be using: the lock is ours."""
    flow.remove(flow.state / "work", *flow.settings.models.glob(".*.zarr.*"))


def _note_end(flow: Pipeline, error: BaseException) -> dict[str, Any]:
    """Keep why a run ended early, as far as the catalog can still be written; what is told of it."""
    code = getattr(error, "exit_code", 4 if isinstance(error, OSError) else 1)
    known = isinstance(error, DlccaError | OSError)
    reason = str(error) if known else f"unexpected {type(error).__name__}: {error}"
    document = {"exit_code": code, "news": True, "error": reason, "text": reason, "run": flow.run}
    try:
        flow.note("error", reason)
        assert flow.run is not None
        flow.catalog.end_run(flow.run, flow.now, document, told=False)
    except Exception as second:
        flow.say(f"this could not be kept in the catalog: {second}")
    return document


def draw(flow: Pipeline) -> None:
    """Write the page of the pipeline; what went wrong with that is a line of the history and no more."""
    if not flow.settings.outputs.page:
        return
    from dlcca.pipelines import page

    try:
        page.write(flow)
    except Exception as error:
        try:
            flow.note("page", f"The page of the pipeline could not be written: {error}")
        except DlccaError as second:
            flow.say(f"the page could not be written: {error} {second}")


def tell(flow: Pipeline, document: dict[str, Any]) -> None:
    """Notify those who asked for it; what went wrong with that is a line of the history and no more."""
    asked = flow.settings.notify
    if notify.is_wanted(asked, document):
        for trouble in notify.tell(asked, {"pipeline": flow.settings.pipeline.name, **document}):
            try:
                flow.note("notify", trouble)
            except DlccaError as error:
                flow.say(f"{trouble} {error}")


def run(
    path: str | Path, cluster: str | None = None, say: Say = _silent, clock: Callable[[], datetime] | None = None
) -> Summary:
    """Everything that a night does."""
    with begun(path, "run", cluster, say, clock) as (flow, summary):
        nightly(flow, summary)
    return summary


def nightly(flow: Pipeline, summary: Summary, do: Do = _plainly) -> None:
    """The steps of a night, inside of `begun`."""
    from dlcca.pipelines import retention

    summary.found = do("discover", discover, flow)
    work_off(flow, summary, do)
    summary.troubles += do("retention", retention.retain, flow).refused


def is_anything_due(flow: Pipeline) -> bool:
    """Whether there is more to do than to look at the files; asked before anything that takes long to import."""
    from dlcca.pipelines import publish

    catalog = flow.catalog
    return bool(
        catalog.value("SELECT count(*) FROM recordings WHERE status IN ('new', 'failed')")
        or catalog.value("SELECT count(*) FROM models WHERE status = 'fitting'")
        or publish.due(flow)
        or _undrifted(flow)
        or _model_due(flow)
    )


def _undrifted(flow: Pipeline) -> bool:
    from dlcca.pipelines import drift

    return bool(drift.pending(flow))


def _model_due(flow: Pipeline) -> bool:
    """Whether a refit is due, or recordings were embedded with a model that is no longer in use, and there is none."""
    from dlcca.pipelines import versions

    if flow.current_model() is None:
        return bool(flow.catalog.value("SELECT count(*) FROM recordings WHERE status = 'done'"))
    return bool(versions.due(flow))


def work_off(flow: Pipeline, summary: Summary, do: Do = _plainly) -> None:
    """Everything that the catalog says is missing."""
    if not is_anything_due(flow):
        collect(flow, summary)  # of a run that was stopped just before its end
        return
    from dlcca.pipelines import models, preprocessing, versions
    from dlcca.pipelines.order import order

    versions.tidy(flow)
    model = flow.current_model()
    preprocessing.refuse_other_settings(flow, model)
    broken = versions.unusable(flow)
    if broken:  # no recording is to blame: they wait, and days that need no model are published
        flow.note("failed", broken)
        summary.troubles.append(broken)
        do("publish", publish_due, flow, summary)
        collect(flow, summary)
        return
    ordered = do("order", order, flow)
    if model is None and flow.settings.model.start:
        do("adopt model", models.adopt, flow)
    elif model is None and models.candidates(flow):
        do("first fit", models.first_fit, flow)
        ordered = order(flow)  # without those that were not good
    model = flow.current_model()
    summary.model = None if model is None else model["version"]
    if model is not None:
        for day, recordings in groupby(ordered, key=lambda recording: recording["day"]):
            do(f"embed {day}", embed_day, flow, [recording["id"] for recording in recordings], summary)
        do("publish", publish_due, flow, summary)
        do("drift", check_drift, flow, summary)
        do("refit if due", refit_if_due, flow, summary)
    else:
        do("publish", publish_due, flow, summary)
    collect(flow, summary)


def embed_day(flow: Pipeline, numbers: list[int], summary: Summary) -> None:
    """Embed the recordings of a day, and publish it when all of them are done."""
    from dlcca.pipelines.embed import embed

    for number in numbers:
        embed(flow, number)
    publish_due(flow, summary)


def publish_due(flow: Pipeline, summary: Summary) -> None:
    """Publish the days that are not what they should be; one that fails does not keep the others."""
    from dlcca.pipelines import publish

    for day in publish.due(flow):
        try:
            publish.publish(flow, day)
            summary.published.append(day)
        except DlccaError as error:
            flow.note("failed", str(error), day=day)
            if isinstance(error, StoreFileError):
                publish.ask_for_damaged(flow, day)
            if str(error) not in summary.troubles:
                summary.troubles.append(str(error))


def check_drift(flow: Pipeline, summary: Summary) -> None:
    """Hold every recording that has not been yet against its model."""
    from dlcca.pipelines import drift

    for number in drift.pending(flow):
        drift.measure(flow, number)


def refit_if_due(flow: Pipeline, summary: Summary) -> None:
    """Fit the model anew if drift, age or amount says so."""
    from dlcca.pipelines import models, versions

    because = versions.due(flow)
    found = models.refit(flow, because) if because else None
    if found is not None:
        summary.refit = {**found, "because": because}


def collect(flow: Pipeline, summary: Summary) -> None:
    """What became of recordings, by the catalog: in this run, and in stopped ones before that have told nothing.

    And whether the model is trusted, which every run says as long as it is not.
    """
    from dlcca.pipelines import trust

    catalog = flow.catalog
    summary.doubts = [said] if (said := trust.doubt(flow)) else []
    last = catalog.value("SELECT max(id) FROM runs WHERE told AND id < ?", [flow.run]) or 0
    for row in catalog.all("SELECT path, status, reason FROM recordings WHERE run > ? ORDER BY id", [last]):
        if row["status"] in ("done", "refused", "held", "failed"):
            getattr(summary, row["status"]).append(row["path"])
        if row["reason"]:
            summary.reasons[row["path"]] = row["reason"]
    query = (
        "SELECT h.kind, h.path, h.text FROM history AS h JOIN recordings AS r ON r.id = h.recording "
        "WHERE h.run > ? AND h.kind IN ('refused', 'held', 'failed') AND r.status = 'done' AND r.run <= ?"
    )
    for row in catalog.all(query, [last, last]):  # what was to be embedded once more, and keeps what it had
        getattr(summary, row["kind"]).append(row["path"])
        summary.reasons[row["path"]] = row["text"]
    query = "SELECT text FROM drift WHERE alarm AND run > ? ORDER BY id"
    summary.alarms = [row["text"] for row in catalog.all(query, [last])]
    summary.tells_all = True

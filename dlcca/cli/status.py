"""`dlcca status` and `dlcca verify`: what is in a store, and whether it is complete and unchanged."""

from collections.abc import Sequence, Sized
from typing import Any

from dlcca.cli.verb import Console, Store, verb
from dlcca.errors import StoreFileError
from dlcca.settings.runfile import recordings_of
from dlcca.storage.cost import format_bytes

#: What is known of a store: lines for people, and a document for machines.
Description = tuple[list[str], dict[str, Any]]


@verb(example="dlcca status demo-output/run.zarr")
def status(console: Console, store: Store) -> None:
    """Print what is in a finished run.

    It reads the headers alone; dlcca verify reads the arrays too.
    """
    from dlcca.storage import lock
    from dlcca.storage.formats import refuse_damaged_header

    holder = lock.holder(store)
    if holder is not None:
        dead = " It has died, and the next run takes over." if holder.is_dead else ""
        console.say(f"{store} is in use by {holder.sentence()}.{dead}")
    refuse_damaged_header(store)
    lines, document = _transformed(store) or _model(store) or _views(store) or _run(store, holder is not None)
    console.say(*lines)
    console.finish({"store": store, "lock": None if holder is None else holder.facts(), **document})


def _transformed(store: str) -> Description | None:
    """A store that `transform` has written or begun."""
    from dlcca.fitting import transform as transforming
    from dlcca.storage import transformed

    if transformed.is_transformed(store):
        found = transformed.describe(store)
        line = (
            f"{store} has the coordinates of {found['samples']} rows in the model {found['model']}; {found['valid']} "
            f"are valid, {found['outside']} outside the data of the fit."
        )
        return [line], {"finished": True, **found}
    done = transforming.progress(store)
    if done is None:
        return None
    line = f"{store} is not finished: {done[0]} of {done[1]} blocks. Run the same dlcca transform again to go on."
    return [line], {"finished": False, "done": done[0], "blocks": done[1]}


def _model(store: str) -> Description | None:
    from dlcca.storage import model
    from dlcca.storage.formats import open_sealed

    if not model.is_model(store):
        return None
    group, header = open_sealed(store, model.FORM)
    facts, m, q = header["facts"], group["landmarks"].shape[0], group["scale"].shape[0]
    names = facts["model"]["names"]
    line = (
        f"{store} is a fitted model of {', '.join(names)}, with {m} landmarks and {q} coordinates; common: "
        f"{_common(names, facts['n_common'])}."
    )
    document = {"finished": True, "views": names, "landmarks": m, "coordinates": q, **facts}
    return [line, *_doubts(facts["warnings"])], document


def _views(store: str) -> Description | None:
    """Views of recordings, or a run that has no more yet."""
    from dlcca.fitting import runner
    from dlcca.recordings import ingest as ingesting
    from dlcca.storage import run as run_store
    from dlcca.storage import views

    inner = recordings_of(store)
    has_stages = run_store.is_finished(store) or runner.begun(store)
    place = inner if not has_stages and (views.is_views(inner) or ingesting.begun(inner)) else store
    if views.is_views(place):
        found = views.describe(place)
        lines = [f"{place} has the views of recordings:", *(f"  {line}" for line in ingesting.summary(found))]
        return lines, {"store": place, "finished": True, **found}
    stages = ingesting.progress(place)
    return _unfinished(place, stages, again="dlcca ingest or dlcca run") if stages else None


def _run(store: str, is_held: bool) -> Description:
    """A run, finished or not; an error if it is none."""
    from dlcca.fitting import runner
    from dlcca.storage import run as run_store

    if not run_store.is_finished(store):
        stages = runner.progress(store)
        if stages or is_held:
            return _unfinished(store, stages, again="run.toml")
    found = run_store.describe(store)
    shapes = found["shapes"]
    facts = {
        "views": ", ".join(f"{name} ({channels} channels)" for name, channels in found["views"].items()),
        "samples": shapes["embedding"][0],
        "coordinates": shapes["embedding"][1],
        "landmarks": shapes["landmarks"][0],
        "common": _common(found["views"], found["n_common"]),
        "fingerprint": found["fingerprint"],
        "versions": ", ".join(f"{name} {number}" for name, number in found["versions"].items()),
    }
    if found["cost"]:
        took = sorted(((cost["seconds"], name) for name, cost in found["cost"].items()), reverse=True)
        parts = ", ".join(f"{name} {seconds:.1f}" for seconds, name in took)
        facts["seconds"] = f"{sum(seconds for seconds, _ in took):.1f} of the workers' time ({parts})"
    lines = [f"{store} is a finished run of {found['created']}, {format_bytes(found['bytes'])}."]
    lines += [f"  {name:<12} {value}" for name, value in facts.items()]
    return [*lines, *_doubts(found["warnings"])], found


def _unfinished(store: str, stages: Sequence[Any], again: str) -> Description:
    lines = [f"{store} is not finished; run the same {again} again to go on."]
    lines += [f"  {s.name:<14} {s.done} of {s.blocks} blocks, {s.seconds:.1f} s of a worker's time" for s in stages]
    return lines, {"store": store, "finished": False, "stages": [vars(stage) for stage in stages]}


def _common(views: Sized, count: int) -> str:
    """How many variables the views share, in words."""
    return "not tested: one view" if len(views) == 1 else f"{count} dimension{'s' * (count != 1)}"


def _doubts(warnings: Sequence[str]) -> list[str]:
    return [f"  do not trust this result: {warning}" for warning in warnings]


@verb(example="dlcca verify demo-output/run.zarr")
def verify(console: Console, store: Store) -> None:
    """Check that a finished run is complete and unchanged.

    Reads every file and compares it with the checksums in the manifest and in the records of the blocks.
    """
    from dlcca.fitting import verification
    from dlcca.storage import lock

    console.step(f"reading {store}")
    holder = lock.holder(store)
    found = verification.look(store)
    console.say(*(f"  {'intact ' if bad is None else 'DAMAGED'}  {name}" for name, bad in found.entries.items()))
    console.say(*(f"  not ours {name}" for name in found.strangers))
    if holder is not None and not holder.is_dead:
        console.say(f"It is in use by {holder.sentence()}: what is being written may look damaged.")
    if not found.damages:
        whole = f"{store} is complete and unchanged."
        console.say(whole if found.finished else f"What {store} has so far is unchanged.")
    console.warn(*(f"dlcca: {damage}" for damage in found.damages.values()))
    document = {"store": store, "intact": not found.damages, "entries": found.entries, "strangers": found.strangers}
    console.finish(document, code=StoreFileError.exit_code if found.damages else 0)

"""`dlcca status`: what is in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any

from dlcca.cli.console import Voice, speaking
from dlcca.cli.options import AsJson, Debug, Quiet, Store
from dlcca.cli.units import size

EXAMPLE = "Example: dlcca status demo-output/run.zarr"


def status(store: Store, as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Say what is in a finished run.

    It looks at the headers alone; dlcca verify looks at the arrays too.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.fitting import runner
        from dlcca.storage import lock_owner
        from dlcca.storage import run as run_store
        from dlcca.storage.arrays import refuse_damaged_header

        holder = lock_owner.holder(store)
        if holder is not None:
            dead = " It has died, and the next run takes over." if holder.is_dead else ""
            voice.say(f"{store} is in use by {holder.sentence()}.{dead}")
        refuse_damaged_header(store)
        if _is_transformed(voice, store) or _is_model(voice, store) or _is_views(voice, store):
            return
        stages = [] if run_store.is_finished(store) else runner.progress(store)
        if stages or (holder is not None and not run_store.is_finished(store)):
            _say_unfinished(voice, store, stages)
            return
        found = run_store.describe(store)
        n, q = found["shapes"]["embedding"]
        voice.say(f"{store} is a finished run of {found['created']}, {size(found['bytes'])}.")
        facts = {
            "views": ", ".join(f"{name} ({channels} channels)" for name, channels in found["views"].items()),
            "samples": n,
            "coordinates": q,
            "landmarks": found["shapes"]["landmarks"][0],
            "common": _common(found["views"], found["n_common"]),
            "fingerprint": found["fingerprint"],
            "versions": ", ".join(f"{name} {number}" for name, number in found["versions"].items()),
        }
        if found["cost"]:
            facts["seconds"] = _told_costs({name: cost["seconds"] for name, cost in found["cost"].items()})
        for name, value in facts.items():
            voice.say(f"  {name:<12} {value}")
        for warning in found["warnings"]:
            voice.say(f"  do not trust this result: {warning}")
        voice.finish({"store": store, **_lock(store), **found})


def _common(views: Sized, count: int) -> str:
    """How many variables the views share, in words."""
    return "not tested: one view" if len(views) == 1 else f"{count} at the typical landmark"


def _lock(store: str) -> dict[str, Any]:
    """Who holds a store, for machines."""
    from dlcca.storage import lock_owner

    holder = lock_owner.holder(store)
    return {"lock": None if holder is None else holder.facts()}


def _is_views(voice: Voice, store: str) -> bool:
    """Whether a store is one of views, or a run that has no more yet; if so, what is in it has been said."""
    from dlcca.fitting import runner
    from dlcca.recordings import ingest as ingesting
    from dlcca.recordings import ingest_status
    from dlcca.storage import run as run_store
    from dlcca.storage import views

    inner = f"{store.rstrip('/')}/recordings"
    of_run = not (run_store.is_finished(store) or runner.begun(store))
    place = inner if of_run and (views.is_views(inner) or ingest_status.begun(inner)) else store
    if views.is_views(place):
        found = views.describe(place)
        voice.say(f"{place} has the views of recordings:")
        for line in ingesting.summary(found):
            voice.say(f"  {line}")
        voice.finish({"store": place, "finished": True, **found})
        return True
    stages = ingest_status.progress(place)
    if stages:
        _say_unfinished(voice, place, stages, again="dlcca ingest or dlcca run")
    return bool(stages)


def _is_transformed(voice: Voice, store: str) -> bool:
    """Whether a store is one that `transform` has written or begun; if so, what is in it has been said."""
    from dlcca.fitting import transform as transforming
    from dlcca.storage import transformed

    if transformed.is_transformed(store):
        found = transformed.describe(store)
        voice.say(
            f"{store} has the coordinates of {found['samples']} rows in the model {found['model']}; {found['valid']} "
            f"are valid, {found['outside']} outside what the fit saw."
        )
        voice.finish({"store": store, "finished": True, **found})
        return True
    done = transforming.progress(store)
    if done is not None:
        voice.say(
            f"{store} is not finished: {done[0]} of {done[1]} blocks. Run the same dlcca transform again to go on."
        )
        voice.finish({"store": store, **_lock(store), "finished": False, "done": done[0], "blocks": done[1]})
    return done is not None


def _is_model(voice: Voice, store: str) -> bool:
    """Whether a store is a saved model; if so, what is in it has been said."""
    from dlcca.storage import model
    from dlcca.storage.arrays import open_sealed

    if not model.is_model(store):
        return False
    group, header = open_sealed(store, model.FORM)
    facts = header["content"]["facts"]
    counts = {"landmarks": group["landmarks"].shape[0], "coordinates": group["scale"].shape[0]}
    voice.say(
        f"{store} is a fitted model of {', '.join(facts['model']['names'])}, with {counts['landmarks']} landmarks and "
        f"{counts['coordinates']} coordinates; common: {_common(facts['model']['names'], facts['n_common'])}."
    )
    for warning in facts["warnings"]:
        voice.say(f"  do not trust this result: {warning}")
    voice.finish({"store": store, "finished": True, "views": facts["model"]["names"], **counts, **facts})
    return True


def _say_unfinished(voice: Voice, store: str, stages: Sequence[Any], again: str = "run.toml") -> None:
    """How far a run is that was begun and not finished."""
    voice.say(f"{store} is not finished; run the same {again} again to go on.")
    for stage in stages:
        voice.say(f"  {stage.name:<14} {stage.done} of {stage.blocks} blocks, {stage.seconds:.1f} s of a worker's time")
    voice.finish({"store": store, **_lock(store), "finished": False, "stages": [vars(stage) for stage in stages]})


def _told_costs(seconds: Mapping[str, float]) -> str:
    """What the stages took of the workers' time, the longest first."""
    largest = sorted(seconds.items(), key=lambda entry: -entry[1])
    told = ", ".join(f"{name} {value:.1f}" for name, value in largest)
    return f"{sum(seconds.values()):.1f} of the workers' time ({told})"

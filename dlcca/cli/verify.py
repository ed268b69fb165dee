"""`dlcca verify`: whether a store is complete and unchanged."""

from __future__ import annotations

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet, Store
from dlcca.errors import StoreFileError

EXAMPLE = "Example: dlcca verify demo-output/run.zarr"


def verify(store: Store, as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Check that a finished run is complete and unchanged.

    Reads every file and holds it against the checksums in the manifest and in the records of the blocks.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.fitting import verification
        from dlcca.storage import lock_owner

        with voice.progress() as step:
            step(f"reading {store}")
            holder = lock_owner.holder(store)
            found = verification.look(store)
        for name, damage in found.entries.items():
            voice.say(f"  {'intact ' if damage is None else 'DAMAGED'}  {name}")
        for name in found.strangers:
            voice.say(f"  not ours {name}")
        bad = found.damages
        code = StoreFileError.exit_code if bad else 0
        document = {"intact": not bad, "entries": found.entries, "strangers": found.strangers, "exit_code": code}
        voice.document({"store": store, **document})
        for damage in bad.values():
            voice.warn(f"dlcca: {damage}")
        if holder is not None and not holder.is_dead:
            voice.say(f"It is in use by {holder.sentence()}: what is being written may look damaged.")
        if bad:
            raise typer.Exit(code)
        whole = found.finished
        voice.say(f"{store} is complete and unchanged." if whole else f"What {store} has so far is unchanged.")

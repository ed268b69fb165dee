"""`dlcca tune`: settings for a run, chosen without any truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet, RunToml
from dlcca.cli.views import ingested

EXAMPLE = "Example: dlcca tune run.toml --out tuned.toml"
#: In the last line of a file that is written here, which may be replaced.
MARK = "# Settings chosen by dlcca tune"


def tune(
    runfile: RunToml,
    out: Annotated[
        Path | None, typer.Option(help="The run file with the chosen settings; tuned.toml beside run.toml if not said.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Choose window or n_neighbors, ridge, bandwidth, n_links and fusion; no truth is needed.

    Options are tried by small fits to halves of some rows: coordinates have to come again, and have more in common with
    all views than views have that share nothing. Prints what each option was worth, and writes a run file with those
    that were chosen and a store of its own. The kind of neighborhoods is kept: it says what "common" means.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.inspection.tuning import run_file
        from dlcca.settings import runfile as files
        from dlcca.storage import places
        from dlcca.storage.run import FORM

        asked = files.read(runfile)
        place = runfile.with_name("tuned.toml") if out is None else out
        _refuse_elsewhere(place, runfile)
        _refuse_occupied(place, [runfile, asked.store, *asked.inputs])
        if asked.recordings:
            places.refuse_store(asked.store, FORM, inputs=[runfile, *asked.inputs], setting="[store] path")
            limits = asked.cluster.workers, asked.cluster.memory_gib
            ingested(voice, asked.ingested, asked.recordings, None, *limits)
        with voice.progress() as step:
            step("trying options")
            made = run_file.tune_run(asked)
        chosen = {name: curve.chosen for name, curve in made.curves.items()}
        store = _new_store(runfile, place.stem)
        text = run_file.with_options(runfile.read_text(encoding="utf-8"), chosen, store)
        _write(place, f"{text.rstrip()}\n\n{MARK} from {runfile.name}.\n")
        voice.say(str(made))
        voice.say(f"The run file with these settings is {place}; its store is {store}.")
        voice.next_steps({"run it": f"dlcca run {place}", "what it will take": f"dlcca plan {place}"})
        voice.finish({"out": str(place), "store": store, **_document(made), "options": chosen})


def _refuse_elsewhere(place: Path, runfile: Path) -> None:
    """Paths in a run file are relative to it: in another folder they would mean others."""
    from dlcca.errors import SettingsError

    if place.resolve().parent != runfile.resolve().parent:
        raise SettingsError(f"--out {place} is not in the folder of {runfile}, to which the paths in it are relative.")


def _new_store(runfile: Path, name: str) -> str:
    """The [store] path of a run with other settings, beside that of the run file: run-NAME.zarr for run.zarr.

    Where something is already, it gets a number: it may have been made with yet other settings.
    """
    import itertools
    import tomllib

    from dlcca.storage import places

    said = str(tomllib.loads(runfile.read_text(encoding="utf-8"))["store"]["path"]).rstrip("/")
    stem, end = (said.removesuffix(".zarr"), ".zarr") if said.endswith(".zarr") else (said, "")
    numbered = (f"{stem}-{name}{f'-{number}' if number > 1 else ''}{end}" for number in itertools.count(1))
    return next(made for made in numbered if places.find(made if "://" in made else runfile.parent / made).is_free)


def _refuse_occupied(place: Path, inputs: list[Any]) -> None:
    from dlcca.storage import places

    def is_ours(path: Path) -> bool:
        return path.read_bytes().rpartition(b"\n\n")[2].startswith(MARK.encode())

    places.refuse_file(place, is_ours, "a run file written by dlcca tune", inputs=inputs)


def _write(place: Path, text: str) -> None:
    from dlcca.errors import StorageError

    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror or error}.") from error


def _document(made: Any) -> dict[str, Any]:
    """What was found, for machines."""
    curves = {
        name: {"candidates": curve.candidates, "criterion": curve.criterion, "reason": curve.reason}
        for name, curve in made.curves.items()
    }
    told = ("rule", "by_chance", "rows", "of_rows", "trials", "cost")
    return {**{name: getattr(made, name) for name in told}, "curves": curves}

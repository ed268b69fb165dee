"""`dlcca pipeline examples`: settings to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet

EXAMPLE = "Example: dlcca pipeline examples --out my-settings"


def examples(
    out: Annotated[Path | None, typer.Option(help="Folder to copy them to, for you to change.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say where the example settings are, or copy them.

    A run.toml, pipelines for a folder and for object storage, and files for schedulers. Files that are there already
    are not replaced.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.clusters.profiles_included import first_words
        from dlcca.pipelines import examples as ready
        from dlcca.storage import places

        if out is not None:
            places.refuse_folder(out)
        files = ready.copied(out) if out is not None else ready.files()
        for file in files:
            voice.say(f"{file!s:<40} {first_words(file)}")
        voice.finish({"files": [str(file) for file in files]})

"""`dlcca cluster`: where runs may run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Help, Quiet

clusters = typer.Typer(
    help="Where runs may run. Try: dlcca cluster profiles",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@clusters.callback()
def cluster_verbs(
    help: Help = False,
) -> None:
    """Where runs may run. Try: dlcca cluster profiles"""


@clusters.command("profiles", epilog="Example: dlcca cluster profiles --out my-cluster")
def cluster_profiles(
    out: Annotated[Path | None, typer.Option(help="Folder to copy them to, for you to change.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say where the ready cluster files are, or copy them.

    One for each kind of queue, for Kubernetes and for clouds, a Containerfile and a batch script. Files that are there
    already are not replaced.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.clusters import profiles_included
        from dlcca.storage import places

        if out is not None:
            places.refuse_folder(out)
        files = profiles_included.copied(out) if out is not None else profiles_included.files()
        for file in files:
            voice.say(f"{file!s:<40} {profiles_included.first_words(file)}")
        voice.finish({"files": [str(file) for file in files]})


@clusters.command("check", epilog="Example: dlcca cluster check my-cluster/local.toml --store run.zarr")
def cluster_check(
    file: Annotated[str, typer.Argument(metavar="FILE|ADDRESS", help="A cluster file, or a Dask scheduler.")],
    store: Annotated[str | None, typer.Option(help="A place that every worker must read and write.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Start a cluster and see whether it can do a run.

    Starts the workers, sends a task to each, compares the versions of packages, and has every worker read and write
    the store. What is wrong is said in words, with exit code 4, or 2 if it is the file.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.clusters import check, profile_for
        from dlcca.errors import ClusterError

        place = store if store is None or "://" in store else str(Path(store).resolve())
        with voice.progress() as step:
            step(f"starting the workers of {file}")
            found = check.check(profile_for(file, None, None), place, voice.warn)
        for text in found.well:
            voice.say(f"  well    {text}")
        for text in found.wrong:
            voice.warn(f"  WRONG   {text}")
        code = ClusterError.exit_code if found.wrong else 0
        voice.document({**vars(found), "exit_code": code})
        if found.wrong:
            raise typer.Exit(code)
        voice.say(f"{file} is fit for a run.")

"""`dlcca cluster`: where runs may run."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dlcca.cli.verb import Console, CopyTo, group, verb
from dlcca.errors import ClusterError


@verb(example="dlcca cluster profiles --out my-cluster")
def profiles(console: Console, out: CopyTo = None) -> None:
    """Print where the ready cluster files are, or copy them.

    One for each kind of queue, for Kubernetes and for clouds, a Containerfile and a batch script. Files that are there
    already are not replaced.
    """
    from dlcca.clusters.profile import included_folder

    list_or_copy(console, included_folder(), out)


def list_or_copy(console: Console, folder: Path, out: Path | None) -> None:
    """Print the files in a folder that comes with the package, or copy them."""
    from dlcca.clusters.profile import copy_files, files_below, first_words
    from dlcca.storage import places

    if out is not None:
        places.refuse_folder(out)
    files = files_below(folder) if out is None else copy_files(folder, out)
    console.say(*(f"{file!s:<40} {first_words(file)}" for file in files))
    console.finish({"files": [str(file) for file in files]})


@verb(example="dlcca cluster check my-cluster/local.toml --store run.zarr")
def check(
    console: Console,
    file: Annotated[str, Argument(metavar="FILE|ADDRESS", help="A cluster file, or a Dask scheduler.")],
    store: Annotated[str | None, Option(help="A place that every worker must read and write.")] = None,
) -> None:
    """Start a cluster and check whether it can do a run.

    Starts the workers, sends a task to each, compares the versions of packages, and lets every worker read and write
    the store. Problems are printed, with exit code 4, or 2 if the file is wrong.
    """
    from dlcca.clusters import check as checks
    from dlcca.clusters import profile_for

    place = store if store is None or "://" in store else str(Path(store).resolve())
    console.step(f"starting the workers of {file}")
    found = checks.check(profile_for(file, None, None), place, console.warn)
    console.say(*(f"  well    {text}" for text in found.well))
    console.warn(*(f"  WRONG   {text}" for text in found.wrong))
    if not found.wrong:
        console.say(f"{file} can be used for a run.")
    console.finish(vars(found), code=ClusterError.exit_code if found.wrong else 0)


clusters = group("Where runs may run. Try: dlcca cluster profiles", profiles, check)

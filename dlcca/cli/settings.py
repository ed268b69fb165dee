"""`dlcca tune`, `dlcca schema` and `dlcca cluster`: settings files that are chosen, described, copied and checked."""

import itertools
import json
import tomllib
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from dlcca.cli.run import ingest_views
from dlcca.cli.verb import Console, CopyTo, RunToml, group, verb
from dlcca.errors import ClusterError, SettingsError
from dlcca.settings.runfile import read, run_schema
from dlcca.settings.schema import choice

#: In the last line of a file that is written here, which may be replaced.
MARK = "# Settings chosen by dlcca tune"


@verb(example="dlcca tune run.toml --out tuned.toml")
def tune(
    console: Console,
    runfile: RunToml,
    out: Annotated[Path | None, Option(help="The run file to write. Default: tuned.toml beside run.toml.")] = None,
) -> None:
    """Choose window or n_neighbors, ridge, bandwidth, n_links and fusion; no truth is needed.

    Options are tried by small fits to halves of some rows: coordinates have to be reproduced, and to have more in
    common with all views than is found in views that share nothing. Prints the score of each option, and writes a run
    file with those that were chosen and a store of its own. The kind of neighborhoods is kept: it defines "common".
    """
    from dlcca.inspection import tuning
    from dlcca.storage import places
    from dlcca.storage.files import atomic_file
    from dlcca.storage.run import FORM

    requested = read(runfile)
    place = runfile.with_name("tuned.toml") if out is None else out
    if place.resolve().parent != runfile.resolve().parent:
        raise SettingsError(f"--out {place} is not in the folder of {runfile}, to which the paths in it are relative.")

    def is_ours(path: Path) -> bool:
        return path.read_bytes().rpartition(b"\n\n")[2].startswith(MARK.encode())

    inputs: list[str | Path] = [runfile, requested.store, *requested.inputs]
    places.refuse_file(place, is_ours, "a run file written by dlcca tune", inputs=inputs)
    if requested.recordings:
        places.refuse_store(requested.store, FORM, inputs=[runfile, *requested.inputs], setting="[store] path")
        ingest_views(console, requested.ingested, requested.recordings, None, requested.cluster)
    console.step("trying options")
    made = tuning.tune_run(requested)
    chosen = {name: curve.chosen for name, curve in made.curves.items()}
    written = runfile.read_text(encoding="utf-8")
    store = _new_store(runfile, tomllib.loads(written)["store"]["path"], place.stem)
    text = tuning.with_options(written, chosen, store)
    with atomic_file(place) as temporary:
        temporary.write_text(f"{text.rstrip()}\n\n{MARK} from {runfile.name}.\n", encoding="utf-8")
    console.say(str(made), f"The run file with these settings is {place}; its store is {store}.")
    console.next_steps(("run it", f"dlcca run {place}"), ("what it will take", f"dlcca plan {place}"))
    document = {name: getattr(made, name) for name in ("rule", "by_chance", "rows", "of_rows", "trials", "cost")}
    shown = ("candidates", "criterion", "reason")
    curves = {name: {key: getattr(curve, key) for key in shown} for name, curve in made.curves.items()}
    console.finish({"out": str(place), "store": store, **document, "curves": curves, "options": chosen})


def _new_store(runfile: Path, path: str, name: str) -> str:
    """The first free of run-NAME.zarr, run-NAME-2.zarr, ... for the [store] path run.zarr of a run file."""
    from dlcca.storage import places

    path = path.rstrip("/")
    stem, end = (path.removesuffix(".zarr"), ".zarr") if path.endswith(".zarr") else (path, "")
    numbered = (f"{stem}-{name}{f'-{number}' if number > 1 else ''}{end}" for number in itertools.count(1))
    return next(made for made in numbered if places.find(made if "://" in made else runfile.parent / made).is_free)


@verb(example="dlcca schema run --out run.schema.json")
def schema(
    console: Console,
    kind: Annotated[str, Argument(metavar="run|cluster|pipeline", help="Which kind of file.")],
    out: Annotated[Path | None, Option(help="File to write it to; without one it is printed.")] = None,
) -> None:
    """Print the JSON Schema of a settings file.

    An editor that knows it completes keys, shows what they mean and marks those that dlcca would refuse.
    """
    from dlcca.clusters.profile import cluster_schema
    from dlcca.pipelines.settings import pipeline_schema
    from dlcca.storage.files import atomic_file

    schemas = {"run": run_schema, "cluster": cluster_schema, "pipeline": pipeline_schema}
    choice(*schemas).check("kind of file", kind, " = ")
    text = json.dumps(schemas[kind](), indent=2, ensure_ascii=False)
    if out is None:
        typer.echo(text)
        return
    with atomic_file(out) as temporary:
        temporary.write_text(f"{text}\n", encoding="utf-8")
    console.say(f"{out} is the JSON Schema of {kind} files.")
    console.finish({"file": str(out)})


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

"""Options and arguments that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Store = Annotated[str, typer.Argument(metavar="STORE", help="A finished run, as run.zarr.", show_default=False)]
RunToml = Annotated[Path, typer.Argument(metavar="run.toml", help="What to run: views, settings, store, cluster.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="FILE|ADDRESS", help="A cluster file, as slurm.toml, or a Dask scheduler; local if not said."),
]
MissingChunks = Annotated[
    str, typer.Option(metavar="refuse|fill", help="Zarr arrays that lack chunks: refuse them, or read fill values.")
]


def _show_help(context: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(context.get_help())
        raise typer.Exit


#: For a group of verbs: without an option of our own typer imports pydantic (0.2 s) before the help of any of them.
Help = Annotated[
    bool, typer.Option("--help", "-h", callback=_show_help, is_eager=True, help="Show this message and exit.")
]

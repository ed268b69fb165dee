"""The command line: parses arguments, calls the rooms below, and prints the result.

A verb is a function with the decorator `verb`. Only typer is imported before a verb runs: help is printed at once.
"""

from typing import Annotated

import typer

from dlcca import __version__
from dlcca.cli import demo, pipeline, report, run, settings, status, transform
from dlcca.cli.verb import Console, Help, exit_on_closed_pipe, group

__all__ = ["Console", "app", "main"]


def main() -> None:
    """What the command `dlcca` calls."""
    exit_on_closed_pipe()
    app(prog_name="dlcca")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dlcca {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    help: Help = False,
) -> None: ...


app = group(
    "Find what your sensors have in common. Try: dlcca demo",
    *(demo.demo, demo.reproduce, run.plan, run.ingest, settings.tune, run.run, transform.transform, transform.refit),
    *(report.export, report.report, report.compare, status.status, status.verify, settings.schema),
    callback=_options,
)
app.add_typer(pipeline.pipelines, name="pipeline")
app.add_typer(settings.clusters, name="cluster")

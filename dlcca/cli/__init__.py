"""The command line: parses arguments, has the work done, and says what came of it.

A verb is a module of its name, here. Nothing but typer is imported before a verb runs, so that help comes at once.
Exit codes: 0 done; 2 bad usage or settings; 3 the data was refused; 4 storage failed; 5 done, but the result should not
be trusted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dlcca import __version__
from dlcca.cli import (
    cluster,
    compare,
    demo,
    export,
    ingest,
    pipeline,
    pipeline_examples,
    pipeline_install,
    pipeline_page,
    pipeline_serve,
    plan,
    refit,
    report,
    reproduce,
    run,
    status,
    transform,
    tune,
    verify,
)
from dlcca.cli.console import UNTRUSTED, Voice, end_quietly_when_unread, speaking
from dlcca.cli.options import Help

__all__ = ["UNTRUSTED", "Voice", "app", "main", "speaking"]

app = typer.Typer(
    help="Find what your sensors have in common. Try: dlcca demo",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich would take as long to import as all the rest
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """What the command `dlcca` calls."""
    end_quietly_when_unread()
    app(prog_name="dlcca")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dlcca {__version__}")
        raise typer.Exit


@app.callback()
def dlcca(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    help: Help = False,
) -> None:
    """Find what your sensors have in common. Try: dlcca demo"""


# In the order of the help.
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("reproduce", epilog=reproduce.EXAMPLE)(reproduce.reproduce)
app.command("plan", epilog=plan.EXAMPLE)(plan.plan)
app.command("ingest", epilog=ingest.EXAMPLE)(ingest.ingest)
app.command("tune", epilog=tune.EXAMPLE)(tune.tune)
app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("transform", epilog=transform.EXAMPLE)(transform.transform)
app.command("refit", epilog=refit.EXAMPLE)(refit.refit)
app.command("export", epilog=export.EXAMPLE)(export.export)
app.command("report", epilog=report.EXAMPLE)(report.report)
app.command("compare", epilog=compare.EXAMPLE)(compare.compare)
app.command("status", epilog=status.EXAMPLE)(status.status)
app.command("verify", epilog=verify.EXAMPLE)(verify.verify)
pipeline.pipelines.command("examples", epilog=pipeline_examples.EXAMPLE)(pipeline_examples.examples)
pipeline.pipelines.command("page", epilog=pipeline_page.EXAMPLE)(pipeline_page.page)
pipeline.pipelines.command("install", epilog=pipeline_install.EXAMPLE)(pipeline_install.install)
pipeline.pipelines.command("serve", epilog=pipeline_serve.EXAMPLE)(pipeline_serve.serve)
app.add_typer(pipeline.pipelines, name="pipeline")
app.add_typer(cluster.clusters, name="cluster")

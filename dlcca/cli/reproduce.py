"""`dlcca reproduce`: the paper's experiments beside the baselines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet

EXAMPLE = "Example: dlcca reproduce --out reproduce-output"


def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the table.")] = Path("reproduce-output"),
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run the paper's experiments beside the baselines.

    Leaves figures and a table in the folder, and holds every figure against what is expected of it.
    """
    with speaking(as_json, quiet, debug) as voice:
        import warnings

        from dlcca import reproduce as experiments
        from dlcca.errors import Untrusted

        # Some experiments show how a method fails; it is their table that says whether they went as expected.
        with voice.progress() as step, warnings.catch_warnings():
            warnings.simplefilter("ignore", Untrusted)
            rows = experiments.run(out, step)
        if not (as_json or quiet):
            _print_table(rows)
            voice.say(f"The figures are in {out}.")
        table = [{name: getattr(row, name) for name in ("figure", "expected", "got", "met")} for row in rows]
        missed = [f"{row.figure}: expected {row.expected}, got {row.got}" for row in rows if row.met is False]
        voice.finish({"out": str(out), "rows": table}, missed)


def _print_table(rows: Sequence[Any]) -> None:
    """The figures against what is expected of them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("figure", "expected", "got", "met")
    for row in rows:
        met = {True: Text("yes", "green"), False: Text("no", "bold red")}.get(row.met, Text("reported"))
        table.add_row(Text(str(row.figure)), Text(str(row.expected)), Text(str(row.got)), met)
    Console(width=None if sys.stdout.isatty() else 120).print(table)

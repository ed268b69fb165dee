"""`dlcca demo` and `dlcca reproduce`: simulated movies, and the paper's experiments."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from dlcca.cli.verb import Console, verb
from dlcca.errors import Untrusted


@verb(example="dlcca demo --out demo-output")
def demo(
    console: Console, out: Annotated[Path, Option(help="Folder for run.zarr and report.html.")] = Path("demo-output")
) -> None:
    """Find the pendulum that two simulated movies share.

    Simulates two movies of coupled pendulums, each with a private pendulum in it, fits them with the default settings,
    and leaves run.zarr and report.html in the folder. An earlier demo there is replaced; other files are left alone.
    """
    from dlcca import demo as demonstration

    made = demonstration.run(out, console.step)
    console.say(made.summary, f"\n{demonstration.sentence(made.found)}\n")
    console.next_steps(
        ("look at the report", str(made.report)),
        ("find what your recordings share", "from dlcca import LocalCCA; LocalCCA().fit([X, Y]).embedding_"),
        ("rerun the paper's experiments", "dlcca reproduce"),
    )
    run = made.run
    document: dict[str, Any] = {"store": str(made.store), "report": str(made.report), "correlations": made.found}
    document |= {"samples": len(run.embedding), "landmarks": len(run.landmarks)}
    document |= {name: getattr(run, name) for name in ("n_common", "quality", "warnings", "fingerprint")}
    console.finish({**document, "eigenvalues": run.eigenvalues.tolist()}, run.warnings)


@verb(example="dlcca reproduce --out reproduce-output")
def reproduce(
    console: Console,
    out: Annotated[Path, Option(help="Folder for the figures and the table.")] = Path("reproduce-output"),
) -> None:
    """Run the paper's experiments beside the baselines.

    Leaves figures and a table in the folder, and compares every number with what is expected of it.
    """
    from rich.console import Console as Terminal
    from rich.table import Table
    from rich.text import Text

    from dlcca import reproduce as experiments

    # Some experiments show how a method fails; it is their table that says whether they went as expected.
    with warnings.catch_warnings(action="ignore", category=Untrusted):
        rows = experiments.run(out, console.step)
    table = Table("figure", "expected", "got", "met")
    for row in rows:
        met = {True: Text("yes", "green"), False: Text("no", "bold red"), None: Text("reported")}[row.met]
        table.add_row(Text(str(row.figure)), Text(str(row.expected)), Text(str(row.got)), met)
    terminal = Terminal(width=None if sys.stdout.isatty() else 120)
    with terminal.capture() as text:
        terminal.print(table)
    console.say(text.get().rstrip("\n"), f"The figures are in {out}.")
    document = [{name: getattr(row, name) for name in ("figure", "expected", "got", "met")} for row in rows]
    missed = [f"{row.figure}: expected {row.expected}, got {row.got}" for row in rows if row.met is False]
    console.finish({"out": str(out), "rows": document}, missed)

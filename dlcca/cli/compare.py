"""`dlcca compare`: a finished run against the baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet, RunToml

EXAMPLE = "Example: dlcca compare run.toml --truth breaths.npz:phase --circular"


def compare(
    runfile: RunToml,
    out: Annotated[Path, typer.Option(help="Folder for compare.json and compare.html.")] = Path("compare-output"),
    rows: Annotated[int, typer.Option(help="Compare at most this many rows, spread evenly.")] = 5000,
    truth: Annotated[
        str | None,
        typer.Option(metavar="FILE[:NAME]", help="A value for each row: .npy, an array of .npz, a column of .csv."),
    ] = None,
    circular: Annotated[bool, typer.Option("--circular", help="The truth is a phase, in radians.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="The truth is a label, a number or a text.")] = False,
    folds: Annotated[str, typer.Option(help="How rows are held out for the truth: auto, blocked or random.")] = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Hold a finished run against the baselines, on the same views.

    Diffusion maps, kernel CCA, alternating diffusion and linear CCA; each also on views that are shifted in time, as a
    control. Says how far they agree, how much of each every view sees, and, with --truth, how well each tells it. The
    comparison is kept in the run, where dlcca report finds it.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca import compare as comparing
        from dlcca.compare import output
        from dlcca.settings import runfile as files

        asked = files.read(runfile)
        known = output.known_truth(truth, circular, labels, folds)
        output.refuse_occupied(out, [runfile, asked.store, *asked.inputs])
        with voice.progress() as step:
            made = comparing.compare(asked, rows=rows, truth=known, folds=folds, say=step)
            step(f"drawing {out / output.PAGE}")
            output.write(out, asked.store, made)
        for line in output.lines(made):
            voice.say(line)
        voice.say(f"The comparison is in {out / output.PAGE} and {out / output.TABLE}.")
        voice.next_steps(
            {
                "open it in a browser": str(out / output.PAGE),
                "see it beside the result": f"dlcca report {asked.store}",
                "against what you know": f"dlcca compare {runfile} --truth FILE:NAME",
            }
        )
        voice.finish({"store": asked.store, "out": str(out), **output.document(made)})

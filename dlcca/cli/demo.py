"""`dlcca demo`: finds the pendulum that two simulated movies share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet

EXAMPLE = "Example: dlcca demo --out demo-output"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for run.zarr and report.html.")] = Path("demo-output"),
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find the pendulum that two simulated movies share.

    Simulates two movies of coupled pendulums, each with a private pendulum in it, fits them with the default settings,
    and leaves run.zarr and report.html in the folder. An earlier demo there is replaced; other files are left alone.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca import demo as demonstration

        with voice.progress() as step:
            made = demonstration.run(out, step)
        voice.say(made.summary)
        voice.say(f"\n{demonstration.sentence(made.found)}\n")
        voice.next_steps(
            {
                "look at the report": str(made.report),
                "find what your recordings share": "from dlcca import LocalCCA; LocalCCA().fit([X, Y]).embedding_",
                "rerun the paper's experiments": "dlcca reproduce",
            }
        )
        found = {"store": str(made.store), "report": str(made.report), "correlations": made.found}
        voice.finish({**found, **_result(made.run)}, made.run.warnings)


def _result(run: Any) -> dict[str, Any]:
    """What a run found, for machines."""
    return {
        "samples": len(run.embedding),
        "landmarks": len(run.landmarks),
        "n_common": run.n_common,
        "eigenvalues": run.eigenvalues.tolist(),
        "quality": run.quality,
        "warnings": run.warnings,
        "fingerprint": run.fingerprint,
    }

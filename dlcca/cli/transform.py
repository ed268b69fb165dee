"""`dlcca transform`: new recordings in the coordinates of a fitted model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Cluster, Debug, MissingChunks, Quiet
from dlcca.cli.views import inputs_of, new_views
from dlcca.cli.workers import client_if_worthwhile

EXAMPLE = "Example: dlcca transform run.zarr monday.edf tuesday.edf --out week.zarr"


def transform(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A finished run, or a saved model.")],
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Recordings; a store of views; or arrays, as NAME=left.zarr."),
    ],
    out: Annotated[str, typer.Option(help="The store that is written.")],
    cluster: Cluster = None,
    workers: Annotated[int, typer.Option(help="Processes of a local cluster; 1 works without one.")] = 1,
    missing_chunks: MissingChunks = "refuse",
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Give new recordings the coordinates of a fitted model.

    They are treated as the recordings of the fit were: the same channels, windows, features and scaling. Each row also
    gets its distance to what the fit has seen; beyond 1 it is outside. Files without the channels of a view are taken
    where the fusion can do without. A second call does only what is missing.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.fitting import transform as transforming
        from dlcca.storage import lock, places, transformed

        inputs = [model, *inputs_of(files)]
        places.refuse_store(out, transformed.FORM, inputs=inputs, setting="--out")
        with lock.held(out, "dlcca transform"):
            place = f"{out.rstrip('/')}/recordings"
            sources, clock = new_views(voice, model, files, place, cluster, workers, missing_chunks)
            job = transforming.prepared(out, model, sources, clock)
            with voice.bars() as tell, client_if_worthwhile(voice, cluster, workers, job.stage.n_blocks) as client:
                header = transforming.run(job, client, tell)
        told = (
            f"{header['samples']} rows, {header['valid']} of them valid, {header['outside']} outside what the fit saw."
        )
        voice.say(told)
        for note in header.get("notes", ()):
            voice.say(f"  note: {note}")
        if header["missing_views"]:
            voice.say(f"  without {', '.join(header['missing_views'])}, which the files do not have")
        voice.next_steps(
            {
                "for other tools": f"dlcca export {out} --to parquet --out {Path(out).stem}.parquet",
                "add it to the model": f"dlcca refit {model} {' '.join(files)} --out both.zarr",
                "use it in Python": f"zarr.open_group({out!r})['embedding']",
            }
        )
        voice.finish({"store": out, **header}, _mostly_outside(header))


def _mostly_outside(header: Mapping[str, Any]) -> list[str]:
    """A reason for doubt if most rows are unlike anything that the fit has seen."""
    if header["outside"] * 2 <= header["valid"]:
        return []
    share = header["outside"] / header["valid"]
    return [f"{share:.0%} of the rows are outside what the fit saw; are these the same sensors, in the same place?"]

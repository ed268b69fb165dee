"""`dlcca export`: the coordinates, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet

EXAMPLE = "Example: dlcca export run.zarr --to parquet --out run.parquet"


def export(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A finished run, or what dlcca transform wrote.")],
    to: Annotated[str, typer.Option("--to", help="parquet, csv, xarray (netcdf or zarr), or mne (fif).")],
    out: Annotated[Path, typer.Option(help="The file that is written; an earlier export there is replaced.")],
    rate: Annotated[float | None, typer.Option(help="Rows in a second, for mne where rows are counted.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write the coordinates for other tools.

    With the time of every row, the reason where it has no coordinates, and whether it is outside what the fit saw.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.export import writing

        kind = writing.format_of(to, out)
        with voice.progress() as step:
            step(f"writing {out}")
            writing.write(store, kind, out, rate=rate)
        voice.say(f"The coordinates of {store} are in {out}.")
        voice.finish({"store": store, "out": str(out), "format": kind})

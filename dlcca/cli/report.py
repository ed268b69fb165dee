"""`dlcca report`: the HTML report of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet, Store

EXAMPLE = "Example: dlcca report demo-output/run.zarr --out report.html"


def report(
    store: Store,
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; beside the store and named like it if not said.")
    ] = None,
    color: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE[:NAME]",
            help="A value or a label for each row, to colour by: .npy, an array of .npz, a column of .csv. Repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw the report of a finished run.

    It is one HTML file that needs no network. A report that is there already is replaced. Rows may be coloured by time,
    by the channels at the landmarks, by the annotations of the recordings, and by whatever --color names.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.report import overview, page
        from dlcca.storage import comparison
        from dlcca.storage import run as run_store

        name = Path(store).name
        beside = Path() / name if "://" in store else Path(store)  # a report on a remote run is written here
        place = out if out is not None else beside.with_suffix(".html")
        page.refuse_foreign(place, [store, *(each.partition(":")[0] for each in color or [])])
        known = _known(color or [])
        with voice.progress() as step:
            step(f"reading {store}")
            compared = comparison.of_run(store, run_store.describe(store)["fingerprint"])
            found = overview.of_store(store, known=known, also=() if compared is None else compared.rows)
            step(f"drawing {place}")
            page.write(place, page.render(found, title=f"dlcca report of {name}", compared=compared))
        headline = page.headline(found)
        voice.say(f"{headline}.")
        voice.say(f"The report is {place}.")
        voice.next_steps(
            {
                "open it in a browser": str(place),
                "for other tools": f"dlcca export {store} --to parquet --out {Path(name).stem}.parquet",
                "new recordings into it": f"dlcca transform {store} FILE... --out new.zarr",
            }
        )
        voice.finish({"store": store, "report": str(place), "headline": headline})


def _known(said: list[str]) -> dict[str, Any]:
    """What is known of every row, by name."""
    from dlcca.compare.truth import read_truth
    from dlcca.errors import DlccaError

    found: dict[str, Any] = {}
    for each in said:
        try:
            truth = read_truth(each, "label")
        except DlccaError as error:
            raise type(error)(str(error).replace("--truth", "--color")) from error
        found[truth.name] = truth.values
    return found

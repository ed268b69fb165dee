"""`dlcca report`, `dlcca compare`, `dlcca export`: a finished run as a page, beside baselines, for other tools."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dlcca.cli.verb import Console, RunToml, Store, verb
from dlcca.settings.runfile import read


@verb(example="dlcca report demo-output/run.zarr --out report.html")
def report(
    console: Console,
    store: Store,
    out: Annotated[Path | None, Option(help="The HTML file. Default: beside the store, named like it.")] = None,
    color: Annotated[
        list[str] | None,
        Option(metavar="FILE[:NAME]", help="A value or label for each row, in .npy, .npz or .csv. Repeatable."),
    ] = None,
) -> None:
    """Draw the report of a finished run.

    It is one HTML file that needs no network. A report that is there already is replaced. Rows may be coloured by time,
    by the channels at the landmarks, by the annotations of the recordings, and by the values of --color.
    """
    from dlcca.compare.truth import read_truth
    from dlcca.report import overview, page
    from dlcca.storage import comparison
    from dlcca.storage import run as run_store

    name = Path(store).name
    beside = Path(name) if "://" in store else Path(store)  # a report on a remote run is written here
    place = beside.with_suffix(".html") if out is None else out
    page.refuse_foreign(place, [store, *(each.partition(":")[0] for each in color or [])])
    colors = [read_truth(file, "label", "--color") for file in color or []]
    console.step(f"reading {store}")
    compared = comparison.of_run(store, run_store.describe(store)["fingerprint"])
    known = {given.name: given.values for given in colors}
    found = overview.of_store(store, known=known, also=() if compared is None else compared.rows)
    console.step(f"drawing {place}")
    page.write(place, page.render(found, title=f"dlcca report of {name}", compared=compared))
    headline = page.headline(found)
    console.say(f"{headline}.", f"The report is {place}.")
    console.next_steps(
        ("open it in a browser", str(place)),
        ("for other tools", f"dlcca export {store} --to parquet --out {Path(name).stem}.parquet"),
        ("new recordings into it", f"dlcca transform {store} FILE... --out new.zarr"),
    )
    console.finish({"store": store, "report": str(place), "headline": headline})


@verb(example="dlcca compare run.toml --truth breaths.npz:phase --circular")
def compare(
    console: Console,
    runfile: RunToml,
    out: Annotated[Path, Option(help="Folder for compare.json and compare.html.")] = Path("compare-output"),
    rows: Annotated[int, Option(help="Compare at most this many rows, evenly spaced.")] = 5000,
    truth: Annotated[
        str | None,
        Option(metavar="FILE[:NAME]", help="A value for each row: .npy, an array of .npz, a column of .csv."),
    ] = None,
    circular: Annotated[bool, Option("--circular", help="The truth is a phase, in radians.")] = False,
    labels: Annotated[bool, Option("--labels", help="The truth is a label, a number or a text.")] = False,
    folds: Annotated[str, Option(help="How rows are held out for the truth: auto, blocked or random.")] = "auto",
) -> None:
    """Compare a finished run with the baselines, on the same views.

    Diffusion maps, kernel CCA, alternating diffusion and linear CCA; each also on views that are shifted in time, as a
    control. Prints how far they agree, the R² of each predicted from every view, and, with --truth, how well the truth
    is predicted from each. The comparison is kept in the run, where dlcca report finds it.
    """
    from dlcca import compare as comparing
    from dlcca.compare import comparison as output
    from dlcca.compare import truth as truths

    requested = read(runfile)
    known = truths.truth_of_options(truth, circular, labels, folds)
    output.refuse_occupied(out, [runfile, requested.store, *requested.inputs])
    made = comparing.compare(requested, rows=rows, truth=known, folds=folds, say=console.step)
    console.step(f"drawing {out / output.PAGE}")
    output.write(out, requested.store, made)
    console.say(*output.lines(made), f"The comparison is in {out / output.PAGE} and {out / output.TABLE}.")
    console.next_steps(
        ("open it in a browser", str(out / output.PAGE)),
        ("see it beside the result", f"dlcca report {requested.store}"),
        ("compare with a known variable", f"dlcca compare {runfile} --truth FILE:NAME"),
    )
    console.finish({"store": requested.store, "out": str(out), **output.document(made)})


@verb(example="dlcca export run.zarr --to parquet --out run.parquet")
def export(
    console: Console,
    store: Annotated[str, Argument(metavar="STORE", help="A finished run, or what dlcca transform wrote.")],
    to: Annotated[str, Option("--to", help="parquet, csv, xarray (netcdf or zarr), or mne (fif).")],
    out: Annotated[Path, Option(help="The file that is written; an earlier export there is replaced.")],
    rate: Annotated[float | None, Option(help="Rows in a second, for mne where rows are counted.")] = None,
) -> None:
    """Write the coordinates for other tools.

    With the time of every row, the reason where it has no coordinates, and whether it is outside the data of the fit.
    """
    from dlcca.export import formats

    kind = formats.format_of(to, out)
    console.step(f"writing {out}")
    formats.write(store, kind, out, rate=rate)
    console.say(f"The coordinates of {store} are in {out}.")
    console.finish({"store": store, "out": str(out), "format": kind})

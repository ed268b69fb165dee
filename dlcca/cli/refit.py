"""`dlcca refit`: a day appended to a fitted model."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any, Literal

import typer

from dlcca.cli.console import Voice, speaking
from dlcca.cli.options import AsJson, Cluster, Debug, Quiet
from dlcca.cli.rows import appended_rows, are_large, rows_of_fit
from dlcca.cli.views import inputs_of
from dlcca.cli.workers import client_if_worthwhile

EXAMPLE = "Example: dlcca refit run.zarr tuesday.edf --out both.zarr"


def refit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A finished run, or a saved model.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="What is new: recordings; a store of views; arrays, as NAME=left.zarr; or a run.toml, for its views.",
        ),
    ],
    out: Annotated[str, typer.Option(help="The model that is written; one that is there is replaced.")],
    old: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STORE|NAME=ARRAY|run.toml", help="The rows of the fit, where the run does not hold them itself."
        ),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Do without the rows of the fit: its landmarks stand for them.")
    ] = False,
    align: Annotated[
        Literal["rotation", "sign", "none"], typer.Option(help="How the axes are laid on the old ones.")
    ] = "rotation",
    cluster: Cluster = None,
    workers: Annotated[int, typer.Option(help="Processes of a local cluster; 1 works without one.")] = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Append new recordings to a fitted model.

    Old and new rows are fitted together. The landmarks are kept, and new rows that are outside what the fit saw get
    landmarks of their own; the axes are laid on the old ones, and how much the old rows moved is told. The views of new
    recordings are kept beside the model, both-views.zarr for both.zarr.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.estimator import open_model

        _refuse_other_place(out, [model, *inputs_of([*files, *(old or [])])])
        fitted = open_model(model).set_params(random_state=0)
        before = rows_of_fit(model, fitted, old, alone)
        new, clock = appended_rows(voice, model, fitted, files, _views_beside(out), cluster, workers)
        large = are_large(new, before)  # what is in memory is fitted here
        wanted = client_if_worthwhile(voice, cluster, workers, None) if large else nullcontext()
        with voice.progress() as step, wanted as client:
            step("fitting old and new rows together")
            both = _refitted(fitted.set_params(client=client), new, before, align)
            step(f"writing {out}")
            both.save(out)
        _say_change(voice, both, _count(new), alone=before is None)
        again = clock or ("FILE..." if files[0].endswith(".toml") else " ".join(files))
        first = "landmarks" if before is None else "old rows"
        voice.next_steps(
            {
                "coordinates with times": f"dlcca transform {out} {again} --out {_stem(out)}-new.zarr",
                "use it in Python": f"dlcca.open_model({out!r}).embedding_, the {first} first",
                "draw it in Python": f"dlcca.open_model({out!r}).plot.embedding()",
            }
        )
        voice.finish(
            {"store": out, "model": model, "views": clock or None, **_document(both, new, before)}, both.warnings_
        )


def _refuse_other_place(out: str, inputs: list[str]) -> None:
    """An error, before anything is fitted, if the model or the new views cannot be written there."""
    from dlcca.errors import SettingsError
    from dlcca.storage import model, places, views
    from dlcca.storage.files import is_remote

    if is_remote(out):
        raise SettingsError(f"--out {out} is not on this machine's disks; give a folder here, and copy it there.")
    places.refuse_store(out, model.FORM, inputs=inputs, setting="--out", replace=True)
    places.refuse_store(_views_beside(out), views.FORM, setting="--out, beside which the views are written")


def _stem(out: str) -> str:
    return out.rstrip("/").removesuffix(".zarr")


def _views_beside(out: str) -> str:
    """Where the views of new recordings are kept."""
    return f"{_stem(out)}-views.zarr"


def _refitted(fitted: Any, new: Any, old: Any, align: str) -> Any:
    """The model of old and new rows; reasons for doubt are told by the verb, not as warnings."""
    import warnings

    from dlcca.errors import Untrusted

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return fitted.refit(new, old, align=align)


def _count(views: Any) -> int:
    return int(next(iter(views.values())).shape[0])


def _say_change(voice: Voice, both: Any, n_new: int, *, alone: bool) -> None:
    """What was kept, what was added, and how far the old rows moved."""
    moved = both.change_
    beside = f"{moved['rows']} landmarks, which stand for the old rows" if alone else f"{moved['rows']} old rows"
    voice.say(f"{n_new} new rows beside {beside}.")
    voice.say(
        f"{moved['landmarks_kept']} landmarks kept, {moved['landmarks_added']} added where new rows were outside what "
        "the fit saw."
    )
    voice.say(
        f"The coordinates of the {'landmarks' if alone else 'old rows'} moved by {moved['relative']:.1%} (root mean "
        f"square), at most by {moved['largest']:.1%}; R² {moved['r2']:.3f}."
    )
    for axis, correlation in enumerate(moved["correlations"], start=1):
        voice.say(f"  coordinate {axis} correlates by {correlation:.3f} with what it was")


def _document(both: Any, new: Any, old: Any) -> dict[str, Any]:
    return {
        "samples_new": _count(new),
        "samples_old": None if old is None else _count(old),
        "landmarks": len(both.landmarks_),
        "change": both.change_,
        "n_common": both.n_common_,
        "eigenvalues": both.eigenvalues_.tolist(),
        "quality": both.quality_,
        "warnings": both.warnings_,
    }

"""`dlcca transform` and `dlcca refit`: new recordings in the coordinates of a model, or added to it."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from dlcca.cli.run import is_toml
from dlcca.cli.verb import Cluster, Console, MissingChunks, Model, Workers, verb
from dlcca.errors import SettingsError, Untrusted, suggest
from dlcca.settings import runfile

#: Keys of [views.NAME] that must be those of the model; files and channels may differ.
SAME_AS_MODEL = ("features", "scaling", "pca_components", "resample", "window_s", "step_s")


@verb(example="dlcca transform run.zarr monday.edf tuesday.edf --out week.zarr")
def transform(
    console: Console,
    model: Model,
    files: Annotated[list[str], Argument(metavar="FILE...", help="Recordings, a store of views, or NAME=left.zarr.")],
    out: Annotated[str, Option(help="The store that is written.")],
    cluster: Cluster = None,
    workers: Workers = 1,
    missing_chunks: MissingChunks = "refuse",
) -> None:
    """Give new recordings the coordinates of a fitted model.

    They are processed as the recordings of the fit were: the same channels, windows, features and scaling. Each row
    also gets its distance to the data of the fit; above 1 it is outside. Files without the channels of a view are
    accepted if the fusion does not need it. A second call computes only what is missing.
    """
    from dlcca.clusters import LazyClient
    from dlcca.fitting import transform as transforming
    from dlcca.storage import lock, places, transformed

    places.refuse_store(out, transformed.FORM, inputs=[model, *addresses(files)], setting="--out")
    with lock.held(out, "dlcca transform"), LazyClient(cluster, workers, None, console.warn) as lazy:
        sources, clock = new_views(console, model, files, runfile.recordings_of(out), lazy, missing_chunks)
        job = transforming.prepared(out, model, sources, clock)
        with console.progress() as progress:
            header = transforming.run(job, lazy.client(job.stage.n_blocks), progress)
    valid, outside = header["valid"], header["outside"]
    console.say(f"{header['samples']} rows, {valid} of them valid, {outside} outside the data of the fit.")
    console.say(*(f"  note: {note}" for note in header.get("notes", ())))
    if header["missing_views"]:
        console.say(f"  without {', '.join(header['missing_views'])}, which the files do not have")
    console.next_steps(
        ("for other tools", f"dlcca export {out} --to parquet --out {Path(out).stem}.parquet"),
        ("add it to the model", f"dlcca refit {model} {' '.join(files)} --out both.zarr"),
        ("use it in Python", f"zarr.open_group({out!r})['embedding']"),
    )
    share = f"{outside / max(valid, 1):.0%} of the rows are outside the data of the fit"
    doubts = [f"{share}; are these the same sensors, in the same place?"] if outside * 2 > valid else []
    console.finish({"store": out, **header}, doubts)


def addresses(files: list[str]) -> list[str]:
    """The addresses in the FILE... of a verb, those of NAME=array too."""
    return [*files, *(file.partition("=")[2] for file in files if "=" in file)]


def new_views(
    console: Console, model: str, files: list[str], at: str, lazy: Any, chunks: str = "refuse"
) -> tuple[dict[str, Any], str]:
    """The views of new recordings by name, and the store of views that they are, if any: ``at``, if made here."""
    from dlcca.estimator import open_model
    from dlcca.fitting import transform as transforming
    from dlcca.recordings import ingest as ingesting
    from dlcca.recordings import new_recordings

    fitted = open_model(model)
    if len(files) == 1 and (within := _views_within(files[0])):
        new_recordings.refuse_other_views(within, fitted.recordings_)
        return transforming.views_of_store(within), within
    if fitted.recordings_ is None:
        return transforming.named_arrays(files, fitted.model_.names, chunks), ""
    if any("=" in file and not Path(file).exists() for file in files):
        raise SettingsError(f"{model} was fitted to recordings: give files of recordings, not NAME=array.")
    job, line = new_recordings.prepared(at, fitted.recordings_, files)
    fitted.model_.check_present([view.name for view in job.views])
    with console.progress() as progress:
        header = ingesting.run(job, line, lazy.client(job.n_blocks), progress)
    console.say(*ingesting.summary(header))
    return transforming.views_of_store(at), at


@verb(example="dlcca refit run.zarr tuesday.edf --out both.zarr")
def refit(
    console: Console,
    model: Model,
    files: Annotated[
        list[str],
        Argument(metavar="FILE...", help="Recordings; a store of views; arrays, as NAME=left.zarr; or a run.toml."),
    ],
    out: Annotated[str, Option(help="The model that is written; one that is there is replaced.")],
    old: Annotated[
        list[str] | None, Option(metavar="STORE|NAME=ARRAY|run.toml", help="The rows of the fit, if not in the run.")
    ] = None,
    alone: Annotated[bool, Option("--alone", help="Without the old rows: landmarks replace them.")] = False,
    align: Annotated[Literal["rotation", "sign", "none"], Option(help="Of the axes with the old ones.")] = "rotation",
    cluster: Cluster = None,
    workers: Workers = 1,
) -> None:
    """Append new recordings to a fitted model.

    Old and new rows are fitted together. The landmarks are kept, and new rows that are outside the data of the fit get
    landmarks of their own. The axes are aligned with the old ones, and how far the old rows moved is printed. The views
    of new recordings are kept beside the model, both-views.zarr for both.zarr.
    """
    from dlcca.clusters import LazyClient
    from dlcca.estimator import open_model
    from dlcca.fitting.lazy import is_lazy
    from dlcca.storage import model as model_store
    from dlcca.storage import places, views
    from dlcca.storage import run as run_store
    from dlcca.storage.files import is_remote

    stem = out.rstrip("/").removesuffix(".zarr")
    beside = f"{stem}-views.zarr"
    # Before anything is fitted: can the model and the new views be written there?
    if is_remote(out):
        raise SettingsError(f"--out {out} is not on this machine's disks; give a folder here, and copy it there.")
    inputs = [model, *addresses([*files, *(old or [])])]
    places.refuse_store(out, model_store.FORM, inputs=inputs, setting="--out", replace=True)
    places.refuse_store(beside, views.FORM, setting="--out, beside which the views are written")
    fitted = open_model(model).set_params(random_state=0)
    if alone and old:
        raise SettingsError("--alone leaves out the old rows, and --old says where they are; leave one of them out.")
    if not (alone or old) and run_store.is_finished(model) and (within := _views_within(model)):
        old = [within]
    before = _rows_at(old, fitted) if old else None
    with LazyClient(cluster, workers, None, console.warn) as lazy:
        new, clock = _new_rows(console, model, fitted, files, beside, lazy)
        # What is in memory is fitted here.
        large = any(is_lazy(X) for rows in (new, before or {}) for X in rows.values())
        if large and before is None:
            raise SettingsError(
                "the new rows are too many for memory, and are refitted block by block together with the old ones: say "
                "with --old where these are, and leave out --alone."
            )
        console.step("fitting old and new rows together")
        with warnings.catch_warnings(action="ignore", category=Untrusted):  # printed at the end
            both = fitted.set_params(client=lazy.client() if large else None).refit(new, before, align=align)
        console.step(f"writing {out}")
        both.save(out)
    n_new = next(iter(new.values())).shape[0]
    change, first = both.change_, "landmarks" if before is None else "old rows"
    console.say(
        f"{n_new} new rows beside {change['rows']} {first}{', which stand for the old rows' * (before is None)}.",
        f"{change['landmarks_kept']} landmarks kept, {change['landmarks_added']} added where new rows were outside "
        "what the fit saw.",
        f"The coordinates of the {first} moved by {change['relative']:.1%} (root mean square), at most by "
        f"{change['largest']:.1%}; R² {change['r2']:.3f}.",
        *(f"  coordinate {i}: correlation {r:.3f} with the old one" for i, r in enumerate(change["correlations"], 1)),
    )
    again = clock or ("FILE..." if files[0].endswith(".toml") else " ".join(files))
    console.next_steps(
        ("coordinates with times", f"dlcca transform {out} {again} --out {stem}-new.zarr"),
        ("use it in Python", f"dlcca.open_model({out!r}).embedding_, the {first} first"),
        ("draw it in Python", f"dlcca.open_model({out!r}).plot.embedding()"),
    )
    sizes = {"samples_new": n_new, "samples_old": None if before is None else next(iter(before.values())).shape[0]}
    result = {name: getattr(both, f"{name}_") for name in ("change", "n_common", "quality", "warnings")}
    result |= {"landmarks": len(both.landmarks_), "eigenvalues": both.eigenvalues_.tolist()}
    console.finish({"store": out, "model": model, "views": clock or None, **sizes, **result}, both.warnings_)


def _new_rows(
    console: Console, model: str, fitted: Any, files: list[str], place: str, lazy: Any
) -> tuple[Mapping[str, Any], str]:
    """New views by name, and the store of views that they are, if any: ``place``, if they are made of recordings."""
    from dlcca.recordings.recorded_views import open_views

    if is_toml(files):
        requested = runfile.read(files[0])
        if not requested.recordings:
            return _rows_at(files, fitted), ""
        # It would have to make its views as those of the model were made.
        if (made := fitted.recordings_) is None:
            hint = "and the model was fitted to arrays; give arrays, as NAME=array."
            raise SettingsError(f"{files[0]} names recordings, {hint}")
        views = made.facts["views"]
        for name, recipe in requested.recordings.items():
            if name not in views:
                raise SettingsError(f"{files[0]}: the model has no view {name!r}; {suggest(name, views)}")
            known = {**views[name]["recipe"], **{key: made.facts[key] for key in ("window_s", "step_s")}}
            given = json.loads(json.dumps(recipe.to_dict()))  # as the model has it: lists, not tuples
            for key in SAME_AS_MODEL:
                if given[key] not in (None, known[key]):
                    values = f"{given[key]!r}, and the model was fitted with {known[key]!r}"
                    raise SettingsError(f"{files[0]}: [views.{name}] {key} is {values}; give the same value.")
        files = list(dict.fromkeys(file for recipe in requested.recordings.values() for file in recipe.source))
    sources, clock = new_views(console, model, files, place, lazy)
    return (open_views(clock) if clock else _arrays(sources)), clock


def _rows_at(files: list[str], fitted: Any) -> Mapping[str, Any]:
    """Views that exist: those of a run.toml, in a store, or arrays as NAME=array."""
    from dlcca.fitting.job import array_sources
    from dlcca.fitting.transform import named_arrays
    from dlcca.recordings.recorded_views import open_views

    if is_toml(files):
        requested = runfile.read(files[0])
        if requested.recordings:
            return open_views(requested.ingested)
        return _arrays(array_sources(requested.views, requested.missing_chunks))
    if len(files) == 1 and (within := _views_within(files[0])):
        return open_views(within)
    return _arrays(named_arrays(files, fitted.model_.names))


def _views_within(store: str) -> str:
    """The store of views that a store is, or that a run or the coordinates of recordings hold; "" if there is none."""
    from dlcca.storage.views import is_views

    return next((place for place in (store, runfile.recordings_of(store)) if is_views(place)), "")


def _arrays(sources: Mapping[str, Any]) -> dict[str, Any]:
    """Zarr arrays: read into memory, or left on disk if they are large."""
    from dlcca.recordings import recorded_views

    opened = {name: source.open() for name, source in sources.items()}
    for source in sources.values():
        source.check_complete()
    if sum(X.nbytes for X in opened.values()) > recorded_views.IN_MEMORY_BYTES:
        import dask.array as da

        return {name: da.from_array(X, chunks=X.chunks) for name, X in opened.items()}
    return {name: source.read(slice(0, opened[name].shape[0])) for name, source in sources.items()}
